package spool

import (
	"errors"
	"time"
)

// finish makes the group readable and answers its appends; or, after an error,
// leaves every segment it touched for good, at the end of the group before.
func (l *Log) finish(err error) {
	c := &l.commit
	if err != nil {
		l.leave()
	} else {
		for i := range c.full {
			l.seal(&c.full[i], false)
			select {
			case l.sealed <- c.full[i].file:
			default:
				_ = c.full[i].file.Close()
			}
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
