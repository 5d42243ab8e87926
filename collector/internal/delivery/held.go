package delivery

import (
	"container/heap"
	"slices"
	"time"

	"spillway/collector/internal/sink"
)

// overhead is what a record held in memory costs besides its bytes.
const overhead = 160

// gather is how long records that are already old wait for company, so that a
// backlog leaves in full batches.
const gather = 100 * time.Millisecond

// item is a record in memory: read from the queue and not yet acked.
type item struct {
	sink.Record
	number    uint64    // order of arrival in this process, from 1
	arrivedAt time.Time // when it was read
	tries     int       // attempts without a final outcome
	flush     int64     // last flush that attempted it
}

func (it *item) cost() int64 { return it.Size() + overhead }

// parcel is what waits to be tried again.
type parcel struct {
	items []*item
	dueAt time.Time
	// whole: the batch failed as one. It is sent again exactly as it was: a store
	// that has it in spite of the failure then replaces it by itself. Others may be
	// mixed and split freely.
	whole    bool
	failedAt time.Time // when it last failed as a whole
}

// held is every record in memory that is not in a write: fresh ones in order,
// and those to be tried again by when they are due. It also counts the memory of
// those in writes and on their way to the dead letters.
type held struct {
	fresh      []*item
	freshBytes int64
	again      parcels
	count      int   // all items, wherever they are
	bytes      int64 // their cost
}

// arrive takes a record that has just been read.
func (h *held) arrive(it *item) {
	h.count++
	h.bytes += it.cost()
	h.pushFresh(it)
}

func (h *held) pushFresh(it *item) {
	h.fresh = append(h.fresh, it)
	h.freshBytes += it.Size()
}

// drop forgets an item that was acked.
func (h *held) drop(it *item) {
	h.count--
	h.bytes -= it.cost()
}

// retry keeps a parcel until it is due.
func (h *held) retry(p *parcel) {
	if len(p.items) > 0 {
		heap.Push(&h.again, p)
	}
}

// hurry makes every parcel due now.
func (h *held) hurry(now time.Time) {
	for _, p := range h.again {
		if p.dueAt.After(now) {
			p.dueAt = now
		}
	}
	heap.Init(&h.again)
}

// refresh makes every waiting item fresh again, in order of arrival, for a sink
// that has tried none of them.
func (h *held) refresh(items ...*item) {
	for _, p := range h.again {
		items = append(items, p.items...)
	}
	h.again = nil
	items = append(items, h.fresh...)
	slices.SortFunc(items, func(a, b *item) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	h.fresh, h.freshBytes = nil, 0
	for _, it := range items {
		it.tries = 0
		h.pushFresh(it)
	}
}

// cut takes the next batch out: at most most records and lim.MaxBytes, what is
// due again before what is fresh. Fresh records alone wait for a full batch or
// for lim.Linger; hurry cuts that short. It returns nil if nothing is to be sent
// now. A parcel that failed as a whole comes back as it was, whatever most says.
func (h *held) cut(now time.Time, lim sink.Limits, most int, hurry bool) (items []*item, whole *parcel) {
	b := batch{most: most, room: lim.MaxBytes}
	for len(h.again) > 0 && !h.again[0].dueAt.After(now) && !b.full {
		p := h.again[0]
		if p.whole {
			if len(b.items) > 0 {
				break
			}
			heap.Pop(&h.again)
			return p.items, p
		}
		n := 0
		for n < len(p.items) && b.add(p.items[n]) {
			n++
		}
		if p.items = p.items[n:]; len(p.items) == 0 {
			heap.Pop(&h.again)
		}
	}
	if len(b.items) > 0 || hurry || h.complete(lim, most) || !h.ripeAt(lim).After(now) {
		n := 0
		for n < len(h.fresh) && b.add(h.fresh[n]) {
			h.freshBytes -= h.fresh[n].Size()
			h.fresh[n] = nil
			n++
		}
		if h.fresh = h.fresh[n:]; len(h.fresh) == 0 {
			h.fresh = nil // let the array go
		}
	}
	return b.items, nil
}

// complete says whether the fresh records fill a batch.
func (h *held) complete(lim sink.Limits, most int) bool {
	return len(h.fresh) >= most || h.freshBytes >= lim.MaxBytes
}

// ripeAt returns when the oldest fresh record has waited long enough: lim.Linger
// from when the collector received it, and gather at least.
func (h *held) ripeAt(lim sink.Limits) time.Time {
	if len(h.fresh) == 0 {
		return never
	}
	first := h.fresh[0]
	age := max(0, first.arrivedAt.Sub(first.At))
	return first.arrivedAt.Add(max(lim.Linger-age, min(lim.Linger, gather)))
}

// dueAt returns when the next batch could be cut.
func (h *held) dueAt(lim sink.Limits, most int) time.Time {
	at := h.ripeAt(lim)
	if h.complete(lim, most) && len(h.fresh) > 0 {
		at = time.Time{}
	}
	if len(h.again) > 0 && h.again[0].dueAt.Before(at) {
		at = h.again[0].dueAt
	}
	return at
}

// sample takes up to most fresh records that lim allows, oldest first, leaving
// the others in order.
func (h *held) sample(lim sink.Limits, most int) []*item {
	b := batch{most: min(most, lim.MaxRecords), room: lim.MaxBytes}
	rest := h.fresh[:0:0]
	for i, it := range h.fresh {
		if b.full {
			rest = append(rest, h.fresh[i:]...)
			break
		}
		if tooLarge(it, lim) || !b.add(it) {
			rest = append(rest, it)
			continue
		}
		h.freshBytes -= it.Size()
	}
	h.fresh = rest
	return b.items
}

func tooLarge(it *item, lim sink.Limits) bool {
	return lim.MaxRecordBytes > 0 && it.Size() > lim.MaxRecordBytes
}

// batch gathers items up to a number and a size. The first item always fits.
type batch struct {
	items []*item
	most  int
	room  int64
	full  bool
}

func (b *batch) add(it *item) bool {
	if b.full || len(b.items) > 0 && it.Size() > b.room {
		b.full = true
		return false
	}
	b.items = append(b.items, it)
	b.room -= it.Size()
	b.full = len(b.items) >= b.most
	return true
}

// parcels is a heap by dueAt.
type parcels []*parcel

func (p parcels) Len() int           { return len(p) }
func (p parcels) Less(i, j int) bool { return p[i].dueAt.Before(p[j].dueAt) }
func (p parcels) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *parcels) Push(x any)        { *p = append(*p, x.(*parcel)) }
func (p *parcels) Pop() any {
	old := *p
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*p = old[:len(old)-1]
	return last
}
