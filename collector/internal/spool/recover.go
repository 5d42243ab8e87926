package spool

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"spillway/collector/internal/spool/vfs"
)

// recover builds the log from what is in the directory. Only what would make it
// unsafe to go on is an error; the rest is worked around, counted and reported.
func (l *Log) recover() error {
	l.refreshUsage()
	entries, err := l.fs.List(".")
	if err != nil {
		return err
	}
	acked, found, err := l.acks.load()
	if err != nil && !isMissing(err) {
		if errors.Is(err, ErrFormat) || errors.Is(err, os.ErrPermission) {
			return err
		}
		l.log.WithError(err).Error("the saved acks cannot be read")
	}
	l.listCorrupt()
	var foreign []string
	for _, e := range entries {
		if number, ok := fileNumber(e.Name, segmentSuffix); ok && !e.Dir {
			l.commit.number = max(l.commit.number, number+1)
			if err := l.recoverSegment(e, number); err != nil {
				return err
			}
		} else if !l.tidy(e) {
			foreign = append(foreign, e.Name)
		}
	}
	if l.totals.foreign = len(foreign); len(foreign) > 0 {
		l.log.Warnf("%d files in %s are not the spool's and are left alone: %s",
			len(foreign), l.dir, strings.Join(foreign[:min(len(foreign), 5)], ", "))
	}
	l.order()
	if !found && len(l.segments) > 0 {
		l.log.Warn("no saved acks were found: everything in the spool is delivered, again if it was before")
	}
	l.restore(acked, found)

	// Numbering goes on from the time, so that no seq is used twice even if the
	// segments that held the highest were lost.
	l.commit.next = max(l.tip, uint64(time.Now().UnixMilli())<<20)
	l.dirty = true
	_ = l.saveAcks() // reported; a full disk must not keep the log from draining
	l.log.WithField("events", l.events).WithField("bytes", l.bytes).WithField("segments", len(l.segments)).
		Info("spool opened")
	return nil
}

// tidy keeps or removes what is not a segment. It returns false for what is not
// the log's.
func (l *Log) tidy(e vfs.Entry) bool {
	switch e.Name {
	case acksName, lockName:
		return !e.Dir
	case corruptDir:
		return e.Dir
	}
	_, temp := fileNumber(e.Name, tempSuffix)
	number, isSpare := fileNumber(e.Name, spareSuffix)
	switch {
	case e.Dir:
		return false
	case isSpare && e.Size == int64(l.cfg.SegmentBytes) && len(l.spares) < l.cfg.SpareSegments:
		l.commit.number = max(l.commit.number, number+1)
		l.spares = append(l.spares, spare{name: e.Name, size: e.Size})
		return true
	case isSpare, temp, e.Name == acksName+tempSuffix:
		return l.fs.Remove(e.Name) == nil
	}
	return false
}

// recoverSegment adds one file to the log, or sets it aside.
func (l *Log) recoverSegment(e vfs.Entry, number uint64) error {
	if e.Size == 0 {
		l.totals.damagedSegments++
		l.log.Errorf("segment %s is empty: what was in it is lost; the file is removed", e.Name)
		_ = l.fs.Remove(e.Name)
		return nil
	}
	file, err := l.fs.Open(e.Name, true)
	if err != nil {
		if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EUCLEAN) {
			l.setAsideFile(e.Name, err.Error())
			return nil
		}
		return fmt.Errorf("segment %s must be readable and writable by this user: %w", e.Name, err)
	}
	defer func() { _ = file.Close() }()
	lab, err := readLabel(file, e.Name)
	if errors.Is(err, ErrFormat) {
		return err
	}
	if err == nil && lab.number != number {
		err = fmt.Errorf("its label says that it is segment %d", lab.number)
	}
	if err != nil {
		l.setAsideFile(e.Name, err.Error())
		return nil
	}
	s := &segment{
		number: number, base: lab.base, prev: lab.prev, salt: lab.salt,
		size: e.Size, end: lab.end, count: lab.count, first: lab.first,
		closed: true, spoilt: e.Size != int64(l.cfg.SegmentBytes),
	}
	if !lab.sealed {
		l.scanTail(s, file)
		if s.count == 0 && !s.held { // made, and never written to
			_ = l.fs.Remove(e.Name)
			return nil
		}
		if !s.held {
			l.seal(&tail{seg: s, file: file, end: s.end, count: s.count, first: s.first}, true)
		}
	}
	l.segments = append(l.segments, s)
	return nil
}

// readLabel returns the label of a segment: the second block if it is whole and
// sealed, else whichever is whole.
func readLabel(file vfs.File, name string) (label, error) {
	block := make([]byte, blockSize)
	var best label
	whole := false
	for _, offset := range []int64{0, sealOffset} {
		n, readErr := file.ReadAt(block, offset)
		var lab label
		version, ok := lab.decode(block[:n])
		if version != 0 && version != formatVersion {
			return label{}, &FormatError{File: name, Version: version}
		}
		if readErr != nil && n < labelSize && !ok {
			continue
		}
		if ok && (!whole || lab.salt == best.salt) {
			best, whole = lab, true
		}
	}
	if !whole || best.sealed && (best.end < dataOffset || best.count == 0 || best.base+best.count < best.base) {
		return label{}, errors.New("its label is damaged")
	}
	return best, nil
}

// scanTail finds what is in a segment that was not sealed. What it finds was
// durable or may have become so; all of it counts. Where records are missing
// before the start of a later group, that group was only begun once they were
// durable: they are damaged, which Read will find and report. Where they are
// missing within the last group, it is the one the crash tore: nobody was
// answered for it, and its gaps are marked so that nothing looks for them.
func (l *Log) scanTail(s *segment, file vfs.File) {
	scan := scanner{file: file, salted: saltChecksum(s.salt)}
	limit := s.base + uint64(s.size)/headerSize + 1
	var gaps []span
	off, seq := int64(dataOffset), s.base
	s.end = off
	for skip := int64(blockSize); ; {
		f, ok, err := scan.next(off, s.size, seq, limit)
		if err != nil {
			s.held = true
			off = roundUp(max(off, scan.failed)+1) + skip - blockSize
			skip *= 2
			l.diskFailed(&DiskError{Op: "read", File: s.name(), Err: err})
			continue
		}
		if !ok {
			break
		}
		if f.flags&flagGroupStart != 0 {
			gaps = gaps[:0]
		}
		if f.seq > seq && f.flags&flagGroupStart == 0 {
			gaps = append(gaps, span{seq, f.seq})
		}
		if s.count == 0 {
			s.first = f.at
		}
		off, seq = f.offset+f.size(), f.seq+1
		s.end, s.count = roundUp(off), seq-s.base
	}
	if s.held {
		l.log.Errorf("segment %s cannot be read whole: it is kept, and tried again at the next start", s.name())
		return
	}
	if scan.torn > seq {
		l.totals.torn += scan.torn - seq
	}
	for _, g := range gaps {
		l.totals.torn += s.ack(g.from, g.to)
	}
}

// order sorts the segments and sets aside those that repeat seqs of another, as
// copies made by hand would.
func (l *Log) order() {
	slices.SortFunc(l.segments, func(a, b *segment) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	kept := l.segments[:0]
	for _, s := range l.segments {
		if n := len(kept); n > 0 && s.base < kept[n-1].limit() {
			l.setAsideFile(s.name(), "it repeats what is in segment "+kept[n-1].name())
			continue
		}
		kept = append(kept, s)
	}
	clear(l.segments[len(kept):])
	l.segments = kept
}

// restore applies the saved acks and looks for segments that should be there.
func (l *Log) restore(acked ackState, found bool) {
	l.saved = acked
	l.tip = acked.low
	for _, a := range acked.spans {
		l.tip = max(l.tip, a.to)
	}
	expected := acked.low
	for _, s := range l.segments {
		s.ack(0, acked.low)
		for _, a := range acked.spans {
			s.ack(a.from, a.to)
		}
		if found && expected < s.prev && !acked.covers(expected, s.prev) {
			l.totals.missing++
			l.log.Errorf("events with seq %d to %d should be in the spool and are not: a segment before %s is gone",
				expected, s.prev-1, s.name())
		}
		expected = max(expected, s.limit())
		l.tip = max(l.tip, s.limit())
		l.events += int64(s.count - s.acked)
		l.bytes += s.unackedBytes()
	}
	low, _ := l.low()
	l.readSeq, l.reader.seq = low, low
	signal(l.readable)
}
