// Package mode is the mode file: the one place that says which config a box
// should run, who decided that, when and why. The watchdog and people write it
// by compare-and-swap; the collector reads it at start and on SIGHUP.
//
// A missing file means primary. A file that cannot be read or understood means
// primary too, together with an error that its reader must say aloud.
package mode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"spillway/shared/durable"
)

// Mode names the config a collector runs.
type Mode string

// The two modes.
const (
	Primary  Mode = "primary"  // the main config: Kinesis
	Fallback Mode = "fallback" // the fallback config: S3 or files
)

// Parse turns text into a Mode.
func Parse(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Primary, Fallback:
		return m, nil
	}
	return "", fmt.Errorf("mode is %q: want %q or %q", s, Primary, Fallback)
}

// Schema is the version of the file written by this package.
const Schema = 1

// File is the content of the mode file.
type File struct {
	Schema int       `json:"schema"`
	Mode   Mode      `json:"mode"`
	Rev    int64     `json:"rev"`    // rises by one with every write
	Since  time.Time `json:"since"`  // when Mode last changed
	By     string    `json:"by"`     // "watchdog ip-10-0-0-12", "person alice"
	Reason string    `json:"reason"` // one sentence
	Pinned bool      `json:"pinned"` // a person decided: the watchdog leaves it alone
}

// ErrConflict says that the file is not the one the caller had read.
var ErrConflict = errors.New("mode file was changed by somebody else")

// Read returns the content of path. A missing file gives primary with Rev 0 and
// no error. A file that cannot be read or understood gives primary with Rev 0
// and an error.
func Read(path string) (File, error) {
	missing := File{Schema: Schema, Mode: Primary}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return missing, nil
	}
	if err != nil {
		return missing, fmt.Errorf("read mode file, running as primary: %w", err)
	}
	f, err := decode(data)
	if err != nil {
		return missing, fmt.Errorf("mode file %s is not usable, running as primary: %w (write it anew with `spillway-watchdog switch` or remove it)", path, err)
	}
	return f, nil
}

func decode(data []byte) (File, error) {
	var f File
	if len(bytes.Trim(data, "\x00 \t\r\n")) == 0 {
		return f, errors.New("it is empty")
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, err
	}
	if f.Schema != Schema {
		return f, fmt.Errorf("schema is %d: this version reads %d", f.Schema, Schema)
	}
	if _, err := Parse(string(f.Mode)); err != nil {
		return f, err
	}
	if f.Rev < 0 {
		return f, fmt.Errorf("rev is %d: want 0 or more", f.Rev)
	}
	return f, nil
}

// Swap replaces the file at path by next, provided its Rev is still expect, and
// returns what was written: Schema and Rev are set by Swap, and Since is kept
// from the old file when the mode does not change and next.Since is zero.
// It returns ErrConflict when the file has another Rev. A file that cannot be
// understood counts as Rev 0. When Swap returns nil the change survives a loss
// of power. Concurrent callers, in this process or others, are serialized by a
// lock on path + ".lock".
func Swap(path string, expect int64, next File) (File, error) {
	if _, err := Parse(string(next.Mode)); err != nil {
		return File{}, err
	}
	if strings.TrimSpace(next.By) == "" || strings.TrimSpace(next.Reason) == "" {
		return File{}, errors.New("a mode change needs who and why: By and Reason are empty")
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o660)
	if err != nil {
		return File{}, fmt.Errorf("open lock of mode file: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := flock(lock); err != nil {
		return File{}, fmt.Errorf("lock mode file %s: %w", path, err)
	}
	current, _ := Read(path)
	if current.Rev != expect {
		return current, fmt.Errorf("%w: it has rev %d (by %s), expected %d", ErrConflict, current.Rev, current.By, expect)
	}
	next.Schema = Schema
	next.Rev = expect + 1
	if next.Since.IsZero() {
		next.Since = time.Now().UTC()
		if next.Mode == current.Mode && !current.Since.IsZero() {
			next.Since = current.Since
		}
	}
	data, err := json.Marshal(next)
	if err != nil {
		return File{}, fmt.Errorf("encode mode file: %w", err)
	}
	if err := durable.WriteFile(path, append(data, '\n'), 0o660); err != nil {
		return File{}, err
	}
	return next, nil
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
