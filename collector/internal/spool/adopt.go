package spool

import (
	"errors"
	"fmt"
	"syscall"

	"spillway/collector/internal/spool/vfs"
)

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
