package deadletter

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	letters  *prometheus.CounterVec
	failures prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, s *Store) *metrics {
	m := &metrics{
		letters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_collector_dead_letters_total",
			Help: "Dead letters made durable, by lane.",
		}, []string{"lane"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_collector_dead_letter_failures_total",
			Help: "Calls that could not store dead letters; nothing was lost, the caller keeps them.",
		}),
	}
	m.letters.WithLabelValues("good")
	m.letters.WithLabelValues("bad")
	if registerer != nil {
		registerer.MustRegister(m.letters, m.failures,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "spillway_collector_dead_letter_bytes",
				Help: "Size of all dead-letter files.",
			}, func() float64 { return float64(s.Stats().Bytes) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "spillway_collector_dead_letter_limit_bytes",
				Help: "Size at which no more dead letters are taken.",
			}, func() float64 { return float64(s.Stats().LimitBytes) }),
		)
	}
	return m
}
