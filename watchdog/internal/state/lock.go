package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another watchdog holds the lock.
var ErrLocked = errors.New("another watchdog is at work")

// Lock keeps a second watchdog away. The kernel drops it when the process ends,
// however it ends.
type Lock struct{ file *os.File }

// TakeLock takes the lock at path, making the file when there is none. It never
// waits: it returns ErrLocked when another process has it.
func TakeLock(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if errors.Is(err, fs.ErrPermission) {
		file, err = os.Open(path) // another user's: it can be locked all the same
	}
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := make([]byte, 64)
		n, _ := file.ReadAt(holder, 0)
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is held by %s", ErrLocked, path, strings.TrimSpace(string(holder[:n])))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// Who holds it is a courtesy to people; the lock itself does not depend on it.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt(fmt.Appendf(nil, "process %d\n", os.Getpid()), 0)
	}
	return &Lock{file: file}, nil
}

// Release gives the lock up. The file stays: removing it would let two
// processes each hold a lock of that name.
func (l *Lock) Release() error { return l.file.Close() }
