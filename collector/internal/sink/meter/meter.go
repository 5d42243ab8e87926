// Package meter counts what sinks do, in the same metrics for all of them.
package meter

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spillway/collector/internal/sink"
)

// Meter counts the Writes of one sink. It is safe for concurrent use.
type Meter struct {
	records  *prometheus.CounterVec
	failures *prometheus.CounterVec
	bytes    prometheus.Counter
	calls    prometheus.Counter
	seconds  prometheus.Histogram
}

// New returns the meter of sinks of this type on this lane. Sinks that follow
// one another, as after a reload, share it. The registerer may be nil.
func New(registerer prometheus.Registerer, kind string, lane sink.Lane) *Meter {
	labels := prometheus.Labels{"sink": kind, "lane": string(lane)}
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "spillway", Subsystem: "collector_sink", Name: name, Help: help, ConstLabels: labels}
	}
	return &Meter{
		records: register(registerer, prometheus.NewCounterVec(opts("records_total",
			"Records of which a Write said what became of them, by that."), []string{"class"})),
		failures: register(registerer, prometheus.NewCounterVec(opts("failures_total",
			"Records that were not written, by where the fault lies."), []string{"cause"})),
		bytes: register(registerer, prometheus.NewCounter(opts("written_bytes_total",
			"Bytes of the records that were written, keys included."))),
		calls: register(registerer, prometheus.NewCounter(opts("calls_total",
			"Calls that were made to the destination to write records."))),
		seconds: register(registerer, prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "spillway", Subsystem: "collector_sink", Name: "write_duration_seconds", ConstLabels: labels,
			Help:    "How long Writes took.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		})),
	}
}

// register returns c, or what is registered already in its place.
func register[C prometheus.Collector](registerer prometheus.Registerer, c C) C {
	if registerer == nil {
		return c
	}
	err := registerer.Register(c)
	if e, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return e.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // two metrics of one name differ: a mistake in the program
	}
	return c
}

// Call counts one call to the destination.
func (m *Meter) Call() { m.calls.Inc() }

// Write counts the outcomes of a Write that began at start.
func (m *Meter) Write(start time.Time, records []sink.Record, outcomes []sink.Outcome) {
	m.seconds.Observe(time.Since(start).Seconds())
	var bytes int64
	for i, o := range outcomes {
		m.records.WithLabelValues(o.Class.String()).Inc()
		if o.Class == sink.Written {
			bytes += records[i].Size()
		} else if o.Err != nil {
			m.failures.WithLabelValues(string(o.Err.Cause)).Inc()
		}
	}
	m.bytes.Add(float64(bytes))
}
