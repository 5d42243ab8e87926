package ingest

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spillway/collector/internal/sink"
)

// reason is why an event was not taken, as a metric label.
type reason string

const (
	reasonBackpressure reason = "backpressure" // the gate is shut
	reasonBusy         reason = "busy"         // too many bytes in flight
	reasonStore        reason = "store"        // storing failed
	reasonTimeout      reason = "timeout"      // storing took too long
	reasonDeadLetters  reason = "dead_letters" // keeping an oversize payload failed
	reasonLimits       reason = "limits"       // request line or headers too long
	reasonTooLarge     reason = "too_large"    // body over its limit
	reasonTooSlow      reason = "too_slow"     // request did not arrive in time
	reasonCutOff       reason = "cut_off"      // body ended early or is malformed
)

type kind int

const (
	kindPost kind = iota
	kindPixel
	kindOther
	kinds
)

var kindNames = [kinds]string{"post", "pixel", "other"}

type metrics struct {
	accepted, refused atomic.Uint64

	requests  *prometheus.CounterVec
	usual     [kinds]prometheus.Counter // of requests, for status 200
	refusals  *prometheus.CounterVec
	durations [kinds]prometheus.Observer
	good, bad prometheus.Counter
	oversize  prometheus.Counter
	bodyBytes prometheus.Counter
	malformed prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, s *Server) *metrics {
	const ns, sub = "spillway_collector", "ingest"
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string, value func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: ns, Subsystem: sub, Name: name, Help: help}, value))
	}
	m := &metrics{
		requests:  vector("requests_total", "Requests answered, by kind and status.", "kind", "status"),
		refusals:  vector("refused_total", "Event requests not taken, by reason.", "reason"),
		oversize:  counter("oversize_total", "Payloads larger than one record may be, kept in the dead letters."),
		bodyBytes: counter("body_bytes_total", "Bytes of request bodies read."),
		malformed: counter("malformed_total", "Requests that ended before they could be understood."),
	}
	records := vector("records_total", "Records stored, by lane.", "lane")
	m.good, m.bad = records.WithLabelValues(string(sink.Good)), records.WithLabelValues(string(sink.Bad))
	for _, r := range []reason{reasonBackpressure, reasonBusy, reasonStore, reasonTimeout, reasonDeadLetters,
		reasonLimits, reasonTooLarge, reasonTooSlow, reasonCutOff} {
		m.refusals.WithLabelValues(string(r)) // so that it is 0 rather than absent
	}
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: ns, Subsystem: sub, Name: "request_duration_seconds",
		Help:    "From the headers of a request to its answer, by kind.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"kind"})
	reg.MustRegister(durations)
	for k, name := range kindNames {
		m.usual[k] = m.requests.WithLabelValues(name, "200")
		m.durations[k] = durations.WithLabelValues(name)
	}
	gauge("in_flight_bytes", "Memory charged to requests that are being answered.", func() float64 { return float64(s.inFlight.Load()) })
	gauge("connections", "Open connections.", func() float64 { return float64(s.Connections()) })
	return m
}

func (m *metrics) answered(k kind, status int, took time.Duration) {
	if status == http.StatusOK {
		m.usual[k].Inc()
	} else {
		m.requests.WithLabelValues(kindNames[k], strconv.Itoa(status)).Inc()
	}
	m.durations[k].Observe(took.Seconds())
}

func (m *metrics) turnedAway(r *refusal) {
	if r.status == http.StatusServiceUnavailable {
		m.refused.Add(1)
	}
	m.refusals.WithLabelValues(string(r.reason)).Inc()
}

func (m *metrics) stored(lane sink.Lane, records int) {
	if lane == sink.Bad {
		m.bad.Add(float64(records))
		return
	}
	m.accepted.Add(uint64(records))
	m.good.Add(float64(records))
}
