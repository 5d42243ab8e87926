package replayer

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

func TestMain(m *testing.M) {
	if script := os.Getenv(childScript); script != "" {
		os.Exit(child(script))
	}
	goleak.VerifyTestMain(m)
}

// healthy is a box on its primary with nothing the matter.
func healthy() Sight {
	return Sight{Fresh: true, Instance: "box-1", State: decide.State{
		Mode:      decide.ModeRegion{Phase: decide.Primary, File: mode.Primary, Rev: 7},
		Liveness:  decide.LivenessRegion{Phase: decide.Up},
		Authority: decide.AuthorityRegion{Phase: decide.Auto},
		Seen:      decide.Seen{Mode: mode.Primary},
	}}
}

// bench is a replayer in a bubble of its own time, with a runner that ends a
// replay when the test says so or when it is told to stop.
type bench struct {
	t       *testing.T
	cfg     Config
	path    string
	log     *strings.Builder
	replays chan Outcome
	metrics *prometheus.Registry

	mu    sync.Mutex // guards what follows
	sight Sight
	told  []string
	begun []time.Time
	names []string
	now   int // replays that run
	most  int
	deaf  bool // the runner finishes well, though told to stop
}

func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, cfg: DefaultConfig(), path: filepath.Join(dir, "replay.json"), log: &strings.Builder{}, replays: make(chan Outcome), sight: healthy()}
		b.cfg.Replay = true
		f(b)
		if b.most > 1 {
			t.Errorf("%d replays ran at once", b.most)
		}
	})
}

// start runs a replayer and returns what stops it.
func (b *bench) start() (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	b.metrics = prometheus.NewRegistry()
	log := logrus.New()
	log.SetOutput(b.log)
	r := New(Options{Config: b.cfg, Path: b.path, Look: b.look, Runner: b, Tell: b.tell, Log: logrus.NewEntry(log), Metrics: b.metrics})
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	}
}

func (b *bench) look() Sight {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sight
}

func (b *bench) see(change func(s *Sight)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sight = healthy()
	change(&b.sight)
}

func (b *bench) tell(sentence string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, sentence)
}

func (b *bench) Run(ctx context.Context, instance string) Outcome {
	b.mu.Lock()
	b.begun, b.names = append(b.begun, time.Now()), append(b.names, instance)
	b.now++
	b.most = max(b.most, b.now)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.now--
		b.mu.Unlock()
	}()
	select {
	case o := <-b.replays:
		return o
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.deaf {
			return Outcome{Report: &Report{}}
		}
		return Outcome{Err: context.Cause(ctx), Report: &Report{Stopped: true}}
	}
}

// pass lets time go by.
func (b *bench) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// outage lets the box be on its fallback for a minute and come back.
func (b *bench) outage() {
	b.see(func(s *Sight) {
		s.State.Mode.Phase, s.State.Seen.Mode, s.State.Mode.Rev = decide.Fallback, mode.Fallback, 8
	})
	b.pass(time.Minute)
	b.see(func(s *Sight) { s.State.Mode.Rev = 9 })
}

// runs checks how many replays were begun so far, and how many of them run.
func (b *bench) runs(when string, begun, running int) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.begun) != begun || b.now != running {
		b.t.Errorf("%s: %d replays were begun and %d run, want %d and %d; told: %q", when, len(b.begun), b.now, begun, running, b.told)
	}
}

func (b *bench) end(o Outcome) {
	b.replays <- o
	synctest.Wait()
}

func (b *bench) wantTold(parts ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, part := range parts {
		if !slices.ContainsFunc(b.told, func(s string) bool { return strings.Contains(s, part) }) {
			b.t.Errorf("%q was not told, but %q", part, b.told)
		}
	}
}

// metric returns the sum of a metric over its labels, or of the one with label.
func (b *bench) metric(name, label string) float64 {
	b.t.Helper()
	families, err := b.metrics.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	sum, found := 0.0, false
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "spillway_watchdog_replay_"+name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				sum, found = sum+m.GetCounter().GetValue()+m.GetGauge().GetValue(), true
			}
		}
	}
	if !found {
		b.t.Errorf("there is no metric %s", name)
	}
	return sum
}
