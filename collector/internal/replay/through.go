package replay

import (
	"context"
	"time"

	"spillway/collector/internal/sink"
)

// linger is how long a batch of replayed records waits to fill: they are all at
// hand, but come in pieces.
const linger = 20 * time.Millisecond

// Through returns the sink that a forwarder of this queue delivers to: it gives
// records their own numbers back and tells the pace when s throttles.
func (q *Queue) Through(s sink.Sink) sink.Sink { return &through{s, q} }

// Own returns the number that a record has in its object, given the one under
// which it was lent and not yet acked.
func (q *Queue) Own(lent uint64) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.lent[lent]; s != nil {
		return s.seq
	}
	return 0
}

type through struct {
	sink.Sink
	queue *Queue
}

// Write implements sink.Sink.
func (t *through) Write(ctx context.Context, records []sink.Record) []sink.Outcome {
	started := time.Now()
	own := make([]sink.Record, len(records))
	for i, r := range records {
		own[i] = r
		own[i].Seq = t.queue.Own(r.Seq)
	}
	out := t.Sink.Write(ctx, own)
	var bytes int64
	throttled := false
	for i, o := range out {
		switch {
		case o.Class == sink.Throttled:
			throttled = true
		case o.Class == sink.Written && i < len(own):
			bytes += own[i].Size()
		}
	}
	if throttled {
		t.queue.pace.throttled(started, time.Now())
	}
	t.queue.progress.wrote(bytes)
	return out
}

// Limits implements sink.Sink.
func (t *through) Limits() sink.Limits {
	l := t.Sink.Limits()
	l.Linger = min(l.Linger, linger)
	return l
}
