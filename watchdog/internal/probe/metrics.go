package probe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spillway/watchdog/internal/decide"
)

type metrics struct {
	polls    *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_watchdog_polls_total", Help: "Questions for the health report, by how they ended.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "spillway_watchdog_poll_duration_seconds", Help: "How long the health report took, answered or not.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5},
		}),
	}
	for _, reach := range decide.Reaches() {
		m.polls.WithLabelValues(string(reach))
	}
	if r != nil {
		r.MustRegister(m.polls, m.duration)
	}
	return m
}

func (m *metrics) poll(reach decide.Reach, took time.Duration) {
	m.polls.WithLabelValues(string(reach)).Inc()
	m.duration.Observe(took.Seconds())
}
