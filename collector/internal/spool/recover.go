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
	candidates, rest, err := l.survey(entries)
	if err != nil {
		return err
	}
	l.listCorrupt()
	for i := range candidates {
		l.adopt(&candidates[i])
	}
	var foreign []string
	for _, e := range rest {
		if !l.tidy(e) {
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

// candidate is a file with the name of a segment.
type candidate struct {
	vfs.Entry
	number uint64
	label  label
	damage string // why it cannot be used
}

// survey reads the labels, and changes nothing: a directory of another format, or
// of another user, is left as it is.
func (l *Log) survey(entries []vfs.Entry) (candidates []candidate, rest []vfs.Entry, err error) {
	for _, e := range entries {
		number, ok := fileNumber(e.Name, segmentSuffix)
		if !ok || e.Dir {
			rest = append(rest, e)
			continue
		}
		c := candidate{Entry: e, number: number}
		file, err := l.fs.Open(e.Name, true)
		if err == nil {
			c.label, err = readLabel(file, e.Name)
			_ = file.Close()
		} else if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EUCLEAN) {
			return nil, nil, fmt.Errorf("segment %s must be readable and writable by this user: %w", e.Name, err)
		}
		switch {
		case errors.Is(err, ErrFormat):
			return nil, nil, err
		case err != nil:
			c.damage = err.Error()
		case c.label.number != number:
			c.damage = fmt.Sprintf("its label says that it is segment %d", c.label.number)
		}
		candidates = append(candidates, c)
	}
	return candidates, rest, nil
}

// adopt adds one file to the log, or sets it aside.
func (l *Log) adopt(c *candidate) {
	l.commit.number = max(l.commit.number, c.number+1)
	if c.Size == 0 {
		l.totals.damagedSegments++
		l.log.Errorf("segment %s is empty: what was in it is lost; the file is removed", c.Name)
		_ = l.fs.Remove(c.Name)
		return
	}
	if c.damage != "" {
		l.setAsideFile(c.Name, c.damage)
		return
	}
	s := &segment{
		number: c.number, base: c.label.base, prev: c.label.prev, salt: c.label.salt,
		size: c.Size, end: c.label.end, count: c.label.count, first: c.label.first,
		closed: true, spoilt: c.Size != int64(l.cfg.SegmentBytes),
	}
	if !c.label.sealed && !l.adoptOpen(s) {
		return
	}
	l.segments = append(l.segments, s)
}

// adoptOpen finds what is in a segment that was not sealed, and seals it. It
// returns false if there was nothing in it.
func (l *Log) adoptOpen(s *segment) bool {
	file, err := l.fs.Open(s.name(), true)
	if err != nil { // it could be opened a moment ago
		l.log.WithError(err).Errorf("segment %s is kept, and tried again at the next start", s.name())
		s.held = true
		return true
	}
	defer func() { _ = file.Close() }()
	l.scanTail(s, file)
	switch {
	case s.held:
	case s.count == 0: // made, and never written to
		_ = l.fs.Remove(s.name())
		return false
	default:
		l.seal(&tail{seg: s, file: file, end: s.end, count: s.count, first: s.first}, true)
	}
	return true
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
