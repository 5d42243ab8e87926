package deadletter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"spillway/shared/durable"
)

// appendDurable appends lines to the file at path, making it if need be, and
// syncs it. It returns whether it made the file. The file is locked while it is
// written, and must still be the one at path once the lock is held: that is what
// lets Claim take a file away with everything in it.
func appendDurable(path string, lines []byte) (made bool, err error) {
	for range 10 {
		made, gone, err := tryAppend(path, lines)
		if err != nil {
			return made, fmt.Errorf("append dead letters to %s: %w", path, err)
		}
		if !gone {
			return made, nil
		}
	}
	return false, fmt.Errorf("append dead letters to %s: the file is taken away again and again", path)
}

func tryAppend(path string, lines []byte) (made, gone bool, err error) {
	_, statErr := os.Stat(path)
	made = errors.Is(statErr, os.ErrNotExist)
	if made { // the directory too may have been cleared away
		if err := durable.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return false, false, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return false, false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := lock(f); err != nil {
		return made, false, err
	}
	if !still(f, path) {
		return made, true, nil
	}
	size, torn, err := tail(f)
	if err != nil {
		return made, false, err
	}
	if torn {
		lines = append([]byte{'\n'}, lines...) // what a crash left of a line stays a line of its own
	}
	if _, err := f.Write(lines); err != nil {
		_ = f.Truncate(size) // so that no half line stays; if this fails too, torn sees it next time
		return made, false, err
	}
	if err := f.Sync(); err != nil {
		return made, false, err
	}
	if made || size == 0 {
		// An empty file may be left from a crash before its name was synced.
		if err := durable.SyncDir(filepath.Dir(path)); err != nil {
			return made, false, err
		}
	}
	// Deleted under our hands, lock or no lock: what was written went with it.
	return made, !still(f, path), nil
}

// tail returns the file's size and whether its last line lacks a newline.
func tail(f *os.File) (size int64, torn bool, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, false, err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil && !errors.Is(err, io.EOF) {
		return 0, false, err
	}
	return info.Size(), last[0] != '\n', nil
}

// still says whether f is the file found at path.
func still(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Claim takes the file at path out of the store, so that what is put later goes
// to a new file, and returns its new path: the old one with ".claimed". It waits
// for a Put in progress, in this process or another. The caller deletes the
// claimed file when everything in it is dealt with; until then it still counts
// towards MaxBytes, and List still shows it. A file already claimed is returned
// as it is.
func Claim(path string) (claimed string, err error) {
	if filepath.Ext(path) == claimedExt {
		return path, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("claim dead letters: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := lock(f); err != nil {
		return "", fmt.Errorf("claim dead letters in %s: %w", path, err)
	}
	if !still(f, path) {
		return "", fmt.Errorf("claim dead letters in %s: another process has just taken it: %w", path, os.ErrNotExist)
	}
	claimed = path + claimedExt
	// Unlike a rename, a link never replaces an earlier claim. If that is this
	// very file, a claim was cut short between the two steps: go on with it.
	if err := os.Link(path, claimed); err != nil && !still(f, claimed) {
		return "", fmt.Errorf("claim dead letters: deal with the earlier claim first: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return "", fmt.Errorf("claim dead letters: %w", err)
	}
	return claimed, durable.SyncDir(filepath.Dir(path))
}
