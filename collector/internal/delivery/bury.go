package delivery

import (
	"context"
	"fmt"
	"time"

	"spillway/collector/internal/deadletter"
	"spillway/collector/internal/sink"
)

// condemned is a record that can never be delivered, on its way to the dead
// letters.
type condemned struct {
	item  *item
	entry deadletter.Entry
}

// undertaker takes condemned records to the dead letters, one group at a time,
// and tries again when that fails. The loop owns it.
type undertaker struct {
	waiting []condemned
	bytes   int64
	busy    []condemned // being stored; nil when idle
	fails   int         // in a row
	dueAt   time.Time   // no attempt before
}

// condemn puts a record on the way to the dead letters. Its message stays in
// memory until it is stored there.
func (u *undertaker) condemn(lane sink.Lane, it *item, why *sink.Error, now time.Time) {
	u.waiting = append(u.waiting, condemned{it, deadletter.Entry{
		At: now, ReceivedAt: it.At, Reason: why.Error(), Code: why.Code,
		Lane: string(lane), Seq: it.Seq, Key: it.Key, Data: it.Data,
	}})
	u.bytes += it.cost()
}

// next returns a group to store now, or nil.
func (u *undertaker) next(now time.Time) []condemned {
	if u.busy != nil || len(u.waiting) == 0 || now.Before(u.dueAt) {
		return nil
	}
	u.busy, u.waiting = u.waiting, nil
	return u.busy
}

// settled takes note of how storing the group went and returns the items that are
// safe among the dead letters.
func (u *undertaker) settled(err error, cfg Config, now time.Time) (safe []*item) {
	group := u.busy
	u.busy = nil
	if err != nil {
		u.fails++
		u.dueAt = now.Add(backoff(cfg.MinBackoff, cfg.MaxBackoff, u.fails))
		u.waiting = append(group, u.waiting...)
		return nil
	}
	u.fails, u.dueAt = 0, time.Time{}
	for _, c := range group {
		u.bytes -= c.item.cost()
		safe = append(safe, c.item)
	}
	return safe
}

// overflow lets go of the oldest records while storing fails and they take up
// more than limit bytes, so that they do not stop the lane. They stay unacked in
// the queue, to be tried again after a restart.
func (u *undertaker) overflow(limit int64) (parked []*item) {
	for u.fails > 0 && len(u.waiting) > 0 && u.bytes > limit {
		it := u.waiting[0].item
		u.waiting = u.waiting[1:]
		u.bytes -= it.cost()
		parked = append(parked, it)
	}
	return parked
}

// all returns what is waiting and being stored.
func (u *undertaker) all() []condemned { return append(u.busy[:len(u.busy):len(u.busy)], u.waiting...) }

// resting says that there is nothing to do, or that it has just been tried.
func (u *undertaker) resting() bool {
	return u.busy == nil && (len(u.waiting) == 0 || u.fails > 0)
}

// store makes the group durable, on a goroutine of its own.
func store(ctx context.Context, dead DeadLetters, group []condemned, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	entries := make([]deadletter.Entry, len(group))
	for i, c := range group {
		entries[i] = c.entry
	}
	return dead.Put(ctx, entries...)
}

// oversize is why a record that is larger than the sink can ever take is
// condemned without an attempt.
func oversize(it *item, o *outlet) *sink.Error {
	info := o.sink.Info()
	return &sink.Error{Cause: sink.CauseRecord, Code: "RecordTooLarge", Message: fmt.Sprintf(
		"the record has %d bytes and %s %s takes at most %d", it.Size(), info.Type, info.Target, o.limits.MaxRecordBytes)}
}
