package app

import (
	"context"

	"spillway/collector/internal/delivery"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/spool"
)

// lane is one lane's way from disk to destination.
type lane struct {
	name      sink.Lane
	log       *spool.Log
	forwarder *delivery.Forwarder
}

// queue lends a spool to a forwarder.
type queue struct{ *spool.Log }

// Read has the promises of delivery.Queue.
func (q queue) Read(ctx context.Context, maxRecords int, maxBytes int64) ([]sink.Record, error) {
	read, err := q.Log.Read(ctx, maxRecords, maxBytes)
	if err != nil {
		return nil, err
	}
	records := make([]sink.Record, len(read))
	for i, r := range read {
		records[i] = sink.Record{Seq: r.Seq, At: r.At, Key: r.Key, Data: r.Data}
	}
	return records, nil
}

// Backlog returns how many records are not acked, from memory.
func (q queue) Backlog() int64 { return q.Stats().Events }
