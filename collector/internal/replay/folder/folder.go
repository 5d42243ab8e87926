// Package folder keeps replay's objects and marks in a directory, as the file
// sink writes it.
//
// A claim is a lock on the object's own file, which the kernel drops when its
// owner dies: there is nothing to renew and nothing to wait for. All replayers of
// a directory must run on hosts whose file system shares such locks.
package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spillway/collector/internal/replay"
	"spillway/shared/durable"
)

const (
	dirMode  = 0o750
	fileMode = 0o640
)

// Store implements replay.Store. Keys are absolute paths with slashes.
type Store struct {
	dir   string
	owner string
}

// Open returns the store of a directory, which must exist.
func Open(dir, owner string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open directory of objects: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open directory of objects: %s is no directory", dir)
	}
	return &Store{dir: dir, owner: owner}, nil
}

// Place implements replay.Store.
func (s *Store) Place() string { return strings.TrimSuffix(filepath.ToSlash(s.dir), "/") + "/" }

// List implements replay.Store. A directory that does not exist is empty, and so
// is one that goes away meanwhile. What begins with a dot is not finished.
func (s *Store) List(ctx context.Context, place string, visit func(replay.Entry) error) error {
	err := filepath.WalkDir(filepath.FromSlash(place), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case d.IsDir() || strings.HasPrefix(d.Name(), "."):
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return visit(replay.Entry{Key: filepath.ToSlash(path), Size: info.Size()})
	})
	if err != nil {
		return fmt.Errorf("list %s: %w", place, err)
	}
	return nil
}

// Open implements replay.Store.
func (s *Store) Open(_ context.Context, e replay.Entry) (io.ReadCloser, error) {
	return os.Open(filepath.FromSlash(e.Key))
}

// ReadMark implements replay.Store.
func (s *Store) ReadMark(_ context.Context, key string) (replay.Mark, error) {
	b, err := os.ReadFile(filepath.FromSlash(key))
	if errors.Is(err, fs.ErrNotExist) {
		return replay.Mark{}, fmt.Errorf("%s: %w", key, replay.ErrNoMark)
	}
	if err != nil {
		return replay.Mark{}, fmt.Errorf("read mark: %w", err)
	}
	return replay.DecodeMark(b)
}

// Delete implements replay.Store.
func (s *Store) Delete(_ context.Context, key string) error {
	path := filepath.FromSlash(key)
	if err := os.Remove(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("delete: %w", err)
	}
	return durable.SyncDir(filepath.Dir(path))
}

// Claim implements replay.Store.
func (s *Store) Claim(ctx context.Context, e replay.Entry, marks replay.Marks, to string) (_ replay.Claim, err error) {
	f, err := os.Open(filepath.FromSlash(e.Key))
	if errors.Is(err, fs.ErrNotExist) {
		if done := s.done(marks); done != nil {
			return nil, done
		}
	}
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		by := "another replayer"
		if m, err := s.ReadMark(ctx, marks.Claim); err == nil {
			by = m.By
		}
		return nil, &replay.BusyError{By: by}
	} else if err != nil {
		return nil, fmt.Errorf("claim: lock %s: %w", e.Key, err)
	}
	if err := s.done(marks); err != nil {
		return nil, err
	}
	c := &claim{store: s, marks: marks, lock: f}
	m, err := s.ReadMark(ctx, marks.Claim)
	switch {
	case err == nil:
		c.found = m
	case !errors.Is(err, replay.ErrNoMark):
		// Marks are replaced as a whole: this one was not written by us, and nothing
		// in it can be believed. From the beginning, nothing is skipped.
		c.found = replay.Mark{By: "a replayer whose mark cannot be read"}
	}
	m = c.found
	m.To, m.Released = to, false
	if err := durable.MkdirAll(filepath.Dir(filepath.FromSlash(marks.Claim)), dirMode); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return c, c.Save(ctx, m)
}

// done returns ErrDone if the object is done.
func (s *Store) done(marks replay.Marks) error {
	for _, key := range []string{marks.Done, marks.Damaged} {
		switch _, err := os.Stat(filepath.FromSlash(key)); {
		case err == nil:
			return replay.ErrDone
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("look for a mark: %w", err)
		}
	}
	return nil
}

// claim implements replay.Claim by a locked file.
type claim struct {
	store   *Store
	marks   replay.Marks
	lock    *os.File
	found   replay.Mark
	renewal uint64
}

// Found implements replay.Claim.
func (c *claim) Found() replay.Mark { return c.found }

// Save implements replay.Claim. The lock cannot be lost while this process lives.
func (c *claim) Save(_ context.Context, m replay.Mark) error { return c.write(c.marks.Claim, m) }

func (c *claim) write(key string, m replay.Mark) error {
	c.renewal++
	m.By, m.Renewal, m.At = c.store.owner, c.found.Renewal+c.renewal, time.Now()
	return durable.WriteFile(filepath.FromSlash(key), m.Encode(), fileMode)
}

// Finish implements replay.Claim.
func (c *claim) Finish(ctx context.Context, m replay.Mark) error {
	defer func() { _ = c.lock.Close() }()
	if err := c.write(c.marks.Finished(m), m); err != nil {
		return err
	}
	_ = c.store.Delete(ctx, c.marks.Claim) // with the other mark there it is not looked at
	return nil
}

// Release implements replay.Claim.
func (c *claim) Release(_ context.Context, m replay.Mark) error {
	defer func() { _ = c.lock.Close() }()
	m.Released = true
	return c.write(c.marks.Claim, m)
}
