package spool

import "fmt"

// patience is how many errors at one place Read reports before it goes on behind it.
const patience = 3

// maxGaps bounds what is logged and set aside for one segment.
const maxGaps = 100

// readFailed decides what becomes of an error: it is the caller's, until it has
// come up too often; then the place is skipped, by more each time, for a device
// that answers no more must not be asked for every block.
func (l *Log) readFailed(end int64, limit uint64, err error) error {
	r := &l.reader
	failure := &DiskError{Op: "read", File: r.seg.name(), Err: err}
	l.mu.Lock()
	l.diskFailed(failure)
	l.mu.Unlock()
	if r.failures++; r.failures < patience {
		return failure
	}
	if r.failures == patience {
		l.log.WithError(failure).Error("a part of the spool cannot be read: going on behind it; it is tried again at the next start")
	}
	r.unreadable = true
	if r.file == nil {
		l.lost(r.off, end, r.seq, limit)
		r.off, r.seq = end, limit
		return failure
	}
	r.skip = max(2*r.skip, blockSize)
	r.off = min(roundUp(max(r.off, r.scan.failed)+r.skip), end)
	return nil
}

// lost accounts for the records from from up to before to, which should stand at
// the bytes off to end. What cannot be read stays in the log, not acked. What is
// damaged is set aside, and marked so that its segment can be given back.
func (l *Log) lost(off, end int64, from, to uint64) {
	r := &l.reader
	l.mu.Lock()
	n := r.seg.unacked(from, to)
	l.mu.Unlock()
	if n > 0 && !r.unreadable {
		off = r.scan.afterPadding(off, end)
	}
	l.mu.Lock()
	if r.unreadable {
		l.totals.unreadable += n
	} else if n > 0 {
		l.totals.corruptRecords += n
		l.totals.corruptBytes += uint64(end - off)
	}
	l.mu.Unlock()
	if n == 0 || r.unreadable {
		return
	}
	what := fmt.Sprintf("%d records (seq %d to %d) at offset %d, %d bytes, of segment %s are damaged",
		n, from, to-1, off, end-off, r.seg.name())
	switch r.gaps++; {
	case r.gaps < maxGaps:
		l.log.Error(what + ": they are left out")
		if end > off {
			l.setAsideBytes(r.file, r.seg.number, off, end-off, what)
		}
	case r.gaps == maxGaps:
		l.log.Error(what + ": they are left out; more damage in this segment is only counted")
	}
	l.mu.Lock()
	l.mark(r.seg, from, to)
	l.mu.Unlock()
}
