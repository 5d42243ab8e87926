package sinktest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"spillway/collector/internal/sink"
)

// Attempt is one Write as a Fake saw it.
type Attempt struct {
	StartedAt time.Time
	EndedAt   time.Time // zero while it is under way
	Seqs      []uint64  // the records, in order
	Bytes     int64     // the sum of their sizes
	Outcomes  []sink.Outcome
}

// Attempts returns every Write so far, by time of start.
func (f *Fake) Attempts() []Attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.attempts)
}

// Calls returns how many Writes began.
func (f *Fake) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.attempts)
}

// Applied returns all that the destination holds, in the order in which it
// arrived, a record that was applied twice standing twice.
func (f *Fake) Applied() []sink.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.applied)
}

// Written returns how many times each record was acknowledged, by its Seq.
func (f *Fake) Written() map[uint64]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.written)
}

// InFlight returns how many Writes are under way, and how many there were at
// once at most.
func (f *Fake) InFlight() (now, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inFlight, f.most
}

// Closed tells whether Close was called.
func (f *Fake) Closed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// WaitCalls returns when n Writes have begun, or with ctx's error.
func (f *Fake) WaitCalls(ctx context.Context, n int) error {
	return f.wait(ctx, n, "calls", func() int { return len(f.attempts) })
}

// WaitWritten returns when n different records were acknowledged, or with ctx's
// error.
func (f *Fake) WaitWritten(ctx context.Context, n int) error {
	return f.wait(ctx, n, "written records", func() int { return len(f.written) })
}

// wait waits until count, which is called under the lock, reaches n.
func (f *Fake) wait(ctx context.Context, n int, what string, count func() int) error {
	for {
		f.mu.Lock()
		have, changed := count(), f.changed
		f.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d %s: have %d: %w", n, what, have, ctx.Err())
		}
	}
}
