package sinktest_test

import (
	"context"
	"testing"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
)

// lenient lets pass a Write of nothing, of which a Fake complains.
type lenient struct{ *sinktest.Fake }

func (l lenient) Write(ctx context.Context, records []sink.Record) []sink.Outcome {
	if len(records) == 0 {
		return nil
	}
	return l.Fake.Write(ctx, records)
}

func TestFake_keepsTheContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Destination {
		f := sinktest.NewFake(t, sinktest.Options{Limits: sink.Limits{InFlight: 8}})
		return sinktest.Destination{
			Sink:   lenient{f},
			Stored: f.Applied,
			FailNotApplied: func() {
				f.Always(sinktest.Fail(sink.Throttled, sinktest.Over()))
				f.OnCheck(func() error { return sinktest.Down() })
			},
			FailApplied: func() { f.Always(sinktest.Lost(sinktest.Down())) },
			Hang: func(hangs func()) {
				f.Otherwise(func(int, []sink.Record) sinktest.Step { hangs(); return sinktest.Hang(make(chan struct{})) })
			},
			Mend: func() { f.Otherwise(nil); f.OnCheck(nil) },
		}
	})
}
