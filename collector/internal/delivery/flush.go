package delivery

import (
	"time"

	"spillway/shared/healthapi"
)

// round is a flush under way: the records that were in the backlog when it began,
// and how many of them are still owed an attempt. A stop is a round too. The loop
// owns it.
//
// A round ends when every one of its records has been attempted; or when the
// destination takes nothing: as many batches as may be under way at once were
// tried, all failed, none was written since the round began, and trying the rest
// too would only keep the caller waiting; or when its time is over.
type round struct {
	active   bool
	number   int64 // flush requests up to this one are answered by it
	mark     uint64
	owed     int   // items in memory, numbered up to mark, not attempted since it began
	left     int64 // records of the round not acked
	deadline time.Time
	begunAt  time.Time
	written  bool // a write since it began took something
	failed   bool // a write begun since failed as a whole
}

// begin starts a round over everything in memory (held items, all owed) and the
// unread records behind it. arrived is the number of the last item read.
func (r *round) begin(number int64, held int, arrived uint64, unread int64, now time.Time, timeout time.Duration) {
	*r = round{
		active: true, number: number, mark: arrived + uint64(unread),
		owed: held, left: int64(held) + unread, begunAt: now, deadline: now.Add(timeout),
	}
}

// arrived notes that an item has been read.
func (r *round) arrived(it *item) {
	if r.active && it.number <= r.mark {
		r.owed++
	}
}

// attempted notes that an attempt at an item has ended, whatever came of it.
func (r *round) attempted(it *item, id int64) {
	if r.active && it.number <= r.mark && it.flush != id {
		it.flush = id
		r.owed--
	}
}

// acked notes that an item has left the backlog.
func (r *round) acked(it *item) {
	if r.active && it.number <= r.mark {
		r.left--
	}
}

// hopeless says that the destination took nothing since the round began.
func (r *round) hopeless() bool { return r.active && r.failed && !r.written }

// over says whether the round has ended. arrived is the number of the last item
// read, idle that no write is under way, buried that no dead letter has yet to be
// stored, dry that the queue has had nothing more to read for a while.
func (r *round) over(now time.Time, arrived uint64, idle, buried, dry bool) bool {
	switch {
	case !r.active:
		return false
	case !now.Before(r.deadline):
		return true
	case r.hopeless():
		return idle
	}
	return r.owed <= 0 && buried && (arrived >= r.mark || dry)
}

// result is how the round ended, given how many records the queue says remain.
func (r *round) result(backlog int64) (healthapi.FlushResult, int64) {
	// Records that the queue had to set aside are counted as left but are gone.
	left := max(0, min(r.left, backlog))
	if left == 0 {
		return healthapi.FlushDrained, 0
	}
	return healthapi.FlushKept, left
}

// CombineFlush makes one account of the flushes of several lanes that are always
// asked together: it is completed when all are, and drained when all are.
func CombineFlush(flushes ...healthapi.Flush) healthapi.Flush {
	var all healthapi.Flush
	for i, f := range flushes {
		if i == 0 {
			all = f
			continue
		}
		all.Requested = max(all.Requested, f.Requested)
		all.Completed = min(all.Completed, f.Completed)
		all.RemainingEvents += f.RemainingEvents
		if f.Result != healthapi.FlushDrained {
			all.Result = f.Result
		}
		if all.CompletedAt == nil || f.CompletedAt != nil && f.CompletedAt.After(*all.CompletedAt) {
			all.CompletedAt = f.CompletedAt
		}
	}
	if all.Completed == 0 {
		all.Result, all.CompletedAt = "", nil
	}
	return all
}
