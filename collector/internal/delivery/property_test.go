package delivery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
)

// act is one move in a random play.
type act struct {
	what  string // write: the sink's answer to one call; the others are done to the lane
	n     int
	after time.Duration
}

// plays draws what the sinks answer, and what is done to the lane meanwhile.
func plays(rt *rapid.T) (answers [2][]act, moves []act, limits sink.Limits) {
	answer := rapid.Custom(func(rt *rapid.T) act {
		return act{
			what: rapid.SampledFrom([]string{"ok", "ok", "slow", "down", "some", "throttle", "throttled", "unfit", "mixed", "lost", "hang"}).Draw(rt, "answer"),
			n:    rapid.IntRange(1, 7).Draw(rt, "every"),
		}
	})
	for i := range answers {
		answers[i] = rapid.SliceOfN(answer, 0, 30).Draw(rt, fmt.Sprint("answers", i))
	}
	moves = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) act {
		return act{
			what:  rapid.SampledFrom([]string{"add", "add", "add", "flush", "switch", "graves fail", "graves mend"}).Draw(rt, "move"),
			n:     rapid.IntRange(1, 60).Draw(rt, "n"),
			after: time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond,
		}
	}), 1, 25).Draw(rt, "moves")
	limits = sink.Limits{
		MaxRecords:     rapid.IntRange(1, 40).Draw(rt, "MaxRecords"),
		MaxBytes:       rapid.Int64Range(100, 5000).Draw(rt, "MaxBytes"),
		MaxRecordBytes: rapid.SampledFrom([]int64{0, 150}).Draw(rt, "MaxRecordBytes"),
		Linger:         time.Duration(rapid.IntRange(0, 500).Draw(rt, "linger")) * time.Millisecond,
		InFlight:       rapid.IntRange(1, 4).Draw(rt, "InFlight"),
	}
	return answers, moves, limits
}

func (a act) step() sinktest.Step {
	nth := func(class sink.Class, err *sink.Error) sinktest.Step {
		return sinktest.FailSome(class, err, func(_ int, r sink.Record) bool { return int(r.Seq)%a.n == 0 })
	}
	switch a.what {
	case "slow":
		return sinktest.Slow(time.Duration(a.n) * 300 * time.Millisecond)
	case "down":
		return sinktest.Fail(sink.Transient, sinktest.Down())
	case "some":
		return nth(sink.Transient, sinktest.Down())
	case "throttle":
		return nth(sink.Throttled, sinktest.Over())
	case "throttled":
		return sinktest.Fail(sink.Throttled, sinktest.Over())
	case "unfit":
		return nth(sink.Permanent, sinktest.Unfit())
	case "mixed":
		classes := []sink.Class{sink.Written, sink.Transient, sink.Throttled, sink.Permanent}
		return sinktest.Step{Takes: 50 * time.Millisecond, Each: func(i int, r sink.Record) sink.Outcome {
			if class := classes[(int(r.Seq)+a.n)%4]; class != sink.Written {
				return sink.Outcome{Class: class, Err: sinktest.Down()}
			}
			return sink.Outcome{Class: sink.Written}
		}}
	case "lost":
		return sinktest.Lost(sinktest.Down())
	case "hang":
		return sinktest.Hang(make(chan struct{})) // made in the bubble
	}
	return sinktest.OK()
}

// Whatever two sinks answer, and however they are switched, flushed and the
// dead-letter store fails meanwhile: every record is acked once, only after it was
// written or made a dead letter, is never sent again after that, and no sink's
// limits are exceeded (the fakes see to the last). A flush always completes.
func TestForwarder_property(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		answers, moves, limits := plays(rt)
		var wrong string
		synctest.Test(t, func(t *testing.T) {
			wrong = play(t, answers, moves, limits)
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
		if t.Failed() {
			rt.Fatal("a fake saw its contract broken")
		}
	})
}

func play(t *testing.T, answers [2][]act, moves []act, limits sink.Limits) (wrong string) {
	primary := sinktest.NewFake(t, sinktest.Options{Limits: limits, Info: sink.Info{Type: "kinesis", Target: "good"}})
	l := build(t, setup{
		limits:  sink.Limits{MaxRecords: 50, MaxBytes: 4000, Linger: 200 * time.Millisecond, InFlight: 2},
		primary: OpenPrimary(statePath(t), nil),
		route:   func(*sinktest.Fake) Route { return Route{Sink: primary, Primary: true} },
		cfg:     func(c *Config) { c.WriteTimeout, c.MaxBackoff = 3*time.Second, 5*time.Second },
	})
	for i, s := range []*sinktest.Fake{primary, l.sink} {
		for _, a := range answers[i] {
			s.Then(a.step())
		}
	}
	l.queue.onAck = func(seq uint64) {
		if n := primary.Written()[seq] + l.sink.Written()[seq] + l.graves.seqs()[seq]; n != 1 {
			wrong = fmt.Sprintf("record %d was acked when it was safe in %d places", seq, n)
		}
	}
	l.run()
	inFallback := false
	for _, m := range moves {
		switch m.what {
		case "add":
			l.queue.add(m.n, 7*m.n%300)
		case "flush":
			l.Flush()
		case "switch":
			inFallback = !inFallback
			if inFallback {
				l.switchTo(Route{Sink: l.sink, Probe: primary})
			} else {
				l.switchTo(Route{Sink: primary, Primary: true})
			}
		case "graves fail":
			l.graves.set(errDisk)
		case "graves mend":
			l.graves.set(nil)
		}
		after(m.after)
	}
	l.graves.set(nil)
	l.queue.waitAcked(len(l.queue.all))
	after(time.Minute) // time for anything to be sent once too often
	if f := l.FlushStatus(); f.Completed != f.Requested {
		wrong = fmt.Sprintf("flushes are %+v", f)
	}
	if s := l.Status(); s.HeldRecords != 0 || s.HeldBytes != 0 || s.InFlight != 0 {
		wrong = fmt.Sprintf("with nothing left there are %d records and %d bytes held, %d writes under way", s.HeldRecords, s.HeldBytes, s.InFlight)
	}
	sentAfter := func(s *sinktest.Fake) {
		done := map[uint64]bool{}
		for _, a := range s.Attempts() {
			for i, seq := range a.Seqs {
				if done[seq] {
					wrong = fmt.Sprintf("record %d was sent again after it was written or condemned", seq)
				}
				if c := a.Outcomes[i].Class; c == sink.Written || c == sink.Permanent {
					done[seq] = true
				}
			}
		}
	}
	sentAfter(primary)
	sentAfter(l.sink)
	l.stop()
	return wrong
}
