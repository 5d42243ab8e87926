package spool

import (
	"errors"
	"fmt"
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
		began := time.Now()
		l.writing.Store(&began)
		err := l.write()
		l.finish(err)
		l.writing.Store(nil)
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
		return trouble("write", c.tail.seg.name(), err)
	}
	c.tail.end += int64(len(c.buf))
	if c.buf = c.buf[:0]; cap(c.buf) > 2*maxGroupBytes {
		c.buf = nil
	}
	return nil
}

var zeros [blockSize]byte // padding

// sync makes what the group added to t durable, up to the end of the block: the
// next group begins with the next block.
func (l *Log) sync(t *tail) error {
	if pad := roundUp(t.end) - t.end; pad > 0 {
		if _, err := t.file.WriteAt(zeros[:pad], t.end); err != nil {
			return trouble("write", t.seg.name(), err)
		}
		t.end += pad
	}
	began := time.Now()
	if err := t.file.Sync(); err != nil {
		return trouble("sync", t.seg.name(), err)
	}
	l.metrics.synced(time.Since(began))
	return nil
}

// trouble is the error of an append that the disk refused: a volume, or a share of
// it, that is full is a want of room like any other.
func trouble(op, file string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &FullError{Reason: fmt.Sprintf("%s %s: %v", op, file, err)}
	}
	return &DiskError{Op: op, File: file, Err: err}
}
