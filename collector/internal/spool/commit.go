package spool

import (
	"errors"
	"syscall"
	"time"

	"spillway/collector/internal/spool/vfs"
)

// maxGroupBytes bounds what is written with one sync, so that a single Append
// never waits long behind a large group. One larger Append is a group by itself.
const maxGroupBytes = 4 << 20

// committer is the state of the goroutine that writes; nobody else touches it.
type committer struct {
	tail    *tail  // the segment written to; nil before the first group and after an error
	full    []tail // segments the current group filled
	group   []*request
	buf     []byte
	next    uint64 // seq of the next record
	number  uint64 // of the next segment
	failing string // error of the last group, "" if it was written
}

// tail is a segment with what the current group added to it.
type tail struct {
	seg    *segment
	file   vfs.File
	salted uint32
	end    int64 // where the next bytes go
	count  uint64
	first  int64
	fresh  bool // not yet in Log.segments
}

func (l *Log) commitLoop() {
	for l.take() {
		err := l.write()
		l.finish(err)
	}
	if c := &l.commit; c.tail != nil {
		l.seal(c.tail, true)
		_ = c.tail.file.Sync() // only saves the next Open a scan
		_ = c.tail.file.Close()
		l.mu.Lock()
		c.tail.seg.closed = true
		l.mu.Unlock()
		c.tail = nil
	}
}

// take waits for appends and makes them the group. It returns false once the log
// is closing and none is left.
func (l *Log) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 {
		if l.closing {
			return false
		}
		l.work.Wait()
	}
	c := &l.commit
	c.group = c.group[:0]
	var bytes int64
	for _, req := range l.queue {
		if bytes += int64(len(req.encoded)); bytes > maxGroupBytes && len(c.group) > 0 {
			break
		}
		req.taken = true
		c.group = append(c.group, req)
	}
	left := copy(l.queue, l.queue[len(c.group):])
	clear(l.queue[left:])
	l.queue = l.queue[:left]
	return true
}

// write stores the group durably, or returns why it did not.
func (l *Log) write() error {
	c := &l.commit
	c.buf = c.buf[:0]
	start := uint16(flagGroupStart)
	for _, req := range c.group {
		for b := req.encoded; len(b) > 0; {
			size := encodedSize(b)
			if c.tail != nil && c.tail.end+int64(len(c.buf))+size > int64(l.cfg.SegmentBytes) {
				if err := l.flush(); err != nil {
					return err
				}
				c.full = append(c.full, *c.tail)
				c.tail = nil
			}
			if c.tail == nil {
				t, err := l.create()
				if err != nil {
					return err
				}
				c.tail, start = t, flagGroupStart
			}
			at := len(c.buf)
			c.buf = append(c.buf, b[:size]...)
			placeRecord(c.buf[at:], c.tail.salted, c.next, start)
			if c.tail.count == 0 {
				c.tail.first = req.first
			}
			c.next++
			c.tail.count++
			start = 0
			b = b[size:]
			if len(c.buf) >= maxGroupBytes {
				if err := l.flush(); err != nil {
					return err
				}
			}
		}
	}
	if err := l.flush(); err != nil {
		return err
	}
	for i := range c.full {
		if err := l.sync(&c.full[i]); err != nil {
			return err
		}
	}
	return l.sync(c.tail)
}

// flush writes the buffer to the tail.
func (l *Log) flush() error {
	c := &l.commit
	if len(c.buf) == 0 {
		return nil
	}
	if _, err := c.tail.file.WriteAt(c.buf, c.tail.end); err != nil {
		return &DiskError{Op: "write", File: c.tail.seg.name(), Err: err}
	}
	c.tail.end += int64(len(c.buf))
	if c.buf = c.buf[:0]; cap(c.buf) > 2*maxGroupBytes {
		c.buf = nil
	}
	return nil
}

// sync makes what the group added to t durable, up to the end of the block: the
// next group begins with the next block.
func (l *Log) sync(t *tail) error {
	if pad := roundUp(t.end) - t.end; pad > 0 {
		var zeros [blockSize]byte
		if _, err := t.file.WriteAt(zeros[:pad], t.end); err != nil {
			return &DiskError{Op: "write", File: t.seg.name(), Err: err}
		}
		t.end += pad
	}
	began := time.Now()
	if err := t.file.Sync(); err != nil {
		return &DiskError{Op: "sync", File: t.seg.name(), Err: err}
	}
	l.metrics.synced(time.Since(began))
	return nil
}

// finish makes the group readable and answers its appends; or, after an error,
// leaves every segment it touched for good, at the end of the group before.
func (l *Log) finish(err error) {
	c := &l.commit
	if err != nil {
		l.leave()
	} else {
		for i := range c.full {
			l.seal(&c.full[i], false)
			_ = c.full[i].file.Close()
		}
	}
	l.mu.Lock()
	if err == nil {
		var size int64
		for _, req := range c.group {
			l.totals.appended += uint64(req.records)
			size += int64(len(req.encoded))
		}
		l.totals.appendedBytes += uint64(size)
		l.totals.groups++
		if l.readSeq >= l.tip {
			l.unreadAt = c.group[0].first
		}
		for i := range c.full {
			l.publish(&c.full[i])
			c.full[i].seg.closed = true
		}
		l.publish(c.tail)
		l.tip = c.next
	}
	for _, req := range c.group {
		l.release(req)
	}
	l.settle(err)
	l.mu.Unlock()
	clear(c.full)
	c.full = c.full[:0]
	if err == nil {
		signal(l.readable)
	}
	for i, req := range c.group {
		req.done <- err
		c.group[i] = nil
	}
}

// publish lets readers see what was added to t. The caller holds mu.
func (l *Log) publish(t *tail) {
	s := t.seg
	l.change(s, func() {
		if s.count == 0 {
			s.first = t.first
		}
		s.grow(t.end, t.count)
	})
	if t.fresh {
		l.segments = append(l.segments, s)
		t.fresh = false
	}
}

// change accounts for what f does to the records of s. The caller holds mu.
func (l *Log) change(s *segment, f func()) {
	l.events -= int64(s.count - s.acked)
	l.bytes -= s.unackedBytes()
	f()
	l.events += int64(s.count - s.acked)
	l.bytes += s.unackedBytes()
}

// leave gives up the segments of a failed group. A segment that failed once is
// never synced again to find out whether the data is there after all: after a
// failed sync a second one may succeed without having written anything. What was
// durable before stays; the failed records lie after the end and are not
// delivered.
func (l *Log) leave() {
	c := &l.commit
	c.buf = c.buf[:0]
	tails := c.full
	if c.tail != nil {
		tails = append(tails, *c.tail)
	}
	for i := range tails {
		t := &tails[i]
		if t.fresh {
			_ = t.file.Close()
			_ = l.fs.Remove(t.seg.name())
			continue
		}
		l.mu.Lock()
		t.seg.closed, t.seg.spoilt = true, true
		t.end, t.count = t.seg.end, t.seg.count
		l.mu.Unlock()
		l.seal(t, true)
		_ = t.file.Close()
	}
	c.tail = nil
}

// settle remembers how the last group fared and says so when that changes. The
// caller holds mu.
func (l *Log) settle(err error) {
	c := &l.commit
	if err == nil {
		if c.failing != "" {
			c.failing = ""
			l.totals.failing = false
			l.log.Info("the spool takes events again")
		}
		return
	}
	if errors.Is(err, ErrFull) {
		l.totals.refused += uint64(len(c.group))
	} else {
		l.diskFailed(err)
		l.totals.failing = true
	}
	if err.Error() != c.failing {
		c.failing = err.Error()
		l.log.WithError(err).Error("the spool cannot store events: they are refused until it can")
	}
}

// diskFailed counts an error of the disk. The caller holds mu.
func (l *Log) diskFailed(err error) {
	l.totals.diskErrors++
	l.totals.lastError, l.totals.lastErrorAt = err.Error(), time.Now()
}

// noSpace says whether err means that the volume, or this user's share, is full.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
