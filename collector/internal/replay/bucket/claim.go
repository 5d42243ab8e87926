package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"spillway/collector/internal/replay"
)

// Claim implements replay.Store.
//
// The claim is an object that one replayer creates and then changes, each time
// only if it is still as that replayer left it. Another one may change it when it
// was let go of, or when it has stayed the same for ExpireAfter on the other one's
// own clock: the clocks of two hosts are never compared. Whoever lost a claim
// learns of it at its next write.
func (s *Store) Claim(ctx context.Context, e replay.Entry, marks replay.Marks, to string) (replay.Claim, error) {
	c := &claim{store: s, marks: marks}
	if !s.o.Single && !s.seen(marks.Claim) {
		err := c.write(ctx, replay.Mark{To: to}, condition{absent: true})
		if err == nil {
			return c.confirm(ctx)
		}
		if !errors.Is(err, errRefused) {
			return nil, err
		}
	}
	body, etag, err := s.get(ctx, marks.Claim)
	if errors.Is(err, replay.ErrNoMark) && s.o.Single {
		if err := c.write(ctx, replay.Mark{To: to}, condition{}); err != nil {
			return nil, err
		}
		return c.confirm(ctx)
	}
	if errors.Is(err, replay.ErrNoMark) { // its owner has just finished
		s.forget(marks.Claim)
		return nil, s.doneOr(ctx, marks, &replay.BusyError{By: "another replayer"})
	}
	if err != nil {
		return nil, err
	}
	m, err := replay.DecodeMark(body)
	if err != nil {
		m = replay.Mark{By: "another replayer, whose mark cannot be read,"}
	}
	if !s.o.Single && m.By != s.o.Owner && !m.Released && !s.expired(marks.Claim, etag) {
		return nil, s.doneOr(ctx, marks, &replay.BusyError{By: m.By})
	}
	c.found, c.renewal = m, m.Renewal
	m.To, m.Released = to, false
	if err := c.write(ctx, m, condition{etag: etag}); errors.Is(err, errRefused) {
		return nil, &replay.BusyError{By: m.By} // somebody was quicker
	} else if err != nil {
		return nil, err
	}
	s.forget(marks.Claim)
	if !m.Released && c.found.By != s.o.Owner && !c.found.Released {
		s.o.Log.WithField("object", e.Key).Warnf("%s has not renewed its claim for %s: taking over", c.found.By, s.o.ExpireAfter)
	}
	return c.confirm(ctx)
}

// seen says whether another replayer's claim is being watched.
func (s *Store) seen(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.sighting[key]
	return ok
}

func (s *Store) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sighting, key)
}

// expired says whether a claim has stayed as it is for long enough.
func (s *Store) expired(key, etag string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, ok := s.sighting[key]; ok && seen.etag == etag {
		return time.Since(seen.firstAt) >= s.o.ExpireAfter
	}
	s.sighting[key] = sighting{etag, time.Now()}
	return false
}

// doneOr returns ErrDone if the object is done, and err otherwise.
func (s *Store) doneOr(ctx context.Context, marks replay.Marks, err error) error {
	for _, key := range []string{marks.Done, marks.Damaged} {
		switch done, failed := s.exists(ctx, key); {
		case failed != nil:
			return failed
		case done:
			return replay.ErrDone
		}
	}
	return err
}

// claim implements replay.Claim. It is used by one goroutine.
type claim struct {
	store   *Store
	marks   replay.Marks
	found   replay.Mark
	renewal uint64
	etag    string // of the claim as this replayer left it
}

// Found implements replay.Claim.
func (c *claim) Found() replay.Mark { return c.found }

// confirm makes sure that the object was not finished between the listing and the
// claim. The owner before writes that it is done before it removes its claim.
func (c *claim) confirm(ctx context.Context) (replay.Claim, error) {
	err := c.store.doneOr(ctx, c.marks, nil)
	if errors.Is(err, replay.ErrDone) {
		_ = c.store.Delete(ctx, c.marks.Claim) // without the permission it stays, which does no harm
		return nil, err
	}
	if err != nil {
		m := c.found
		m.Released = true
		_ = c.write(ctx, m, condition{etag: c.etag}) // it would run out by itself
		return nil, err
	}
	return c, nil
}

// write changes the claim. A write whose answer was lost is found again by its
// content: no other write has the same owner and number.
func (c *claim) write(ctx context.Context, m replay.Mark, when condition) error {
	c.renewal++
	m.By, m.Renewal, m.At = c.store.o.Owner, c.renewal, time.Now()
	body := m.Encode()
	if c.store.o.Single {
		when = condition{}
	}
	for {
		etag, err := c.store.put(ctx, c.marks.Claim, body, when)
		if err == nil {
			c.etag = etag
			return nil
		}
		if !errors.Is(err, errRefused) {
			return err
		}
		there, etag, err := c.store.get(ctx, c.marks.Claim)
		if err != nil && !errors.Is(err, replay.ErrNoMark) {
			return err
		}
		if bytes.Equal(there, body) {
			c.etag = etag
			return nil
		}
		if m, err := replay.DecodeMark(there); err != nil || m.By != c.store.o.Owner {
			return errRefused
		}
		when = condition{etag: etag} // an earlier write of ours, whose answer was lost
	}
}

// Save implements replay.Claim.
func (c *claim) Save(ctx context.Context, m replay.Mark) error {
	err := c.write(ctx, m, condition{etag: c.etag})
	if errors.Is(err, errRefused) {
		return fmt.Errorf("renew claim: %w", replay.ErrLost)
	}
	return err
}

// Finish implements replay.Claim. The claim is renewed once more first: a
// replayer that has lost it must not say how the object ended.
func (c *claim) Finish(ctx context.Context, m replay.Mark) error {
	if err := c.Save(ctx, m); err != nil {
		return err
	}
	m.By, m.At, m.Renewal = c.store.o.Owner, time.Now(), c.renewal
	if _, err := c.store.put(ctx, c.marks.Finished(m), m.Encode(), condition{}); err != nil {
		return err
	}
	_ = c.store.Delete(ctx, c.marks.Claim) // without the permission it stays, which does no harm
	return nil
}

// Release implements replay.Claim.
func (c *claim) Release(ctx context.Context, m replay.Mark) error {
	m.Released = true
	return c.Save(ctx, m)
}
