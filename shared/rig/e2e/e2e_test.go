package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
	"spillway/shared/rig/tracker"
)

// patience is how long a test waits for something that takes seconds on a quiet
// machine.
const patience = 2 * time.Minute

var builder proc.Builder

func TestMain(m *testing.M) {
	code := m.Run()
	if err := builder.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// program builds one of the two programs, once for all tests.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := builder.Build("spillway/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// start starts a pair for the test.
func start(t *testing.T, o pair.Options) *pair.Pair {
	t.Helper()
	o.Programs.Collector = program(t, "collector")
	if !o.Alone || o.Watchdog != "" {
		o.Programs.Watchdog = program(t, "watchdog")
	}
	p, err := pair.Start(limited(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Tail(40))
		}
		if err := p.Close(); err != nil {
			t.Errorf("stop the pair: %v", err)
		}
	})
	return p
}

// health waits for a report that fits and fails the test with what when none comes.
func health(t *testing.T, p *pair.Pair, what string, fits func(*healthapi.Report) bool) *healthapi.Report {
	t.Helper()
	r, err := p.WaitHealth(limited(t), func(r *healthapi.Report) error {
		if !fits(r) {
			return fmt.Errorf("not yet: %s: state %s, mode %s, backlog %d, kinesis %+v, sink %+v, intake %+v, fallback %+v, problems %q",
				what, r.State, r.Mode, r.Backlog.Events, r.Kinesis, r.Sink, r.Intake, r.Fallback, r.Problems)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func runs(want string) func(*healthapi.Report) bool {
	return func(r *healthapi.Report) bool { return r.Mode == want }
}

func backlogOf(events int64) func(*healthapi.Report) bool {
	return func(r *healthapi.Report) bool { return r.Backlog.Events >= events }
}

func empty(r *healthapi.Report) bool { return r.Backlog.Events == 0 }

// traffic is trackers at work.
type traffic struct {
	*tracker.Tracker
	stop func()
}

// send begins to send to the pair's collector. The traffic ends with the test, or
// by settle.
func send(t *testing.T, p *pair.Pair, c tracker.Config) *traffic {
	t.Helper()
	c.URL = p.URL()
	tr, err := tracker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tr.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return &traffic{Tracker: tr, stop: stop}
}

// sendAll sends n events and waits until each is answered 200.
func sendAll(t *testing.T, p *pair.Pair, n int) *traffic {
	t.Helper()
	tr := send(t, p, tracker.Config{Connections: 8, Events: n, EventsPerPost: 4, PixelShare: 0.1, Resend: true})
	tr.acked(t, n)
	return tr
}

// acked waits until n events were answered 200 in all.
func (tr *traffic) acked(t *testing.T, n int) {
	t.Helper()
	proc.Eventually(t, patience, func() error {
		if c := tr.Ledger().Counts(); c.Acked < n {
			return fmt.Errorf("%d of %d events were answered 200: %v", c.Acked, n, c)
		}
		return nil
	})
}

// settle ends the traffic, sends again what was not answered, waits until
// nothing is left in the collector, and fails the test if anything that was
// answered 200 is nowhere.
func (tr *traffic) settle(t *testing.T, p *pair.Pair) tracker.Report {
	t.Helper()
	tr.stop()
	if err := tr.Settle(limited(t)); err != nil {
		t.Fatal(err)
	}
	health(t, p, "an empty backlog", empty)
	return audit(t, p, tr.Ledger())
}

func audit(t *testing.T, p *pair.Pair, l *tracker.Ledger) tracker.Report {
	t.Helper()
	r, err := p.Audit(l)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Lost) > 0 {
		t.Errorf("events that were answered 200 are lost:\n%v", r)
	}
	if r.Acked == 0 {
		t.Error("no event was answered 200: the test has shown nothing")
	}
	t.Log(r)
	return r
}
