package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"time"

	"spillway/collector/internal/deadletter"
	"spillway/collector/internal/ingest/protocol"
	"spillway/collector/internal/sink"
)

// letterQueue is a file of dead letters on its way to a sink: the delivery.Queue
// of what the letters hold, and the delivery.DeadLetters that hears what is
// refused again. In memory it keeps what is under way and a little for each letter.
type letterQueue struct {
	chosen func(deadletter.Entry) bool
	most   int64  // largest record that the sink takes; 0 is any
	limit  int64  // size from which on a payload is cut; 0 is never
	first  uint64 // seq of the first record

	reading sync.Mutex // one Read at a time
	next    func() (deadletter.Entry, error, bool)
	seq     uint64 // of the next record
	pending []sink.Record
	drained bool

	mu      sync.Mutex // guards what follows
	letters []letter   // chosen ones, in the order of the file
	owner   []int      // of each record, its letter
	left    int64      // records not settled
}

// letter is what became of one letter.
type letter struct {
	open    int // records not settled
	refused string
	code    string
}

func (l letter) delivered() bool { return l.open == 0 && l.refused == "" }

// split returns the records that a letter makes: the whole payload of a request
// that was too large is cut as it would be now. Without records it says why not.
func (q *letterQueue) split(e deadletter.Entry) ([][]byte, string) {
	if e.Code == oversizeCode && q.limit > 0 {
		pieces, need, err := protocol.Resplit(e.Data, int(q.limit))
		switch {
		case err == nil:
			return pieces, ""
		case need == 0:
			return nil, err.Error()
		}
		return nil, fmt.Sprintf("%v: raise http.max_record_bytes to %d or more, %s", err, need, elsewhere)
	}
	if size := int64(len(e.Data) + len(e.Key)); q.most > 0 && size > q.most {
		return nil, fmt.Sprintf("it has %d bytes with its key and the destination takes at most %d: %s", size, q.most, elsewhere)
	}
	return [][]byte{e.Data}, ""
}

const elsewhere = "raise sink.kinesis.max_record_bytes and the limit of the stream, or send it --to s3 or file"

// open reads the file once to learn how much there is to do, and makes it ready
// to be read again by Read.
func (q *letterQueue) open(f *os.File) error {
	for e, err := range deadletter.Read(f) {
		if _, damaged := errors.AsType[*deadletter.DamagedError](err); damaged {
			continue
		}
		if err != nil {
			return err
		}
		if !q.chosen(e) {
			continue
		}
		pieces, why := q.split(e)
		n := len(q.letters)
		q.letters = append(q.letters, letter{open: max(len(pieces), 1), refused: why, code: e.Code})
		for range pieces {
			q.owner = append(q.owner, n)
		}
	}
	q.left = int64(len(q.owner))
	q.first = uint64(time.Now().UnixMilli()) << 20 // as a new spool: never used before
	q.seq = q.first
	_, err := f.Seek(0, io.SeekStart)
	next, stop := iter.Pull2(deadletter.Read(f))
	q.next = func() (deadletter.Entry, error, bool) {
		e, err, ok := next()
		if !ok {
			stop()
		}
		return e, err, ok
	}
	return err
}

// Read has the promises of delivery.Queue.
func (q *letterQueue) Read(ctx context.Context, maxRecords int, maxBytes int64) ([]sink.Record, error) {
	q.reading.Lock()
	defer q.reading.Unlock()
	var out []sink.Record
	var bytes int64
	for len(out) < maxRecords && q.fill() {
		r := q.pending[0]
		if len(out) > 0 && bytes+r.Size() > maxBytes {
			break
		}
		out, q.pending, bytes = append(out, r), q.pending[1:], bytes+r.Size()
	}
	if len(out) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return out, nil
}

// fill makes the next records pending.
func (q *letterQueue) fill() bool {
	for len(q.pending) == 0 && !q.drained {
		e, err, ok := q.next()
		if !ok {
			q.drained = true
		}
		if !ok || err != nil || !q.chosen(e) {
			continue
		}
		pieces, _ := q.split(e)
		at := e.ReceivedAt
		if at.IsZero() {
			at = e.At
		}
		for _, piece := range pieces {
			q.pending = append(q.pending, sink.Record{Seq: q.seq, At: at, Key: e.Key, Data: piece})
			q.seq++
		}
	}
	return len(q.pending) > 0
}

// Ack settles records: a letter is delivered when all of its records are.
func (q *letterQueue) Ack(seqs ...uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, seq := range seqs {
		q.letters[q.owner[seq-q.first]].open--
		q.left--
	}
}

// Put hears of records that are refused: they are settled, but their letter stays.
func (q *letterQueue) Put(_ context.Context, entries ...deadletter.Entry) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range entries {
		l := &q.letters[q.owner[e.Seq-q.first]]
		l.refused, l.code = e.Reason, e.Code
	}
	return nil
}

// Sync has the promises of delivery.Queue: what is delivered is taken out of the
// file when all is over.
func (q *letterQueue) Sync() error { return nil }

// Backlog has the promises of delivery.Queue.
func (q *letterQueue) Backlog() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left
}
