package health

import (
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"spillway/shared/healthapi"
)

// world is a collector whose parts say what a test tells them to say.
type world struct {
	intake  healthapi.Intake
	backlog healthapi.Backlog
	sink    healthapi.Sink
	bad     healthapi.Lane
	parts   map[string]healthapi.Part
	mode    Mode
	totals  Totals
	broken  string
}

func newWorld() *world {
	return &world{
		intake: healthapi.Intake{Accepting: true, AcceptingPixels: true},
		sink:   healthapi.Sink{Circuit: "closed"},
		bad:    healthapi.Lane{Sink: healthapi.Sink{Circuit: "closed"}},
		mode:   Mode{Name: "primary"},
	}
}

func (w *world) sources() Sources {
	return Sources{
		Intake:   func() healthapi.Intake { return w.intake },
		Backlog:  func() healthapi.Backlog { return w.backlog },
		Kinesis:  func() healthapi.Kinesis { return healthapi.Kinesis{Stream: "good"} },
		Fallback: func() healthapi.Fallback { return healthapi.Fallback{} },
		Sink:     func() healthapi.Sink { return w.sink },
		Lanes:    func() map[string]healthapi.Lane { return map[string]healthapi.Lane{"bad": w.bad} },
		Flush:    func() healthapi.Flush { return healthapi.Flush{} },
		Parts:    func() map[string]healthapi.Part { return w.parts },
		Mode:     func() Mode { return w.mode },
		Totals:   func() Totals { return w.totals },
		Broken:   func() string { return w.broken },
		Problems: func() []string { return nil },
	}
}

func TestReporter_stateFollowsWhatTheParts(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		want   healthapi.State
	}{
		"all well":          {func(*world) {}, healthapi.StateOK},
		"posts shed":        {func(w *world) { w.intake.Accepting = false }, healthapi.StateRefusing},
		"pixels refused":    {func(w *world) { w.intake.AcceptingPixels = false }, healthapi.StateRefusing},
		"sink fails":        {func(w *world) { w.sink.ConsecutiveFailures, w.sink.Circuit = 9, "open" }, healthapi.StateDegraded},
		"one failure":       {func(w *world) { w.sink.ConsecutiveFailures = 1 }, healthapi.StateOK},
		"bad lane fails":    {func(w *world) { w.bad.Sink.ConsecutiveFailures, w.bad.Sink.Circuit = 9, "half_open" }, healthapi.StateDegraded},
		"part is stuck":     {func(w *world) { w.parts = map[string]healthapi.Part{"delivery": {Alive: false}} }, healthapi.StateDegraded},
		"letters not kept":  {func(w *world) { w.broken = "dead letters cannot be stored" }, healthapi.StateDegraded},
		"mode file damaged": {func(w *world) { w.mode.FileError = "mode file is empty" }, healthapi.StateDegraded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			var told []healthapi.State
			r := New(Identity{}, w.sources(), func(_, to healthapi.State, _ string) { told = append(told, to) })
			if got := r.Report().State; got != healthapi.StateStarting {
				t.Fatalf("before Started: %s, want starting", got)
			}
			r.Started()
			tc.change(w)
			if got := r.Report().State; got != tc.want {
				t.Fatalf("got %s, want %s", got, tc.want)
			}
			r.Stopping()
			if got := r.Report().State; got != healthapi.StateStopping {
				t.Fatalf("got %s, want stopping", got)
			}
			if len(told) != 2 {
				t.Fatalf("told of %v, want two changes", told)
			}
		})
	}
}

func TestReporter_seqRisesWithEveryReport(t *testing.T) {
	r := New(Identity{}, newWorld().sources(), nil)
	last := uint64(0)
	for range 5 {
		if got := r.Report().Seq; got != last+1 {
			t.Fatalf("seq %d after %d", got, last)
		}
		last++
		r.Sample() // sampling and scraping are no reports
	}
}

func TestReporter_growthAndTimeToFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.backlog = healthapi.Backlog{LimitBytes: 1_000_000, DiskFreeBytes: 10_000_000}
		r := New(Identity{}, w.sources(), nil)
		for range 120 {
			r.Sample()
			<-time.After(time.Second) // in the bubble, no real time passes
			w.backlog.Bytes += 1000
			w.backlog.Events += 10
			w.totals.AcceptedEvents += 10
		}
		rep := r.Report()
		if got := rep.Backlog.GrowthBytesPerSecond; math.Abs(got-1000) > 1 {
			t.Errorf("growth %v, want 1000", got)
		}
		if got := rep.Intake.EventsPerSecond; math.Abs(got-10) > 0.1 {
			t.Errorf("intake %v events/s, want 10", got)
		}
		if got := rep.Backlog.SecondsToFull; got == nil || math.Abs(*got-880) > 1 {
			t.Errorf("seconds to full %v, want 880", got)
		}
		if rep.Drain.ETASeconds != nil {
			t.Errorf("eta %v while the backlog grows", *rep.Drain.ETASeconds)
		}
		for range 60 { // it drains at 20 events a second
			r.Sample()
			<-time.After(time.Second) // in the bubble, no real time passes
			w.backlog.Bytes -= 1000
			w.backlog.Events -= 10
			w.totals.AcceptedEvents += 10
			w.totals.LeftEvents += 20
		}
		rep = r.Report()
		if rep.Backlog.SecondsToFull != nil {
			t.Errorf("seconds to full %v while it shrinks", *rep.Backlog.SecondsToFull)
		}
		if got := rep.Drain.ETASeconds; got == nil || math.Abs(*got-60) > 1 {
			t.Errorf("eta %v, want 60", got)
		}
		if got := len(r.trend.samples); got > 40 {
			t.Errorf("%d samples kept, want about 31", got)
		}
	})
}

func TestReporter_metricsFollowTheReport(t *testing.T) {
	w := newWorld()
	age := 312.5
	w.backlog = healthapi.Backlog{Events: 7, Bytes: 700, LimitBytes: 1000, OldestAgeSeconds: &age}
	r := New(Identity{Version: "1.2.3"}, w.sources(), nil)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r)
	want := `
# HELP spillway_collector_backlog_events Events on disk that no destination has acknowledged.
# TYPE spillway_collector_backlog_events gauge
spillway_collector_backlog_events 7
# HELP spillway_collector_backlog_ratio Backlog as a share of its limit.
# TYPE spillway_collector_backlog_ratio gauge
spillway_collector_backlog_ratio 0.7
# HELP spillway_collector_oldest_event_age_seconds Age of the oldest event that waits; absent when none waits.
# TYPE spillway_collector_oldest_event_age_seconds gauge
spillway_collector_oldest_event_age_seconds 312.5
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"spillway_collector_backlog_events", "spillway_collector_backlog_ratio",
		"spillway_collector_oldest_event_age_seconds", "spillway_collector_seconds_to_full")
	if err != nil {
		t.Error(err)
	}
}

func TestIdentify_namesThisProcess(t *testing.T) {
	a, err := Identify("box", "1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Identify("box", "1")
	if err != nil {
		t.Fatal(err)
	}
	if a.PID != os.Getpid() || a.PIDStartTicks == 0 || a.PIDNamespace == 0 {
		t.Errorf("identity is not whole: %+v", a)
	}
	if a.BootID == b.BootID || a.PIDStartTicks != b.PIDStartTicks {
		t.Errorf("boot ids %s, %s; start ticks %d, %d", a.BootID, b.BootID, a.PIDStartTicks, b.PIDStartTicks)
	}
}

func TestStartTicks_namesWithBrackets(t *testing.T) {
	stat := "42 (a ) (b) S 1 42 42 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 5 0 987654 1 2 3"
	if got := startTicks(stat); got != 987654 {
		t.Errorf("got %d, want 987654", got)
	}
	for _, damaged := range []string{"", "42", "42 (x", ")", "42 (x) S 1"} {
		if got := startTicks(damaged); got != 0 {
			t.Errorf("%q: got %d, want 0", damaged, got)
		}
	}
}
