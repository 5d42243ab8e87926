package delivery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
)

func TestForwarder_deliversABacklogAtOnceWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{limits: sink.Limits{MaxRecords: 100, MaxBytes: 1 << 20, Linger: 30 * time.Second, InFlight: 4}})
		l.queue.add(250, 100)
		after(time.Hour) // it waited through a stop
		began := time.Now()
		l.run()
		l.queue.waitAcked(250)
		if took := time.Since(began); took > time.Second {
			t.Errorf("250 old records took %v", took)
		}
		l.writtenOnce(250)
		if calls := l.sink.Calls(); calls != 3 {
			t.Errorf("%d writes for 250 records of 100 a batch, want 3", calls)
		}
	})
}

func TestForwarder_waitsForTheLingerAndNotLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{limits: sink.Limits{MaxRecords: 100, MaxBytes: 1 << 20, Linger: 5 * time.Second, InFlight: 4}}).run()
		began := time.Now()
		l.queue.add(10, 100)
		after(4 * time.Second)
		l.queue.add(10, 100)
		l.queue.waitAcked(20)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("20 records left after %v, want 5s: the linger of the oldest", took)
		}
		if calls := l.sink.Calls(); calls != 1 {
			t.Errorf("%d writes, want one batch", calls)
		}
		l.queue.add(100, 100)
		began = time.Now()
		l.queue.waitAcked(120)
		if took := time.Since(began); took != 0 {
			t.Errorf("a full batch waited %v", took)
		}
	})
}

func TestForwarder_sendsOnlyUnwrittenRecordsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		// 469 of 500 fail, others each time.
		calls := 0
		l.sink.Otherwise(func(int, []sink.Record) sinktest.Step {
			calls++
			lucky := calls
			return sinktest.FailSome(sink.Transient, &sink.Error{Cause: sink.CauseServer, Code: "InternalFailure", Message: "x"},
				func(i int, _ sink.Record) bool { return i%16 != lucky%16 })
		})
		l.queue.add(500, 100)
		l.run()
		l.queue.waitAcked(500)
		l.writtenOnce(500)
		if got := l.Status().Sink.ConsecutiveFailures; got != 0 {
			t.Errorf("%d consecutive failures though every write took something", got)
		}
	})
}

func TestForwarder_waitsOutAnOutageAndLogsItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.sink.Always(sinktest.Fail(sink.Transient, sinktest.Denied()))
		l.queue.add(1000, 100)
		l.run()
		after(30 * time.Minute)
		s := l.Status()
		if s.Sink.Circuit == "closed" || s.Sink.ErrorClass != "auth" || s.Sink.ConsecutiveFailures < 5 || s.WrittenTotal != 0 {
			t.Errorf("status in the outage is %+v", s)
		}
		if got := l.OutageFor(); got < 29*time.Minute || got > 30*time.Minute {
			t.Errorf("outage lasts %v, want about 30m", got)
		}
		calls := l.sink.Calls()
		if calls > 250 {
			t.Errorf("%d requests in 30 minutes of outage", calls)
		}
		if calls < 60 {
			t.Errorf("only %d requests in 30 minutes: it would notice the end late", calls)
		}
		if lines := l.logged(logrus.WarnLevel); len(lines) != 1 || !strings.Contains(lines[0], "not allowed") {
			t.Errorf("the outage is logged as %q, want one line with the reason", lines)
		}
		l.sink.Always(sinktest.Fail(sink.Transient, sinktest.Down()))
		after(time.Minute)
		if lines := l.logged(logrus.WarnLevel); len(lines) != 2 {
			t.Errorf("another fault made the lines %q, want one more", lines)
		}
		l.sink.Always(sinktest.OK())
		began := time.Now()
		l.queue.waitAcked(1)
		if took := time.Since(began); took > 31*time.Second {
			t.Errorf("delivery went on %v after the destination was back, want the longest back-off at most", took)
		}
		began = time.Now()
		l.queue.waitAcked(1000)
		if took := time.Since(began); took > 31*time.Second {
			t.Errorf("the rest took %v after the first write was taken, want the longest back-off at most", took)
		}
		l.writtenOnce(1000)
		after(time.Second)
		if lines := l.logged(logrus.InfoLevel); len(lines) == 0 || !strings.Contains(lines[0], "takes writes again") {
			t.Errorf("the end is logged as %q", lines)
		}
		if s := l.Status(); s.Sink.Circuit != "closed" || s.OutageFor != 0 || s.Sink.ErrorClass != "" {
			t.Errorf("status after the outage is %+v", s)
		}
	})
}

func TestForwarder_openCircuitAsksWithOneSmallBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.sink.Always(sinktest.Step{Takes: time.Second, Each: sinktest.Fail(sink.Transient, sinktest.Down()).Each})
		l.run()
		l.queue.add(1, 100)
		after(time.Minute) // trips with a single record
		first := l.sink.Calls()
		l.queue.add(1000, 100)
		after(10 * time.Minute)
		for i, a := range l.sink.Attempts()[first:] {
			if len(a.Seqs) > DefaultConfig().Circuit.Records {
				t.Fatalf("write %d with the circuit open has %d records", first+i, len(a.Seqs))
			}
		}
		attempts := l.sink.Attempts()
		for i := 6; i < len(attempts); i++ {
			if attempts[i].StartedAt.Before(attempts[i-1].EndedAt) {
				t.Fatalf("writes %d and %d overlap with the circuit open", i-1, i)
			}
		}
		l.sink.Always(sinktest.OK())
		l.queue.waitAcked(1001)
	})
}

func TestForwarder_condemnedRecordsAreStoredBeforeTheyAreAcked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := usual()
		limits.MaxRecordBytes = 1000
		l := build(t, setup{limits: limits})
		l.queue.onAck = func(seq uint64) {
			if (seq == 3 || seq == 10) && l.graves.seqs()[seq] != 1 {
				t.Errorf("record %d was acked before it was a dead letter", seq)
			}
		}
		l.sink.Always(sinktest.FailSome(sink.Permanent, sinktest.Unfit(), func(_ int, r sink.Record) bool { return r.Seq == 3 }))
		l.graves.set(errDisk)
		l.queue.add(9, 100)
		l.queue.add(1, 2000)
		l.run()
		l.queue.waitAcked(8)
		after(time.Minute)
		l.queue.add(5, 100)
		after(time.Second)
		if got := l.queue.Backlog(); got != 2 {
			t.Fatalf("%d records wait with the dead-letter store failing, want the 2 condemned", got)
		}
		if lines := l.logged(logrus.ErrorLevel); len(lines) != 1 {
			t.Errorf("the failing store is logged as %q, want one line", lines)
		}
		l.graves.set(nil)
		l.queue.waitAcked(15)
		if s := l.Status(); s.DeadLettersTotal != 2 || s.WrittenTotal != 13 {
			t.Errorf("status is %+v, want 13 written and 2 dead letters", s)
		}
		for _, e := range l.graves.entries {
			if e.Reason == "" || e.Code == "" || e.Lane != "good" || e.Key == "" || e.ReceivedAt.IsZero() || len(e.Data) == 0 {
				t.Errorf("dead letter says too little: %+v", e)
			}
		}
	})
}

func TestForwarder_poisonAloneIsHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		// Any batch with record 42 in it fails as a whole, for ever.
		l.sink.Otherwise(func(_ int, records []sink.Record) sinktest.Step {
			for _, r := range records {
				if r.Seq == 42 {
					return sinktest.Fail(sink.Transient, sinktest.Down())
				}
			}
			return sinktest.OK()
		})
		l.queue.add(500, 100)
		l.run()
		for range 120 { // a little traffic beside it
			l.queue.add(10, 100)
			after(time.Second)
		}
		if got := l.queue.Backlog(); got != 1 {
			t.Errorf("%d records wait, want the poisonous one alone", got)
		}
		if s := l.Status(); s.Sink.Circuit != "closed" {
			t.Errorf("circuit is %s, though all but one record are taken", s.Sink.Circuit)
		}
	})
}

func TestForwarder_deadLetterStoreFailingHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := usual()
		limits.MaxRecordBytes = 50 << 10
		l := build(t, setup{limits: limits, cfg: func(c *Config) { c.MaxMemory = 1 << 20 }})
		l.graves.set(errDisk)
		l.run()
		for range 50 {
			l.queue.add(1, 60<<10) // never fits; 3 MB of them, three times the memory
			l.queue.add(10, 100)
			after(time.Second)
		}
		if got := l.queue.Backlog(); got != 50 {
			t.Errorf("%d records wait, want the 50 that are too large", got)
		}
		s := l.Status()
		if s.HeldBytes > 1<<20 || s.ParkedRecords == 0 {
			t.Errorf("%d bytes held and %d records parked", s.HeldBytes, s.ParkedRecords)
		}
		l.graves.set(nil)
		after(time.Minute)
		if got, want := l.queue.Backlog(), int64(l.Status().ParkedRecords); got != want {
			t.Errorf("%d records wait after the store is well, want the %d parked ones", got, want)
		}
		l.flushed()
		if f := l.FlushStatus(); f.Result != "kept" || f.RemainingEvents != l.queue.Backlog() {
			t.Errorf("flush with parked records ended %+v", f)
		}
	})
}

func TestForwarder_memoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{cfg: func(c *Config) { c.MaxMemory = 1 << 20 }})
		l.sink.Always(sinktest.Slow(100 * time.Millisecond))
		for _, size := range []int{0, 1, 100, 10_000, 400_000} {
			l.queue.add(30, size)
		}
		l.queue.add(3000, 1000)
		l.run()
		for l.queue.Backlog() > 0 {
			after(50 * time.Millisecond)
			if s := l.Status(); s.HeldBytes > 1<<20+400_000+1000 {
				t.Fatalf("%d bytes are held, more than max_memory and one record", s.HeldBytes)
			}
		}
		if s := l.Status(); s.HeldBytes != 0 || s.HeldRecords != 0 {
			t.Errorf("%d records, %d bytes held with nothing left", s.HeldRecords, s.HeldBytes)
		}
	})
}

func TestForwarder_aHangingSinkEndsTheBeatNotTheRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		release := make(chan struct{})
		stubborn := &deaf{Fake: l.sink, release: release}
		l.Forwarder = New(DefaultConfig(), l.queue, Route{Sink: stubborn}, l.graves, Options{Lane: sink.Good, Log: l.Forwarder.log})
		l.run()
		l.queue.add(10_000, 100)
		after(10 * time.Minute)
		if age := l.Status().BeatAge; age < time.Minute {
			t.Errorf("the beat is %v old though every write hangs past its end", age)
		}
		if got := l.Status().InFlight; got != 4 {
			t.Errorf("%d writes are under way, want 4 at most for ever", got)
		}
		other := sinktest.NewFake(t, sinktest.Options{Limits: usual()})
		ctx, cancel := contextFor(t, 10*time.Second)
		defer cancel()
		if err := l.SetRoute(ctx, Route{Sink: other}); err == nil {
			t.Error("SetRoute returned nil though the old sink is still in use")
		}
		l.queue.waitAcked(10_000)
		if age := l.Status().BeatAge; age > time.Second {
			t.Errorf("the beat is %v old after the switch", age)
		}
		close(release)
	})
}

func TestForwarder_aReadErrorIsLoggedOnceAndOvercome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		l.queue.fail(errDisk)
		l.run()
		after(time.Minute)
		if lines := l.logged(logrus.ErrorLevel); len(lines) != 1 {
			t.Errorf("logged %q, want one line", lines)
		}
		l.queue.fail(nil)
		l.queue.add(10, 100)
		l.queue.waitAcked(10)
	})
}

func TestForwarder_wrongNumberOfOutcomesIsNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{})
		short := &miscounting{Fake: l.sink}
		short.wrong.Store(true)
		l.Forwarder = New(DefaultConfig(), l.queue, Route{Sink: short}, l.graves, Options{Lane: sink.Good, Log: l.Forwarder.log})
		l.run()
		l.queue.add(10, 100)
		after(time.Minute)
		if got := l.queue.Backlog(); got != 10 {
			t.Fatalf("%d records wait, want all 10", got)
		}
		if got := l.Status().Sink.LastError; !strings.Contains(got, "9 outcomes for 10 records") {
			t.Errorf("last error is %q", got)
		}
		short.wrong.Store(false)
		l.queue.waitAcked(10)
	})
}
