package control

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/journal"
	"spillway/watchdog/internal/process"
)

func TestMain(m *testing.M) {
	collectortest.Main()
	goleak.VerifyTestMain(m)
}

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

// bench is a loop with everything around it in memory. What happens is noted in
// order in events.
type bench struct {
	*Loop
	registry *prometheus.Registry

	mu       sync.Mutex // guards what follows
	events   []string
	seen     []decide.Observation
	entries  []journal.Entry
	saveErr  error
	writeErr error
	doing    func(ctx context.Context, a decide.Action) decide.Result
}

func (b *bench) note(event string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, event)
}

func (b *bench) happened() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events)
}

func (b *bench) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *bench) observations() []decide.Observation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.seen)
}

func (b *bench) Observe(context.Context) decide.Observation {
	return decide.Observation{Reach: decide.ReachOK, Report: &healthapi.Report{Mode: "primary", BootID: "b"}}
}

func (b *bench) Save(m Memory) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.saveErr == nil && m.Action != nil {
		b.events = append(b.events, "saved "+string(m.Action.Step))
	}
	return b.saveErr
}

func (b *bench) Append(e journal.Entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writeErr == nil {
		b.entries = append(b.entries, e)
		if e.Event == EventActionStart || e.Event == EventStep {
			b.events = append(b.events, "journaled "+e.Step)
		}
	}
	return b.writeErr
}

func (b *bench) Do(ctx context.Context, a decide.Action, _ process.Identity) decide.Result {
	b.note("did " + string(a.Step))
	b.mu.Lock()
	doing := b.doing
	b.mu.Unlock()
	if doing != nil {
		return doing(ctx, a)
	}
	return decide.Result{ActionID: a.ID, Step: a.Step, Outcome: decide.StepOK}
}

// mind starts one divert at the first chance and takes its steps one after the
// other as their results come.
func mind(_ decide.Policy, s decide.State, o decide.Observation) (decide.State, decide.Decision, decide.Explain) {
	s.Clock = o.Clock
	steps := []decide.Step{decide.Claimed, decide.Flush, decide.ModeWritten, decide.Switch}
	e := decide.Explain{Summary: "all is well"}
	switch {
	case s.Action == nil && s.LastID == 0:
		s.LastID = 1
		s.Action = &decide.Action{ID: "a1", Kind: decide.Divert, Step: steps[0], Reason: "a test wants it", Timeout: time.Minute}
		return s, decide.Decision{Verb: decide.Start, Action: s.Action, Reason: s.Action.Reason}, e
	case s.Action != nil && o.Result != nil && o.Result.Step == s.Action.Step:
		a := *s.Action
		i := slices.Index(steps, a.Step) + 1
		if i == len(steps) || o.Result.Outcome == decide.StepFailed {
			s.Action, s.Last = nil, &decide.Past{ID: a.ID, Kind: a.Kind, End: decide.EndVerified}
			return s, decide.Decision{Verb: decide.None}, e
		}
		a.Step = steps[i]
		s.Action = &a
		return s, decide.Decision{Verb: decide.Continue, Action: &a}, e
	}
	return s, decide.Decision{Verb: decide.None}, e
}

func newBench(t *testing.T, m Mind) *bench {
	t.Helper()
	b := &bench{registry: prometheus.NewRegistry()}
	begun := time.Now()
	dir := t.TempDir()
	b.Loop = New(Options{
		Policy: decide.DefaultPolicy(), Memory: Memory{State: decide.State{Schema: decide.Schema}},
		Mind: func(p decide.Policy, s decide.State, o decide.Observation) (decide.State, decide.Decision, decide.Explain) {
			b.set(func() { b.seen = append(b.seen, o) })
			return m(p, s, o)
		},
		Observer: b, Doer: b, Store: b, Journal: b, Inbox: NewInbox(filepath.Join(dir, "commands"), quiet()),
		Clock: func() decide.Clock {
			return decide.Clock{BootID: "k", SinceBoot: time.Since(begun), Wall: time.Now()}
		},
		ModePath: filepath.Join(dir, "mode.json"), Name: "watchdog test", Log: quiet(), Metrics: b.registry,
	})
	return b
}

// run runs the loop for a time, in a bubble.
func (b *bench) run(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := b.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestLoop_savesAndJournalsBeforeItActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, mind)
		b.run(t, 3*time.Second) // less than one poll: results do not wait for the next
		var want []string
		for _, step := range []string{"claimed", "flush", "mode_written", "switch"} {
			want = append(want, "saved "+step, "journaled "+step, "did "+step)
		}
		if got := b.happened(); !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	})
}

func TestLoop_doesNothingItCannotRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, mind)
		b.saveErr = errors.New("no space left")
		b.run(t, 12*time.Second)
		if got := b.happened(); slices.Contains(got, "did claimed") {
			t.Errorf("got %v", got)
		}
		second := b.observations()[1]
		if second.StateError != "no space left" || second.Result == nil || second.Result.Outcome != decide.StepFailed {
			t.Errorf("the next observation is told %q, %+v", second.StateError, second.Result)
		}
		if got := testutil.ToFloat64(b.metrics.saveErrors); got < 3 {
			t.Errorf("%v errors counted", got)
		}
	})
}

// A pid of before a reboot may be anybody's.
func TestMemory_Since_forgetsTheProcessOverAReboot(t *testing.T) {
	id := process.Identity{PID: 7, StartTicks: 8, Namespace: 9}
	m := Memory{Process: id, State: decide.State{Clock: decide.Clock{BootID: "kernel-1"}, LastID: 3}}
	if got := m.Since("kernel-1"); got.Process != id {
		t.Errorf("in the same boot: got %+v", got.Process)
	}
	if got := m.Since("kernel-2"); got.Process != (process.Identity{}) || got.LastID != 3 {
		t.Errorf("after a reboot: got %+v", got)
	}
}

// An order that cannot be remembered was not given: what came of it must not be
// remembered either, or it is given twice.
func TestLoop_anOrderIsGivenOnceHoweverOftenItCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(_ decide.Policy, s decide.State, o decide.Observation) (decide.State, decide.Decision, decide.Explain) {
			s.Seen.Seq++ // a turn
			s.LastID += int64(len(o.Commands))
			d := decide.Decision{Verb: decide.None}
			for _, c := range o.Commands {
				d.Notes = append(d.Notes, decide.Note{Key: c.ID, Text: "obeyed"})
			}
			return s, d, decide.Explain{}
		})
		b.saveErr = errors.New("no space left")
		time.AfterFunc(12*time.Second, func() { b.set(func() { b.saveErr = nil }) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		answer, err := b.opts.Inbox.Give(ctx, pause)
		if err != nil || len(answer.Notes) != 1 {
			t.Errorf("got %+v, %v", answer, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if b.memory.LastID != 1 {
			t.Errorf("it is remembered %d times", b.memory.LastID)
		}
		if b.memory.Seen.Seq < 3 {
			t.Errorf("%d turns remembered: it does not look on while it cannot save", b.memory.Seen.Seq)
		}
		told := 0
		for _, e := range b.entries {
			if e.Event == EventCommand {
				told++
			}
		}
		if told != 1 {
			t.Errorf("it is told %d times", told)
		}
	})
}

func TestLoop_actsWithoutAJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, mind)
		b.writeErr = errors.New("no space left")
		b.run(t, 3*time.Second)
		if got := b.happened(); !slices.Contains(got, "did switch") {
			t.Errorf("got %v", got)
		}
		if got := testutil.ToFloat64(b.metrics.journalErrors); got == 0 {
			t.Error("no error counted")
		}
	})
}

func TestLoop_pollsAtItsIntervalGiveOrTakeTenPercent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(_ decide.Policy, s decide.State, o decide.Observation) (decide.State, decide.Decision, decide.Explain) {
			return s, decide.Decision{}, decide.Explain{}
		})
		b.run(t, time.Hour)
		seen := b.observations()
		if n := len(seen); n < 700 || n > 740 {
			t.Errorf("%d polls in an hour, want about 720", n)
		}
		if !seen[0].FirstOfRun || seen[1].FirstOfRun {
			t.Error("the first poll is not marked, or the second is")
		}
		var gaps []time.Duration
		for i := 1; i < len(seen); i++ {
			gap := seen[i].Clock.SinceBoot - seen[i-1].Clock.SinceBoot
			gaps = append(gaps, gap)
			if gap != seen[i].Expected {
				t.Fatalf("poll %d came after %s, planned after %s", i, gap, seen[i].Expected)
			}
		}
		if low, high := slices.Min(gaps), slices.Max(gaps); low < 4500*time.Millisecond || high > 5500*time.Millisecond || high-low < 500*time.Millisecond {
			t.Errorf("gaps from %s to %s", low, high)
		}
	})
}

func TestLoop_aStepThatNeverEndsHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, mind)
		ended := make(chan struct{})
		b.doing = func(ctx context.Context, a decide.Action) decide.Result {
			<-ctx.Done()
			close(ended)
			return decide.Result{ActionID: a.ID, Step: a.Step, Outcome: decide.StepFailed}
		}
		b.run(t, 30*time.Second)
		if n := len(b.observations()); n < 5 {
			t.Errorf("%d polls while a step ran", n)
		}
		<-ended // Run has not returned before its step
	})
}

func TestLoop_aStepHasItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, mind)
		b.doing = func(ctx context.Context, a decide.Action) decide.Result {
			<-ctx.Done()
			return decide.Result{ActionID: a.ID, Step: a.Step, Outcome: decide.StepFailed, Text: "out of time"}
		}
		b.run(t, 2*time.Minute)
		var results []time.Duration
		for _, o := range b.observations() {
			if o.Result != nil {
				results = append(results, o.Clock.SinceBoot)
			}
		}
		if len(results) != 1 || results[0] != time.Minute {
			t.Errorf("results after %v, want one after a minute", results)
		}
	})
}

func TestLoop_abortEndsTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		aborted := false
		b := newBench(t, func(p decide.Policy, s decide.State, o decide.Observation) (decide.State, decide.Decision, decide.Explain) {
			if s.Action != nil && !aborted && o.Clock.SinceBoot > 10*time.Second {
				aborted = true
				a := s.Action
				s.Action = nil
				return s, decide.Decision{Verb: decide.Abort, Action: a, Reason: "it healed"}, decide.Explain{}
			}
			return mind(p, s, o)
		})
		var cause error
		b.doing = func(ctx context.Context, a decide.Action) decide.Result {
			<-ctx.Done()
			cause = ctx.Err()
			return decide.Result{ActionID: a.ID, Step: a.Step}
		}
		b.run(t, 30*time.Second)
		if !errors.Is(cause, context.Canceled) {
			t.Errorf("the step ended by %v", cause)
		}
	})
}

func TestLoop_aGhostIsNeverDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(p decide.Policy, s decide.State, o decide.Observation) (decide.State, decide.Decision, decide.Explain) {
			s, d, e := mind(p, s, o)
			if d.Action != nil {
				d.Action.Ghost = true
			}
			return s, d, e
		})
		b.run(t, time.Minute)
		if got := b.happened(); slices.Contains(got, "did claimed") {
			t.Errorf("got %v", got)
		}
		if got := testutil.ToFloat64(b.metrics.decisions.WithLabelValues("divert", "", "false")); got != 1 {
			t.Errorf("%v ghosts counted, want 1", got)
		}
	})
}

func TestLoop_takesANewPolicyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var intervals []time.Duration
		b := newBench(t, func(p decide.Policy, s decide.State, _ decide.Observation) (decide.State, decide.Decision, decide.Explain) {
			intervals = append(intervals, p.Poll.Interval)
			return s, decide.Decision{}, decide.Explain{}
		})
		p := b.Policy()
		p.Poll.Interval = time.Second
		time.AfterFunc(time.Second, func() { b.SetPolicy(p) })
		b.run(t, 1500*time.Millisecond)
		if !slices.Equal(intervals, []time.Duration{5 * time.Second, time.Second}) {
			t.Errorf("got %v", intervals)
		}
	})
}

func TestLoop_seesWhoWroteTheModeFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, mind)
		for rev, by := range []string{"watchdog test", "person alice"} {
			if _, err := mode.Swap(b.opts.ModePath, int64(rev), mode.File{Mode: mode.Fallback, By: by, Reason: "x"}); err != nil {
				t.Fatal(err)
			}
			o := b.observe(t.Context(), nil)
			if want := by == "watchdog test"; o.ModeFile.Mine != want || o.ModeFile.File.Rev != int64(rev+1) || o.ModeFile.Err != "" {
				t.Errorf("by %s: got %+v", by, o.ModeFile)
			}
		}
	})
}

func TestLoop_Alive_onlyWhileItComesRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, mind)
		if b.Alive() == nil {
			t.Error("alive before the first round")
		}
		b.run(t, time.Minute)
		if err := b.Alive(); err != nil {
			t.Errorf("after a minute of rounds: %v", err)
		}
		<-time.After(time.Minute)
		if b.Alive() == nil {
			t.Error("alive a minute after the last round")
		}
	})
}

func TestLoop_metricsFollowTheConventions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(p decide.Policy, s decide.State, o decide.Observation) (decide.State, decide.Decision, decide.Explain) {
			s, d, e := mind(p, s, o)
			e.Rules = []decide.RuleView{{Name: "refusing", Status: decide.Firing, Number: 1}}
			e.BlockedBy = []decide.Block{{Edge: "T2", Guard: "paused"}, {Edge: "T14", Guard: "paused"}}
			return s, d, e
		})
		b.run(t, time.Minute)
		problems, err := testutil.GatherAndLint(b.registry)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
		if n, err := testutil.GatherAndCount(b.registry, "spillway_watchdog_blocked"); err != nil || n != 1 {
			t.Errorf("%d series of blocked, %v", n, err)
		}
	})
}
