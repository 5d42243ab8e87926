package delivery

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spillway/collector/internal/sink"
)

type metrics struct {
	records *prometheus.CounterVec
	writes  *prometheus.CounterVec
	faults  *prometheus.CounterVec
	probes  *prometheus.CounterVec
	flushes *prometheus.CounterVec
	batch   prometheus.Histogram
	age     prometheus.Histogram
	burials prometheus.Counter
	reads   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, f *Forwarder) *metrics {
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spillway_collector_delivery_" + name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "spillway_collector_delivery_" + name, Help: help})
	}
	m := &metrics{
		records: counters("records_total", "Records by what came of an attempt; one record counts once for each attempt.", "outcome",
			"written", "throttled", "transient", "permanent"),
		writes: counters("writes_total", "Batches by what came of the write.", "result", "ok", "partial", "throttled", "failed"),
		faults: counters("faults_total", "Batches in which a record failed, by where the fault lies.", "cause",
			string(sink.CauseAuth), string(sink.CauseConfig), string(sink.CauseNetwork), string(sink.CauseServer)),
		probes:  counters("probes_total", "Probes of the primary while the fallback is in use.", "result", "good", "bad"),
		flushes: counters("flushes_total", "Flushes by how they ended.", "result", "drained", "kept"),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "spillway_collector_delivery_batch_records", Help: "Records in a batch.",
			Buckets: []float64{1, 5, 10, 50, 100, 250, 500, 1000, 5000, 10000, 50000},
		}),
		age: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "spillway_collector_delivery_record_age_seconds", Help: "Age of the oldest record in a batch when the batch was written: from receipt to acknowledgement.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400},
		}),
		burials: counter("dead_letter_failures_total", "Times records that can never be delivered could not be stored as dead letters."),
		reads:   counter("read_failures_total", "Times the spool could not be read."),
	}
	if registerer == nil {
		return m
	}
	gauge := func(name, help string, value func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "spillway_collector_delivery_" + name, Help: help}, func() float64 { return value(f.Status()) })
	}
	prometheus.WrapRegistererWith(prometheus.Labels{"lane": string(f.lane)}, registerer).MustRegister(
		m.records, m.writes, m.faults, m.probes, m.flushes, m.batch, m.age, m.burials, m.reads,
		gauge("in_flight_writes", "Writes under way.", func(s Status) float64 { return float64(s.InFlight) }),
		gauge("held_records", "Records in memory.", func(s Status) float64 { return float64(s.HeldRecords) }),
		gauge("held_bytes", "Memory taken by records.", func(s Status) float64 { return float64(s.HeldBytes) }),
		gauge("parked_records", "Records that can neither be delivered nor stored as dead letters; a restart tries again.", func(s Status) float64 { return float64(s.ParkedRecords) }),
		gauge("rate_limit_records_per_second", "Rate the sink is held to after throttling; 0 is no limit.", func(s Status) float64 { return s.RateLimit }),
		gauge("drain_records_per_second", "Records leaving the backlog, over about 10 s.", func(s Status) float64 { return s.DrainPerSecond }),
		gauge("outage_seconds", "How long the sink in use has failed every write while records wait.", func(s Status) float64 { return s.OutageFor.Seconds() }),
		gauge("circuit_open", "1 while the sink counts as down.", func(s Status) float64 {
			if s.Sink.Circuit == "closed" {
				return 0
			}
			return 1
		}),
	)
	return m
}

// observe counts an attempt.
func (m *metrics) observe(a *attempt, v verdict) {
	m.batch.Observe(float64(len(a.items)))
	for _, c := range []struct {
		class sink.Class
		items []*item
	}{{sink.Written, v.written}, {sink.Throttled, v.throttled}, {sink.Transient, v.failed}, {sink.Permanent, v.condemned}} {
		if len(c.items) > 0 {
			m.records.WithLabelValues(c.class.String()).Add(float64(len(c.items)))
		}
	}
	if v.fault != nil {
		m.faults.WithLabelValues(string(v.fault.Cause)).Inc()
	}
	result := "ok"
	switch {
	case v.whole():
		result = "failed"
	case len(v.throttled) == len(a.items):
		result = "throttled"
	case len(v.written) < len(a.items):
		result = "partial"
	}
	m.writes.WithLabelValues(result).Inc()
	if len(v.written) > 0 {
		oldest := v.written[0].At
		for _, it := range v.written {
			if it.At.Before(oldest) {
				oldest = it.At
			}
		}
		m.age.Observe(max(0, time.Since(oldest).Seconds()))
	}
}
