package spool

import (
	"fmt"
	"time"
)

// upkeep saves acks a little after they were made, makes seals durable, and
// watches the volume.
func (l *Log) upkeep() {
	watch := time.NewTicker(time.Second)
	defer watch.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-l.stop:
			return
		case file := <-l.sealed:
			_ = file.Sync() // only saves the next Open a scan
			_ = file.Close()
			continue
		case <-watch.C:
			l.refreshUsage()
			l.dropSpares()
			continue
		case <-l.ackable:
		}
		pause.Reset(l.cfg.AckEvery)
		select {
		case <-l.stop:
			return
		case <-pause.C:
		}
		_ = l.saveAcks() // counted, and tried again with the next acks
	}
}

// syncSealed finishes what upkeep left.
func (l *Log) syncSealed() {
	for {
		select {
		case file := <-l.sealed:
			_ = file.Sync()
			_ = file.Close()
		default:
			return
		}
	}
}

// reclaim empties or removes the segments whose records were all saved as acked.
// Needing no space, it works on a full disk. The caller holds saving.
func (l *Log) reclaim() {
	for {
		s, keep := l.reclaimable()
		if s == nil {
			return
		}
		name := fileName(s.number, spareSuffix)
		if keep && !l.makeSpare(s.name(), name) {
			keep = false
		}
		var err error
		if !keep {
			err = l.fs.Remove(s.name())
		}
		l.mu.Lock()
		if err != nil && !isMissing(err) {
			// It stays in the list and is tried again after the next save.
			l.diskFailed(fmt.Errorf("reclaim segment %s: %w", s.name(), err))
			l.mu.Unlock()
			return
		}
		for i := range l.segments {
			if l.segments[i] == s {
				l.segments = append(l.segments[:i], l.segments[i+1:]...)
				break
			}
		}
		if keep {
			l.spares = append(l.spares, spare{name: name, size: s.size})
		}
		l.mu.Unlock()
	}
}

// makeSpare gives a segment the name of a spare, durably: were it written again
// before that, a crash could bring back the old name with the new content.
func (l *Log) makeSpare(from, to string) bool {
	err := l.fs.Rename(from, to)
	if err == nil {
		err = l.fs.SyncDir()
	}
	if err != nil {
		_ = l.fs.Remove(to)
	}
	return err == nil
}

// reclaimable returns a segment that is no longer needed and whether it is to be
// kept as a spare.
func (l *Log) reclaimable() (*segment, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		if !s.closed || s.held || s.acked < s.count || s == l.pinned || !l.saved.covers(s.base, s.limit()) {
			continue
		}
		keep := !s.spoilt && s.size == int64(l.cfg.SegmentBytes) && len(l.spares) < l.cfg.SpareSegments && !l.tight()
		return s, keep
	}
	return nil, false
}

// tight says that the volume is near the point where appends are refused. The
// caller holds mu.
func (l *Log) tight() bool {
	return l.disk.known && l.disk.free < int64(l.cfg.MinFreeDisk+l.cfg.MinFreeDisk/4)
}

// dropSpares removes the spares when space is low.
func (l *Log) dropSpares() {
	l.mu.Lock()
	var drop []spare
	if l.tight() {
		drop, l.spares = l.spares, nil
	}
	l.mu.Unlock()
	for _, s := range drop {
		_ = l.fs.Remove(s.name) // what is left is removed by the next Open
	}
}
