package spool

import (
	"context"
	"fmt"

	"spillway/shared/configfile"
)

// request is one Append on its way to the disk.
type request struct {
	encoded []byte // its records, complete but for what placeRecord fills in
	records int64
	bytes   int64 // reserved
	first   int64 // when the first record was received
	taken   bool  // by the committer; guarded by Log.mu
	done    chan error
}

// maxPooled bounds the buffers kept for later appends.
const maxPooled = 1 << 20

func (l *Log) newRequest() *request {
	if r, ok := l.requests.Get().(*request); ok {
		return r
	}
	return &request{done: make(chan error, 1)}
}

func (l *Log) free(r *request) {
	if cap(r.encoded) <= maxPooled {
		*r = request{encoded: r.encoded[:0], done: r.done}
		l.requests.Put(r)
	}
}

// Append stores the records in their order. It returns nil only once every one
// of them is on stable storage. Otherwise none of them is delivered while this
// process lives, and the error is a *FullError (ErrFull), a *TooLargeError
// (ErrTooLarge), a *DiskError or ErrClosed; or it is that of ctx, and then the
// records may still become durable and be delivered. Append copies the records:
// the caller may use their memory again as soon as it returns.
func (l *Log) Append(ctx context.Context, records []Record) error {
	if len(records) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return ctxError(ctx, "append")
	}
	most := int64(l.cfg.SegmentBytes) - dataOffset
	for i := range records {
		r := &records[i]
		if len(r.Key) > maxKey {
			return fmt.Errorf("append: key of %d bytes is longer than %d: %w", len(r.Key), maxKey, ErrTooLarge)
		}
		if size := int64(headerSize + len(r.Key) + len(r.Data)); size > most {
			return &TooLargeError{Bytes: size, MaxBytes: most}
		}
	}
	req := l.newRequest()
	for i := range records {
		req.encoded = appendRecord(req.encoded, &records[i])
	}
	req.records = int64(len(records))
	req.bytes = roundUp(int64(len(req.encoded)))
	req.first = records[0].At.UnixMilli()

	if err := l.enqueue(req); err != nil {
		l.free(req)
		return err
	}
	select {
	case err := <-req.done:
		l.free(req)
		return err
	case <-ctx.Done():
		l.abandon(req)
		return ctxError(ctx, "append")
	}
}

// enqueue hands the request to the committer if there is room for it.
func (l *Log) enqueue(req *request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return ErrClosed
	}
	if reason := l.full(req.records, req.bytes); reason != "" {
		l.totals.refused++
		return &FullError{Reason: reason}
	}
	l.reserved.events += req.records
	l.reserved.bytes += req.bytes
	l.queue = append(l.queue, req)
	l.work.Signal()
	return nil
}

// full says why there is no room, or "". Appends under way count as stored.
func (l *Log) full(events, bytes int64) string {
	if have := l.events + l.reserved.events; l.cfg.MaxEvents > 0 && have+events > l.cfg.MaxEvents {
		return fmt.Sprintf("%d events wait, max_events is %d", have, l.cfg.MaxEvents)
	}
	if have := l.bytes + l.reserved.bytes; l.limitBytes > 0 && have+bytes > l.limitBytes {
		return fmt.Sprintf("%d bytes wait, the limit is %s", have, configfile.Size(l.limitBytes))
	}
	if l.disk.known && l.disk.free < int64(l.cfg.MinFreeDisk) {
		return fmt.Sprintf("the volume has %d bytes free, min_free_disk is %s", l.disk.free, l.cfg.MinFreeDisk)
	}
	return ""
}

// release gives back what enqueue reserved. The caller holds mu.
func (l *Log) release(req *request) {
	l.reserved.events -= req.records
	l.reserved.bytes -= req.bytes
}

// abandon takes the request out of the queue, unless it is being written: then
// the committer finishes it and nobody waits for the answer.
func (l *Log) abandon(req *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if req.taken {
		return
	}
	for i, r := range l.queue {
		if r == req {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			l.release(req)
			return
		}
	}
}
