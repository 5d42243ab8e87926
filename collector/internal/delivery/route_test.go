package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
)

func fallback(t *testing.T) *sinktest.Fake {
	return sinktest.NewFake(t, sinktest.Options{
		Info:   sink.Info{Type: "file", Target: "/out"},
		Limits: sink.Limits{MaxRecords: 1000, MaxBytes: 16 << 20, Linger: time.Second, InFlight: 2},
	})
}

func (l *lane) switchTo(r Route) {
	l.t.Helper()
	ctx, cancel := contextFor(l.t, time.Minute)
	defer cancel()
	if err := l.SetRoute(ctx, r); err != nil {
		l.t.Fatalf("SetRoute: %v", err)
	}
}

func TestForwarder_SetRoute_movesEverythingAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.sink.Always(sinktest.Fail(sink.Transient, sinktest.Down()))
		l.queue.add(1000, 100)
		l.run()
		after(time.Hour)
		other := fallback(t)
		began := time.Now()
		l.switchTo(Route{Sink: other})
		if took := time.Since(began); took > time.Second {
			t.Errorf("the switch took %v with nothing under way", took)
		}
		if err := l.sink.Close(); err != nil { // from here on a write to it fails the test
			t.Fatal(err)
		}
		l.queue.waitAcked(1000)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the backlog took %v to leave by the new sink: back-off of the old one was not cut short", took)
		}
		written := other.Written()
		if len(written) != 1000 {
			t.Errorf("%d records at the new sink, want 1000", len(written))
		}
		if s := l.Status(); s.Sink.Type != "file" || s.Sink.Circuit != "closed" || s.OutageFor != 0 || s.Sink.ConsecutiveFailures != 0 {
			t.Errorf("status after the switch is %+v", s)
		}
		for _, a := range other.Attempts() {
			if len(a.Seqs) < 300 {
				t.Errorf("batch of %d records at the new sink: not cut anew by its limits", len(a.Seqs))
			}
		}
	})
}

func TestForwarder_SetRoute_letsWritesUnderWayFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.sink.Always(sinktest.Slow(3 * time.Second))
		l.queue.add(50, 100)
		l.run()
		after(time.Second)
		other := fallback(t)
		began := time.Now()
		l.switchTo(Route{Sink: other})
		if took := time.Since(began); took != 2*time.Second+usual().Linger {
			t.Errorf("the switch took %v, want the 2s that the write under way still needed", took)
		}
		l.queue.waitAcked(50)
		if other.Calls() != 0 {
			t.Error("records written at the old sink were sent to the new one too")
		}
	})
}

func TestForwarder_SetRoute_cutsHangingWritesShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.sink.Always(sinktest.Hang(make(chan struct{})))
		l.queue.add(50, 100)
		l.run()
		after(time.Second)
		other := fallback(t)
		began := time.Now()
		l.switchTo(Route{Sink: other})
		if took := time.Since(began); took != switchGrace {
			t.Errorf("the switch took %v, want %v", took, switchGrace)
		}
		l.queue.add(50, 100)
		l.queue.waitAcked(100)
		if got := len(other.Written()); got != 100 {
			t.Errorf("%d records at the new sink, want 100", got)
		}
	})
}

func TestForwarder_SetRoute_toTheSameSinkChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.sink.Always(sinktest.Fail(sink.Transient, sinktest.Down()))
		l.queue.add(50, 100)
		l.run()
		after(time.Minute)
		before := l.Status()
		l.switchTo(Route{Sink: l.sink, Primary: true})
		synctest.Wait()
		if s := l.Status(); s.Sink.ConsecutiveFailures < before.Sink.ConsecutiveFailures || s.Sink.Circuit == "closed" {
			t.Errorf("status is %+v, want the outage to go on", s)
		}
		l.sink.Always(sinktest.OK())
		l.queue.waitAcked(50)
	})
}

func TestForwarder_SetRoute_backAndForthUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.sink.Always(sinktest.Slow(30 * time.Millisecond))
		other := fallback(t)
		other.Always(sinktest.Slow(100 * time.Millisecond))
		l.run()
		for range 20 {
			l.queue.add(500, 100)
			l.switchTo(Route{Sink: other, Probe: l.sink})
			l.queue.add(500, 100)
			l.switchTo(Route{Sink: l.sink, Primary: true})
		}
		l.queue.waitAcked(20_000)
		here, there := l.sink.Written(), other.Written()
		for seq := uint64(1); seq <= 20_000; seq++ {
			if here[seq]+there[seq] != 1 {
				t.Fatalf("record %d was written %d times to one and %d to the other", seq, here[seq], there[seq])
			}
		}
	})
}

func TestForwarder_SetRoute_afterTheStopReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{}).run()
		l.stop()
		l.switchTo(Route{Sink: fallback(t)})
	})
}
