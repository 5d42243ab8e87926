package replay

import (
	"context"
	"errors"
	"time"
)

// Forget clears the marks of a plan's objects that are done or were let go of, and
// with claims those of all, so that they are replayed from their beginning. It
// returns how many objects that were, or with dryRun would be.
func Forget(ctx context.Context, s Store, p *Plan, claims, dryRun bool) (int, error) {
	n := 0
	forget := func(o Object, keys ...string) error {
		n++
		if dryRun {
			return nil
		}
		for _, key := range keys {
			if err := s.Delete(ctx, key); err != nil {
				n--
				return err
			}
		}
		return nil
	}
	for _, o := range p.Claimed {
		m, err := s.ReadMark(ctx, o.Marks().Claim)
		if errors.Is(err, ErrNoMark) || err == nil && !m.Released && !claims {
			continue
		}
		if err := forget(o, o.Marks().Claim); err != nil {
			return n, err
		}
	}
	// The claim goes first: it may have been left behind, and says where to go on.
	for _, o := range p.Done {
		if err := forget(o, o.Marks().Claim, o.Marks().Done); err != nil {
			return n, err
		}
	}
	for _, o := range p.Damaged {
		if err := forget(o, o.Marks().Claim, o.Marks().Damaged); err != nil {
			return n, err
		}
	}
	return n, nil
}

// FirstAt returns when the first record of an object was received.
func FirstAt(ctx context.Context, s Store, o Object) (time.Time, error) {
	stored, err := s.Open(ctx, o.Entry)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = stored.Close() }()
	in := newScanner(o.Name, stored)
	for {
		if r, f, err := in.next(); err != nil || f == nil {
			return r.At, err
		}
	}
}
