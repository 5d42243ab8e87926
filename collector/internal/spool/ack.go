package spool

import (
	"errors"
	"os"
	"sort"
)

// Ack marks records as delivered: they will not be handed out again once this
// was saved, which happens within Config.AckEvery, at Sync and at Close. A crash
// before that redelivers them. Any order will do; seqs that are not in the log,
// or were acked before, are ignored.
func (l *Log) Ack(seqs ...uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 0; i < len(seqs); {
		from := seqs[i]
		to := from + 1
		for i++; i < len(seqs) && seqs[i] == to; i++ {
			to++
		}
		for from < to {
			s := l.find(from)
			if s == nil {
				from++
				continue
			}
			l.totals.acked += l.mark(s, from, to)
			from = min(to, s.limit())
		}
	}
}

// mark acks records of one segment. The caller holds mu.
func (l *Log) mark(s *segment, from, to uint64) (fresh uint64) {
	l.change(s, func() { fresh = s.ack(from, to) })
	if fresh > 0 && !l.dirty {
		l.dirty = true
		signal(l.ackable)
	}
	return fresh
}

// find returns the segment with the record, or nil. The caller holds mu.
func (l *Log) find(seq uint64) *segment {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].limit() > seq })
	if i == len(l.segments) || l.segments[i].base > seq {
		return nil
	}
	return l.segments[i]
}

// low returns the seq of the oldest record that is not acked, or tip, and its
// segment, or nil. The caller holds mu.
func (l *Log) low() (uint64, *segment) {
	for _, s := range l.segments {
		if s.acked < s.count {
			return s.low(), s
		}
	}
	return l.tip, nil
}

// ackState gathers the marks. Between segments and behind the last one there is
// nothing left to deliver, so those seqs count as acked too: a removed segment that a crash brings back is
// recognized. Marks for which there is no room in a slot are left out, and saved
// once the ones before them have closed up.
func (l *Log) ackState() ackState {
	low, _ := l.low()
	state := ackState{low: low}
	add := func(from, to uint64) bool {
		if from = max(from, low); from >= to {
			return true
		}
		if n := len(state.spans); n > 0 && state.spans[n-1].to == from {
			state.spans[n-1].to = to
			return true
		}
		if len(state.spans) == maxSpans {
			return false
		}
		state.spans = append(state.spans, span{from, to})
		return true
	}
	before := low
	for _, s := range l.segments {
		if s.limit() <= low {
			continue
		}
		if !add(before, s.base) {
			return state
		}
		before = s.limit()
		for seq := s.base; seq < s.limit() && s.acked > 0; {
			from, to := s.run(seq)
			if !add(from, to) {
				return state
			}
			seq = to
		}
	}
	add(before, l.tip) // of segments behind the last that were given back
	return state
}

// saveAcks saves the marks and gives back what is then no longer needed. The
// order matters: a segment removed before its acks are durable could not be told
// from one that was lost.
func (l *Log) saveAcks() error {
	l.saving.Lock()
	defer l.saving.Unlock()
	if l.shut {
		return ErrClosed
	}
	l.mu.Lock()
	dirty := l.dirty
	state := l.saved
	if dirty {
		state, l.dirty = l.ackState(), false
	}
	l.mu.Unlock()
	if dirty {
		if err := l.acks.save(&state); err != nil {
			err = &DiskError{Op: "save", File: acksName, Err: err}
			l.mu.Lock()
			l.dirty = true
			l.diskFailed(err)
			l.mu.Unlock()
			if err.Error() != l.ackFailing {
				l.ackFailing = err.Error()
				l.log.WithError(err).Error("acks cannot be saved: after a crash events would be delivered again, and no space is given back")
			}
			signal(l.ackable) // tried again
			return err
		}
		l.mu.Lock()
		l.saved = state
		l.mu.Unlock()
		if l.ackFailing != "" {
			l.ackFailing = ""
			l.log.Info("acks are saved again")
		}
	}
	l.reclaim()
	return nil
}

func isMissing(err error) bool { return errors.Is(err, os.ErrNotExist) }
