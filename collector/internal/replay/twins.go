package replay

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"

	"spillway/collector/internal/sink"
)

// mostTwins bounds how many records are remembered at a time, in about 40 bytes
// each. Beyond that some may be delivered twice.
const mostTwins = 1_000_000

// twins finds records that stand in two objects: a collector that died between
// storing an object and noting so wrote them again, in another one. Records are
// remembered only of objects of one collector whose numbers overlap. They are the
// same only if their number and every byte of them are: two boxes may have been
// given the same name. It is safe for concurrent use.
type twins struct {
	seed maphash.Seed

	mu     sync.Mutex // guards what follows
	groups map[string]*family
	size   int
}

// family is objects whose numbers overlap.
type family struct {
	open int               // of its objects
	seen map[uint64]uint64 // number to hash of the record
}

func newTwins(objects []Object) *twins {
	t := &twins{seed: maphash.MakeSeed(), groups: map[string]*family{}}
	sorted := slices.Clone(objects)
	slices.SortFunc(sorted, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Prefix, b.Prefix), cmp.Compare(a.Name.Instance, b.Name.Instance), cmp.Compare(a.Name.First, b.Name.First))
	})
	var last uint64
	for i, o := range sorted {
		if i > 0 {
			before := sorted[i-1]
			if before.Prefix == o.Prefix && before.Name.Instance == o.Name.Instance && o.Name.First <= last {
				f := t.groups[before.Key]
				if f == nil {
					f = &family{open: 1, seen: map[uint64]uint64{}}
					t.groups[before.Key] = f
				}
				f.open++
				t.groups[o.Key] = f
				last = max(last, o.Name.Last)
				continue
			}
		}
		last = o.Name.Last
	}
	return t
}

// again says whether a record of the object was met before in another object, or
// remembers it.
func (t *twins) again(object string, r sink.Record) bool {
	t.mu.Lock()
	f := t.groups[object]
	t.mu.Unlock()
	if f == nil {
		return false
	}
	var h maphash.Hash
	h.SetSeed(t.seed)
	_, _ = h.WriteString(r.Key + "\x00" + strconv.FormatInt(r.At.UnixMilli(), 10) + "\x00") // a hash never fails
	_, _ = h.Write(r.Data)
	sum := h.Sum64()

	t.mu.Lock()
	defer t.mu.Unlock()
	if before, ok := f.seen[r.Seq]; ok {
		return before == sum
	}
	if t.size < mostTwins {
		f.seen[r.Seq] = sum
		t.size++
	}
	return false
}

// finished forgets an object, and its family when it was the last of it.
func (t *twins) finished(object string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.groups[object]
	if f == nil {
		return
	}
	delete(t.groups, object)
	if f.open--; f.open == 0 {
		t.size -= len(f.seen)
	}
}
