package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
	"spillway/shared/healthapi"
)

var sinceAside = cmpopts.IgnoreFields(healthapi.Flush{}, "CompletedAt")

func (l *lane) wantFlush(want healthapi.Flush) {
	l.t.Helper()
	if diff := cmp.Diff(want, l.FlushStatus(), sinceAside); diff != "" {
		l.t.Errorf("flush status (-want +got):\n%s", diff)
	}
}

func TestForwarder_Flush_cutsTheLingerShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{limits: sink.Limits{MaxRecords: 1000, MaxBytes: 1 << 20, Linger: time.Hour, InFlight: 2}}).run()
		l.queue.add(10, 100)
		after(time.Minute)
		if l.sink.Calls() != 0 {
			t.Fatal("records left before their linger was over")
		}
		began := time.Now()
		l.flushed()
		if took := time.Since(began); took > 20*time.Millisecond {
			t.Errorf("the flush took %v", took)
		}
		l.writtenOnce(10)
		l.wantFlush(healthapi.Flush{Requested: 1, Completed: 1, Result: healthapi.FlushDrained})
	})
}

func TestForwarder_Flush_withNothingToDoIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{}).run()
		l.flushed()
		l.wantFlush(healthapi.Flush{Requested: 1, Completed: 1, Result: healthapi.FlushDrained})
	})
}

func TestForwarder_Flush_cutsBackoffShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.sink.Always(sinktest.Fail(sink.Transient, sinktest.Down()))
		l.queue.add(350, 100)
		l.run()
		after(time.Hour)
		l.sink.Always(sinktest.OK())
		began := time.Now()
		l.flushed()
		if took := time.Since(began); took > 20*time.Millisecond {
			t.Errorf("the flush took %v with the destination well again", took)
		}
		l.writtenOnce(350)
		l.wantFlush(healthapi.Flush{Requested: 1, Completed: 1, Result: healthapi.FlushDrained})
	})
}

func TestForwarder_Flush_cutsTheBackoffOfSingleRecordsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{cfg: func(c *Config) { c.MaxBackoff = time.Hour }})
		l.sink.Always(sinktest.FailSome(sink.Transient, sinktest.Down(), func(_ int, r sink.Record) bool { return r.Seq%10 == 0 }))
		l.queue.add(1000, 100)
		l.run()
		after(24 * time.Hour)
		l.sink.Always(sinktest.OK())
		if got := l.queue.Backlog(); got != 100 {
			t.Fatalf("%d records wait, want 100", got)
		}
		l.flushed()
		l.wantFlush(healthapi.Flush{Requested: 1, Completed: 1, Result: healthapi.FlushDrained})
		l.writtenOnce(1000)
	})
}

func TestForwarder_Flush_endsKeptWithAHugeBacklogAndADeadSink(t *testing.T) {
	for name, dead := range map[string]sinktest.Step{
		"refuses at once": sinktest.Fail(sink.Transient, sinktest.Down()),
		"fails slowly":    {Takes: 5 * time.Second, Each: sinktest.Fail(sink.Transient, sinktest.Down()).Each},
		"hangs":           sinktest.Hang(nil),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if name == "hangs" {
					dead = sinktest.Hang(make(chan struct{}))
				}
				l := build(t, setup{})
				l.sink.Always(dead)
				l.queue.add(100_000, 10)
				l.run()
				after(time.Hour)
				before, began := l.sink.Calls(), time.Now()
				l.flushed()
				if took := time.Since(began); took > DefaultConfig().FlushTimeout+20*time.Millisecond {
					t.Errorf("the flush took %v", took)
				}
				if calls := l.sink.Calls() - before; calls > 5 {
					t.Errorf("the flush made %d writes to a dead sink, want about one for each that may be under way", calls)
				}
				l.wantFlush(healthapi.Flush{Requested: 1, Completed: 1, Result: healthapi.FlushKept, RemainingEvents: 100_000})
				l.sink.Always(sinktest.OK())
				l.queue.waitAcked(100_000)
			})
		})
	}
}

func TestForwarder_Flush_triesEveryRecordOfAHalfDeadSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{limits: sink.Limits{MaxRecords: 100, MaxBytes: 1 << 20, Linger: time.Hour, InFlight: 4}})
		// Every odd record fails as long as this lasts.
		l.sink.Always(sinktest.FailSome(sink.Transient, sinktest.Down(), func(_ int, r sink.Record) bool { return r.Seq%2 == 1 }))
		l.queue.add(1050, 100)
		l.run()
		l.flushed()
		tried := map[uint64]bool{}
		for _, a := range l.sink.Attempts() {
			for _, seq := range a.Seqs {
				tried[seq] = true
			}
		}
		if len(tried) != 1050 {
			t.Errorf("%d records were tried, want all 1050", len(tried))
		}
		l.wantFlush(healthapi.Flush{Requested: 1, Completed: 1, Result: healthapi.FlushKept, RemainingEvents: 525})
		l.sink.Always(sinktest.OK())
	})
}

func TestForwarder_Flush_isNotKeptUpByNewTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.sink.Always(sinktest.Slow(20 * time.Millisecond))
		l.queue.add(1000, 100)
		stop := make(chan struct{})
		traffic := make(chan struct{})
		go func() {
			defer close(traffic)
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					l.queue.add(10, 100)
				case <-stop:
					return
				}
			}
		}()
		l.run()
		l.flushed()
		l.wantFlush(healthapi.Flush{Requested: 1, Completed: 1, Result: healthapi.FlushDrained})
		close(stop)
		<-traffic
	})
}

func TestForwarder_Flush_severalAtOnceAreAllAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{limits: sink.Limits{MaxRecords: 100, MaxBytes: 1 << 20, Linger: time.Hour, InFlight: 1}})
		l.sink.Always(sinktest.Slow(time.Second))
		l.run()
		l.queue.add(10, 100)
		first := l.Flush()
		after(500 * time.Millisecond) // the write is under way
		l.queue.add(10, 100)          // not part of the first
		second, third := l.Flush(), l.Flush()
		if first != 1 || second != 2 || third != 3 {
			t.Errorf("requests are numbered %d %d %d", first, second, third)
		}
		after(600 * time.Millisecond)
		l.wantFlush(healthapi.Flush{Requested: 3, Completed: 1, Result: healthapi.FlushDrained})
		after(time.Second)
		l.wantFlush(healthapi.Flush{Requested: 3, Completed: 3, Result: healthapi.FlushDrained})
		l.writtenOnce(20)
	})
}

func TestForwarder_Flush_withTheCountWrongEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.queue.add(10, 100)
		l.queue.mu.Lock()
		l.queue.next = 3 // records that are counted but never come: set aside as damaged
		l.queue.mu.Unlock()
		l.run()
		began := time.Now()
		l.flushed()
		if took := time.Since(began); took > dryAfter+20*time.Millisecond {
			t.Errorf("the flush took %v", took)
		}
		l.wantFlush(healthapi.Flush{Requested: 1, Completed: 1, Result: healthapi.FlushKept, RemainingEvents: 3})
	})
}

func TestForwarder_stop_deliversWhatItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{limits: sink.Limits{MaxRecords: 100, MaxBytes: 1 << 20, Linger: time.Hour, InFlight: 2}})
		l.sink.Always(sinktest.Slow(100 * time.Millisecond))
		l.run()
		l.queue.add(1000, 100)
		after(0)
		n := l.Flush()
		began := time.Now()
		l.stop()
		if took := time.Since(began); took > 600*time.Millisecond {
			t.Errorf("the stop took %v for 10 batches, 2 at a time, of 100ms each", took)
		}
		l.writtenOnce(1000)
		l.wantFlush(healthapi.Flush{Requested: n, Completed: n, Result: healthapi.FlushDrained})
	})
}

func TestForwarder_stop_inAnOutageIsQuickAndKeepsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.sink.Always(sinktest.Fail(sink.Transient, sinktest.Down()))
		l.queue.add(1000, 100)
		l.run()
		after(time.Hour)
		began := time.Now()
		l.stop()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the stop took %v", took)
		}
		if got := l.queue.Backlog(); got != 1000 {
			t.Errorf("%d records are left, want all 1000", got)
		}
	})
}

func TestForwarder_stop_givesUpAHangingWriteAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.sink.Always(sinktest.Hang(make(chan struct{})))
		l.queue.add(10, 100)
		l.run()
		after(time.Second)
		began := time.Now()
		l.stop()
		if took := time.Since(began); took != DefaultConfig().StopTimeout {
			t.Errorf("the stop took %v, want stop_timeout", took)
		}
		if got := l.queue.Backlog(); got != 10 {
			t.Errorf("%d records are left, want all 10", got)
		}
	})
}

func TestForwarder_stop_withNoTimeBeginsNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{
			limits: sink.Limits{MaxRecords: 100, MaxBytes: 1 << 20, Linger: time.Hour, InFlight: 2},
			cfg:    func(c *Config) { c.StopTimeout = 0 },
		}).run()
		l.queue.add(10, 100)
		after(time.Second)
		l.stop()
		if calls := l.sink.Calls(); calls != 0 {
			t.Errorf("%d writes were begun", calls)
		}
	})
}

func TestCombineFlush(t *testing.T) {
	drained := func(req, done int64) healthapi.Flush {
		return healthapi.Flush{Requested: req, Completed: done, Result: healthapi.FlushDrained}
	}
	kept := healthapi.Flush{Requested: 2, Completed: 2, Result: healthapi.FlushKept, RemainingEvents: 7}
	cases := []struct {
		name string
		in   []healthapi.Flush
		want healthapi.Flush
	}{
		{"both drained", []healthapi.Flush{drained(2, 2), drained(2, 2)}, drained(2, 2)},
		{"one behind", []healthapi.Flush{drained(2, 2), drained(2, 1)}, drained(2, 1)},
		{"one kept", []healthapi.Flush{drained(2, 2), kept}, kept},
		{"the other kept", []healthapi.Flush{kept, drained(2, 2)}, kept},
		{"none yet", []healthapi.Flush{drained(1, 1), {Requested: 1}}, healthapi.Flush{Requested: 1}},
	}
	for _, c := range cases {
		if diff := cmp.Diff(c.want, CombineFlush(c.in...)); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}
