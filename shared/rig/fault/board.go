package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// Board holds the faults in force. It is safe for concurrent use; the zero
// value is not usable, make one with NewBoard.
type Board struct {
	onDown func(down bool) error // opens and closes the listener
	except []Kind                // kinds that this stand-in does not have

	change sync.Mutex // held while a change is carried out, so that changes happen one after the other

	mu     sync.Mutex
	faults []*Fault      // guarded by mu
	rand   *rand.Rand    // guarded by mu; seeded, so that a test sees the same shares each time
	mended chan struct{} // guarded by mu; closed when faults are mended, then replaced
	hits   map[Kind]int  // guarded by mu
	struck chan struct{} // guarded by mu; closed when a fault strikes, then replaced
}

// NewBoard returns a board without faults. onDown is called when Down is set or
// mended; the kinds in except are refused.
func NewBoard(onDown func(down bool) error, except ...Kind) *Board {
	return &Board{
		onDown: onDown,
		except: except,
		rand:   rand.New(rand.NewPCG(1, 2)),
		mended: make(chan struct{}),
		hits:   map[Kind]int{},
		struck: make(chan struct{}),
	}
}

// Break puts a fault in force, beside those that are. The first one set that
// fits a call decides about the whole call; Record faults all apply.
func (b *Board) Break(f Fault) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if slices.Contains(b.except, f.Kind) {
		return fmt.Errorf("kind: %q is not possible here", f.Kind)
	}
	b.change.Lock()
	defer b.change.Unlock()
	if f.Kind == Down {
		if err := b.onDown(true); err != nil {
			return fmt.Errorf("go down: %w", err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, &f)
	return nil
}

// Mend ends the faults of the given kinds, or all of them if none is given.
// Calls that hang or wait because of them are cut: their connections are reset.
func (b *Board) Mend(kinds ...Kind) error {
	b.change.Lock()
	defer b.change.Unlock()
	ends := func(f Fault) bool { return len(kinds) == 0 || slices.Contains(kinds, f.Kind) }
	if slices.ContainsFunc(b.Faults(), func(f Fault) bool { return f.Kind == Down && ends(f) }) {
		if err := b.onDown(false); err != nil {
			return fmt.Errorf("come back: %w", err) // still down, so that Mend can be tried again
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = slices.DeleteFunc(b.faults, func(f *Fault) bool { return ends(*f) })
	close(b.mended)
	b.mended = make(chan struct{})
	return nil
}

// Faults returns the faults in force in the order in which they were set.
func (b *Board) Faults() []Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Fault, len(b.faults))
	for i, f := range b.faults {
		list[i] = *f
	}
	return list
}

// Hits returns how often a fault of this kind has struck so far: calls, or
// records for Record.
func (b *Board) Hits(k Kind) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hits[k]
}

// WaitHits returns when a fault of this kind has struck n times, or with ctx's
// error.
func (b *Board) WaitHits(ctx context.Context, k Kind, n int) error {
	for {
		b.mu.Lock()
		hits, struck := b.hits[k], b.struck
		b.mu.Unlock()
		if hits >= n {
			return nil
		}
		select {
		case <-struck:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d hits of fault %s: have %d: %w", n, k, hits, ctx.Err())
		}
	}
}

// PickCall returns the fault that strikes this call as a whole, if one does.
// The channel is closed when faults are mended.
func (b *Board) PickCall(c Call) (Fault, <-chan struct{}, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		if f.Kind != Down && f.Kind != Record && f.fits(c) && b.strikes(f) {
			return *f, b.mended, true
		}
	}
	return Fault{}, nil, false
}

// PickRecord returns the Record fault that strikes one record of a call, if one
// does.
func (b *Board) PickRecord(c Call, data []byte) (Fault, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.Data = [][]byte{data}
	for _, f := range b.faults {
		if f.Kind == Record && f.fits(c) && b.strikes(f) {
			return *f, true
		}
	}
	return Fault{}, false
}

// strikes decides about one call or record that fits, and counts. Called with
// mu held.
func (b *Board) strikes(f *Fault) bool {
	if f.Share > 0 && b.rand.Float64() >= f.Share {
		return false
	}
	b.hits[f.Kind]++
	close(b.struck)
	b.struck = make(chan struct{})
	if f.Times > 0 {
		if f.Times--; f.Times == 0 {
			b.faults = slices.DeleteFunc(slices.Clone(b.faults), func(o *Fault) bool { return o == f })
		}
	}
	return true
}
