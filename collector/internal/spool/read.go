package spool

import (
	"context"

	"spillway/collector/internal/spool/vfs"
)

// reader is where Read stands. Whoever has the turn may use it.
type reader struct {
	turn chan struct{} // holds one token while somebody reads
	seg  *segment      // nil between segments
	file vfs.File      // of seg
	scan scanner
	off  int64  // in seg
	seq  uint64 // next to be handed out; Log.readSeq is its copy

	failures   int   // errors in a row at off
	skip       int64 // bytes to skip once more errors are not to be waited for
	unreadable bool  // the gap before the next record could not be read
	gaps       int   // places in seg where records are damaged
}

// Read waits until there is a record that was not handed out yet, and returns
// those that come next, in order: at most maxRecords, and at most maxBytes of
// keys and data, but always one. A record is handed out once in the life of the
// log, and again after a restart unless its ack was saved. The caller owns what
// is returned. The error is that of ctx, ErrClosed, or a *DiskError: then calling
// again is right, and after three errors at one place Read leaves out the records
// it cannot read; they stay in the log for the next start.
func (l *Log) Read(ctx context.Context, maxRecords int, maxBytes int64) ([]Record, error) {
	select {
	case l.reader.turn <- struct{}{}:
		defer func() { <-l.reader.turn }()
	case <-ctx.Done():
		return nil, ctxError(ctx, "read")
	case <-l.stop:
		return nil, ErrClosed
	}
	for {
		select {
		case <-l.stop:
			return nil, ErrClosed
		default:
		}
		records, err := l.collect(max(maxRecords, 1), maxBytes)
		if len(records) > 0 {
			return records, nil // an error comes up again at the next call
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-l.readable:
		case <-ctx.Done():
			return nil, ctxError(ctx, "read")
		case <-l.stop:
			return nil, ErrClosed
		}
	}
}

// collect returns what can be read now.
func (l *Log) collect(maxRecords int, maxBytes int64) (records []Record, err error) {
	r := &l.reader
	var bytes int64
	for len(records) < maxRecords {
		end, limit, ok, err := r.aim(l)
		if err != nil || !ok {
			return l.handOut(records), err
		}
		off, seq := r.off, r.seq
		f, ok, err := r.scan.next(off, end, seq, limit)
		if err != nil {
			if err = l.readFailed(end, limit, err); err != nil {
				return l.handOut(records), err
			}
			continue
		}
		if !ok {
			f.seq, f.offset = limit, end // nothing but a gap
		}
		if ok && f.seq == seq && len(records) > 0 && bytes+int64(len(f.body)) > maxBytes {
			return l.handOut(records), nil
		}
		if f.seq > seq {
			l.lost(off, f.offset, seq, f.seq)
		}
		r.failures, r.skip, r.unreadable = 0, 0, false
		r.off, r.seq = f.offset, f.seq
		if !ok || (f.seq > seq && len(records) > 0 && bytes+int64(len(f.body)) > maxBytes) {
			continue
		}
		r.off, r.seq = f.offset+f.size(), f.seq+1
		if l.ackedAlready(r.seg, f.seq) {
			continue
		}
		bytes += int64(len(f.body))
		records = append(records, f.record())
	}
	return l.handOut(records), nil
}

// record copies what was found.
func (f *found) record() Record {
	body := make([]byte, len(f.body)-int(f.key))
	copy(body, f.body[f.key:])
	return Record{Seq: f.seq, At: fromMillis(f.at), Key: string(f.body[:f.key]), Data: body}
}

func (l *Log) ackedAlready(s *segment, seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.isAcked(seq)
}

// aim makes r stand in the segment with the next unread record, and returns up
// to where it may be read: what lies beyond is not durable yet. ok is false if
// everything was read.
func (r *reader) aim(l *Log) (end int64, limit uint64, ok bool, err error) {
	l.mu.Lock()
	if r.seg != nil && r.seq >= r.seg.limit() && r.seg.closed {
		l.mu.Unlock()
		r.release(l)
		l.mu.Lock()
	}
	if r.seg == nil {
		for _, s := range l.segments {
			if s.limit() > r.seq && s.acked < s.count {
				r.seg, l.pinned = s, s
				r.off, r.seq = dataOffset, max(r.seq, s.base)
				break
			}
		}
	}
	if r.seg == nil || r.seq >= r.seg.limit() {
		l.mu.Unlock()
		return 0, 0, false, nil
	}
	s := r.seg
	end, limit = min(s.end, s.size), s.limit()
	l.mu.Unlock()
	if r.file == nil {
		if r.file, err = l.fs.Open(s.name(), false); err != nil {
			return end, limit, true, l.readFailed(end, limit, err)
		}
		r.scan = scanner{file: r.file, salted: saltChecksum(s.salt), window: r.scan.window[:0]}
	}
	return end, limit, true, nil
}

// release leaves the segment.
func (r *reader) release(l *Log) {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
	r.seg, r.gaps = nil, 0
	l.mu.Lock()
	l.pinned = nil
	l.mu.Unlock()
}

// handOut notes what is given to the caller.
func (l *Log) handOut(records []Record) []Record {
	r := &l.reader
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readSeq = r.seq
	if len(records) == 0 {
		return nil
	}
	low, _ := l.low()
	drop := 0
	for drop+1 < len(l.handed) && l.handed[drop+1].seq <= low {
		drop++
	}
	l.handed = append(l.handed[:0], l.handed[drop:]...)
	if len(l.handed) == maxMarks { // coarser, and still never too late
		for i := range maxMarks / 2 {
			l.handed[i] = l.handed[2*i]
		}
		l.handed = l.handed[:maxMarks/2]
	}
	l.handed = append(l.handed, mark{records[0].Seq, records[0].At.UnixMilli()})
	l.unreadAt = records[len(records)-1].At.UnixMilli()
	l.totals.read += uint64(len(records))
	return records
}

// maxMarks bounds the memory for a caller that never acks.
const maxMarks = 4096
