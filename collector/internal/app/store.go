package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"spillway/collector/internal/admission"
	"spillway/collector/internal/deadletter"
	"spillway/collector/internal/ingest"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/spool"
)

// store is where ingest appends: the spool of the lane.
type store struct {
	logs map[sink.Lane]*spool.Log
	gate *admission.Gate
}

var recordPool = sync.Pool{New: func() any { return new([]spool.Record) }}

// Append has the promises of spool.Log.Append. A spool that is full shuts the
// gate at once, so that the next request is refused before its body is read.
func (s store) Append(ctx context.Context, lane sink.Lane, records []ingest.Record) error {
	batch := recordPool.Get().(*[]spool.Record)
	*batch = (*batch)[:0]
	for _, r := range records {
		*batch = append(*batch, spool.Record{At: r.At, Key: r.Key, Data: r.Data})
	}
	err := s.logs[lane].Append(ctx, *batch)
	if err == nil {
		// After an error the log may still be reading the batch: it is left to the
		// garbage collector.
		clear(*batch)
		recordPool.Put(batch)
		return nil
	}
	if full, ok := errors.AsType[*spool.FullError](err); ok {
		s.gate.Full(full.Reason)
	}
	return err
}

// oversizeCode marks a dead letter that is a whole payload, too large to become
// records.
const oversizeCode = "size_violation"

// letters is where ingest keeps what is too large to become records.
type letters struct{ store *deadletter.Store }

// Put has the promises of deadletter.Store.Put.
func (l letters) Put(ctx context.Context, reason string, records ...ingest.Record) error {
	entries := make([]deadletter.Entry, len(records))
	for i, r := range records {
		entries[i] = deadletter.Entry{
			At: time.Now(), ReceivedAt: r.At, Reason: reason, Code: oversizeCode,
			Lane: string(sink.Good), Key: r.Key, Data: r.Data,
		}
	}
	return l.store.Put(ctx, entries...)
}
