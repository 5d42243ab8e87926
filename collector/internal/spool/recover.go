package spool

import (
	"errors"
	"os"
	"slices"
	"strings"
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
