package replay

import (
	"context"
	"sync"
	"time"

	"spillway/collector/internal/sink"
)

// Queue lends the records of the objects under replay to a forwarder. Records
// get numbers of its own there, since those in objects of several collectors may
// be the same; Through gives them their own back before a sink sees them.
//
// A record takes a slot from before it is read until a mark that covers it is
// durable. There are as many slots as Options.Window says, whatever the number
// of objects: that bounds both memory and what is sent twice after a kill.
//
// It is safe for concurrent use; Read is called by one goroutine.
type Queue struct {
	pace     *Pace
	progress *Progress
	window   int
	closed   chan struct{} // closed when nothing more will be confirmed

	mu      sync.Mutex // guards what follows, and what is said so in reading
	used    int        // slots taken
	number  uint64     // last one given
	ready   []*slot    // read, not lent yet
	bytes   int64      // of ready
	lent    map[uint64]*slot
	stopped bool          // nothing more is lent
	changed chan struct{} // closed when any of this changes, then replaced
}

// maxReady is how many bytes of records may be read and not lent yet, about.
const maxReady = 8 << 20

// slot is one record between being read and being covered by a mark.
type slot struct {
	of        *reading
	line      int // in the object
	record    sink.Record
	seq       uint64 // its own number
	confirmed bool
}

// reading is what the queue knows of one object. The fields are guarded by the
// queue's mutex.
type reading struct {
	slots    []*slot // not confirmed, or behind one that is not, in order of lines
	read     int     // last line that is in slots or needs none
	events   int64   // confirmed without a gap
	unsaved  int     // slots of events that no durable mark covers yet
	paused   bool    // none of its records are read or lent
	left     bool    // its keeper is gone: slots become free as they are confirmed
	progress chan struct{}
}

func newQueue(window int, pace *Pace, progress *Progress) *Queue {
	return &Queue{
		pace: pace, progress: progress, window: window, closed: make(chan struct{}),
		lent: map[uint64]*slot{}, changed: make(chan struct{}),
	}
}

// Read returns the next records, at least one, and waits for it and for as long
// as the pace asks.
func (q *Queue) Read(ctx context.Context, maxRecords int, maxBytes int64) ([]sink.Record, error) {
	for ctx.Err() == nil {
		if wait := q.pace.delay(time.Now()); wait > 0 {
			pause(ctx, wait)
			continue
		}
		q.mu.Lock()
		changed := q.changed
		records, bytes := q.lend(q.pace.most(maxRecords), maxBytes)
		q.mu.Unlock()
		if len(records) > 0 {
			q.pace.lent(len(records), bytes, time.Now())
			return records, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil, context.Cause(ctx)
}

func (q *Queue) lend(most int, room int64) (records []sink.Record, bytes int64) {
	if q.stopped {
		return nil, 0
	}
	var passed []*slot // of objects whose claim may be lost
	i := 0
	for ; i < len(q.ready) && len(records) < most; i++ {
		s := q.ready[i]
		if s.of.paused {
			passed = append(passed, s)
			continue
		}
		if len(records) > 0 && bytes+s.record.Size() > room {
			break
		}
		q.number++
		q.lent[q.number] = s
		r := s.record
		r.Seq = q.number
		s.record = sink.Record{} // the forwarder's from here on
		records = append(records, r)
		bytes += r.Size()
	}
	if q.bytes -= bytes; bytes > 0 {
		q.tell() // there is room to read on
	}
	clear(q.ready[:i])
	if q.ready = q.ready[i:]; len(passed) > 0 {
		q.ready = append(passed, q.ready...)
	}
	if len(q.ready) == 0 {
		q.ready = nil
	}
	return records, bytes
}

// Ack takes note that records are confirmed.
func (q *Queue) Ack(seqs ...uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, seq := range seqs {
		s := q.lent[seq]
		if s == nil {
			continue
		}
		delete(q.lent, seq)
		s.confirmed = true
		if s.of.left {
			q.used--
			continue
		}
		s.of.advance()
	}
	q.progress.confirm(len(seqs))
	q.tell()
}

// advance takes the confirmed slots from the front.
func (o *reading) advance() {
	n := 0
	for n < len(o.slots) && o.slots[n].confirmed {
		n++
	}
	if n == 0 {
		return
	}
	clear(o.slots[:n])
	o.slots = o.slots[n:]
	o.events += int64(n)
	o.unsaved += n
	select {
	case o.progress <- struct{}{}:
	default:
	}
}

// Sync does nothing: marks are made durable by those who keep them, after
// delivery has ended too.
func (q *Queue) Sync() error { return nil }

// Backlog returns how many records are lent out and not confirmed.
func (q *Queue) Backlog() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int64(len(q.lent))
}

// stop ends the lending; what is lent can still be confirmed.
func (q *Queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	q.tell()
}

// close says that nothing more will be confirmed.
func (q *Queue) close() {
	q.stop()
	close(q.closed)
}

func (q *Queue) tell() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// reserve waits for free slots and takes at least one and at most most.
func (q *Queue) reserve(ctx context.Context, o *reading, most int) (int, error) {
	for {
		q.mu.Lock()
		changed := q.changed
		if free := q.window - q.used; free > 0 && q.bytes < maxReady && !o.paused && !q.stopped {
			n := min(free, most)
			q.used += n
			q.mu.Unlock()
			return n, nil
		}
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// offer puts records that were read, into slots taken before, in line for
// lending. Of the slots taken, those it does not need are free again. Everything
// up to the line read is among the records, or was before, or needs no slot.
func (q *Queue) offer(o *reading, slots []*slot, taken, read int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= taken - len(slots)
	o.read = read
	o.slots = append(o.slots, slots...)
	q.ready = append(q.ready, slots...)
	for _, s := range slots {
		q.bytes += s.record.Size()
	}
	q.tell()
}

// confirmed returns up to which line, and how many events, everything of the
// object is confirmed, how many slots wait for a mark that says so, and how many
// are not confirmed.
func (q *Queue) confirmed(o *reading) (line int, events int64, unsaved, open int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line = o.read
	if len(o.slots) > 0 {
		line = o.slots[0].line - 1
	}
	return line, o.events, o.unsaved, len(o.slots)
}

// saved frees slots that a durable mark covers.
func (q *Queue) saved(o *reading, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o.unsaved -= n
	q.used -= n
	q.tell()
}

// pause stops or resumes the reading and lending of an object.
func (q *Queue) pause(o *reading, paused bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if o.paused != paused {
		o.paused = paused
		q.tell()
	}
}

// leave forgets an object whose reading has ended: what is not lent yet never will be, what is lent frees
// its slot when it is confirmed.
func (q *Queue) leave(o *reading) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := q.ready[:0]
	for _, s := range q.ready {
		if s.of != o {
			kept = append(kept, s)
			continue
		}
		q.bytes -= s.record.Size()
	}
	gone := len(q.ready) - len(kept)
	clear(q.ready[len(kept):])
	q.ready = kept
	confirmed := 0
	for _, s := range o.slots {
		if s.confirmed {
			confirmed++
		}
	}
	q.used -= gone + confirmed + o.unsaved
	o.slots, o.unsaved, o.left = nil, 0, true
	q.tell()
}
