// Package state keeps what the watchdog must not forget in one small file: its
// mode, its holds and budget, and the action it is in the middle of. It is
// written before each step is done, so that a watchdog that died anywhere
// continues from where it was.
//
// A write is atomic and on stable storage when Save returns. The content before
// the last is kept beside it as .bak. A file that cannot be understood is set
// aside, never deleted, and the backup is used; when that is no good either the
// watchdog has lost its memory and starts carefully.
package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"spillway/shared/durable"
)

// Origin tells where the state came from.
type Origin int

// The origins, from the ordinary to the worst.
const (
	Current Origin = iota // the file itself
	Fresh                 // there was none: the first start on this box
	Backup                // the file was damaged: one save may be missing
	Amnesia               // nothing could be read
)

func (o Origin) String() string {
	return [...]string{"current", "fresh", "backup", "amnesia"}[o]
}

// Store is the state file at one path, holding a value of type T.
type Store[T any] struct {
	path  string
	check func(T) error
	last  []byte // what is known to be on disk
}

// New returns the store at path; its directory must exist. check tells whether
// a decoded value can be used, as for the version of its schema.
func New[T any](path string, check func(T) error) *Store[T] {
	return &Store[T]{path: path, check: check}
}

// Loaded is what Load found.
type Loaded[T any] struct {
	Value  T // the zero value when Origin is Fresh or Amnesia
	Origin Origin
	Aside  []string // the names under which damaged files were kept
	Cause  error    // what was wrong with them
}

// Load reads the state. It returns an error only when the directory cannot be
// used at all; damage is reported in Loaded.
func (s *Store[T]) Load() (Loaded[T], error) {
	var found Loaded[T]
	value, data, err := s.read(s.path)
	if err == nil {
		found.Value, s.last = value, data
		return found, nil
	}
	backup, _, backupErr := s.read(s.backup())
	if errors.Is(err, fs.ErrNotExist) && errors.Is(backupErr, fs.ErrNotExist) {
		found.Origin = Fresh
		return found, nil
	}
	found.Cause = err
	if err := s.setAside(s.path, &found.Aside); err != nil {
		return found, err
	}
	if backupErr == nil {
		found.Value, found.Origin = backup, Backup
		return found, nil
	}
	found.Cause = errors.Join(err, backupErr)
	found.Origin = Amnesia
	return found, s.setAside(s.backup(), &found.Aside)
}

// Peek reads the state without touching anything, for commands that only show it.
func (s *Store[T]) Peek() (T, error) {
	value, _, err := s.read(s.path)
	if err != nil {
		if backup, _, backupErr := s.read(s.backup()); backupErr == nil {
			return backup, nil
		}
	}
	return value, err
}

func (s *Store[T]) read(path string) (value T, data []byte, err error) {
	var none T
	data, err = os.ReadFile(path)
	if err != nil {
		return none, nil, fmt.Errorf("read state: %w", err)
	}
	if len(bytes.Trim(data, "\x00 \t\r\n")) == 0 {
		return none, nil, fmt.Errorf("read state %s: it is empty", path)
	}
	if err := json.Unmarshal(data, &value); err != nil {
		return none, nil, fmt.Errorf("read state %s: %w", path, err)
	}
	if err := s.check(value); err != nil {
		return none, nil, fmt.Errorf("read state %s: %w", path, err)
	}
	return value, data, nil
}

func (s *Store[T]) setAside(path string, names *[]string) error {
	name := path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000000")
	err := os.Rename(path, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("set the damaged state aside: %w", err)
	}
	*names = append(*names, name)
	return nil
}

// Save writes value. When it returns nil the value survives a loss of power; a
// value equal to the last one saved is not written again. When it returns an
// error the watchdog must not act: it could not honour its budget after a crash.
func (s *Store[T]) Save(value T) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	data = append(data, '\n')
	if bytes.Equal(data, s.last) {
		return nil
	}
	if s.last != nil { // only what was written or read whole becomes a backup
		if err := durable.WriteFile(s.backup(), s.last, 0o640); err != nil {
			return s.cannot("keep the state before", err)
		}
	}
	if err := durable.WriteFile(s.path, data, 0o640); err != nil {
		return s.cannot("save the state", err)
	}
	s.last = data
	return nil
}

// cannot leaves out the name of the temporary file, which is another one at each
// attempt: the same trouble shall read the same.
func (s *Store[T]) cannot(what string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s in %s: %w", what, filepath.Dir(s.path), err)
}

func (s *Store[T]) backup() string { return s.path + ".bak" }
