package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"spillway/shared/durable"
)

const (
	filePerm = 0o640
	dirPerm  = 0o750
)

// dir is a directory of the operating system.
type dir string

// Dir returns the FS of a directory, which is made, durably, if it is missing.
func Dir(path string) (FS, error) {
	if err := durable.MkdirAll(path, dirPerm); err != nil {
		return nil, err
	}
	return dir(path), nil
}

func (d dir) path(name string) string { return filepath.Join(string(d), name) }

func (d dir) Open(name string, write bool) (File, error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	return d.open(name, flag)
}

func (d dir) Create(name string) (File, error) {
	return d.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (d dir) open(name string, flag int) (File, error) {
	f, err := os.OpenFile(d.path(name), flag, filePerm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d dir) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }
func (d dir) Remove(name string) error     { return os.Remove(d.path(name)) }
func (d dir) Mkdir(sub string) error       { return durable.MkdirAll(d.path(sub), dirPerm) }
func (d dir) SyncDir() error               { return durable.SyncDir(string(d)) }

func (d dir) List(sub string) ([]Entry, error) {
	list, err := os.ReadDir(d.path(sub))
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(list))
	for _, e := range list {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Name: e.Name(), Size: info.Size(), Dir: !info.Mode().IsRegular()})
	}
	return entries, nil
}

func (d dir) Usage() (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(string(d), &s); err != nil {
		return 0, 0, fmt.Errorf("ask for the free space of %s: %w", string(d), err)
	}
	// Bavail is what a process without privileges may still use.
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}

func (d dir) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(d.path(name), os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer func() { _ = f.Close() }()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return nil, &LockedError{PID: holder(f)}
	}
	// The number only helps people; the lock is what holds, and a full disk must
	// not keep the log from opening.
	_ = f.Truncate(0)
	_, _ = f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	return f, nil
}

type osFile struct{ *os.File }

func (f osFile) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return wrap("fdatasync", f.Name(), err)
		}
	}
}

func (f osFile) Allocate(size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return f.Truncate(size)
		default:
			return wrap("fallocate", f.Name(), err)
		}
	}
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}
