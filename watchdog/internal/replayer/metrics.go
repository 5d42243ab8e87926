package replayer

import "github.com/prometheus/client_golang/prometheus"

// The ways in which a replay ends.
const (
	resultDone    = "done"
	resultFailed  = "failed"
	resultStopped = "stopped"
)

type metrics struct {
	due, running, doneAt   prometheus.Gauge
	runs                   *prometheus.CounterVec
	objects, events, bytes prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	const prefix = "spillway_watchdog_replay_"
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	m := &metrics{
		due:     gauge("due", "1 while the box was on its fallback since the last replay that came to its end."),
		running: gauge("running", "1 while a replay runs."),
		doneAt:  gauge("last_done_timestamp_seconds", "When a replay last came to its end; 0 is never."),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "runs_total", Help: "Replays that ended, by how.",
		}, []string{"result"}),
		objects: counter("objects_total", "Objects replayed to their end."),
		events:  counter("events_total", "Events replayed."),
		bytes:   counter("bytes_total", "Bytes of events replayed."),
	}
	for _, result := range []string{resultDone, resultFailed, resultStopped} {
		m.runs.WithLabelValues(result)
	}
	if r != nil {
		r.MustRegister(m.due, m.running, m.doneAt, m.runs, m.objects, m.events, m.bytes)
	}
	return m
}

func (m *metrics) ended(result string, r *Report) {
	m.runs.WithLabelValues(result).Inc()
	if r == nil {
		return
	}
	// A counter takes no negative number, whatever a program may print.
	m.objects.Add(float64(max(0, r.Objects.Finished)))
	m.events.Add(float64(max(0, r.Events.Delivered)))
	m.bytes.Add(float64(max(0, r.Bytes)))
}

func (m *metrics) remember(now memory) {
	m.due.Set(0)
	if now.Due {
		m.due.Set(1)
	}
	if !now.DoneAt.IsZero() {
		m.doneAt.Set(float64(now.DoneAt.UnixMilli()) / 1000)
	}
}
