package admission

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	level       prometheus.Gauge
	transitions *prometheus.CounterVec
	pressure    *prometheus.GaugeVec
	full        prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		level: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "spillway_collector_admission_level",
			Help: "How far the gate is shut: 0 accepting, 1 shedding (POSTs refused), 2 refusing.",
		}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_collector_admission_transitions_total",
			Help: "Changes of level caused by the load, by the level reached.",
		}, []string{"to"}),
		pressure: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "spillway_collector_admission_pressure_ratio",
			Help: "How near each limit is: at 1 POSTs are refused.",
		}, []string{"limit"}),
		full: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_collector_admission_full_hints_total",
			Help: "Appends that failed for want of room and shut the gate.",
		}),
	}
	for _, level := range []Level{Accepting, Shedding, Refusing} {
		m.transitions.WithLabelValues(level.String())
	}
	if registerer != nil {
		registerer.MustRegister(m.level, m.transitions, m.pressure, m.full)
	}
	return m
}

func (m *metrics) observe(pressures []pressure) {
	for _, p := range pressures {
		if p.limit != "full" {
			m.pressure.WithLabelValues(p.limit).Set(p.ratio)
		}
	}
}
