package delivery

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
)

// deaf is a sink that does not return when it should.
type deaf struct {
	*sinktest.Fake
	release <-chan struct{}
}

func (d *deaf) Write(_ context.Context, records []sink.Record) []sink.Outcome {
	<-d.release
	return sink.Fail(len(records), sink.Transient, sinktest.Down())
}

// miscounting is a sink that returns one outcome too few while wrong.
type miscounting struct {
	*sinktest.Fake
	wrong atomic.Bool
}

func (m *miscounting) Write(ctx context.Context, records []sink.Record) []sink.Outcome {
	out := m.Fake.Write(ctx, records)
	if m.wrong.Load() {
		return out[1:]
	}
	return out
}

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
