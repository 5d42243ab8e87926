package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk is the collector's disk.
type disk struct {
	dir  string // the data directory
	own  bool   // a tmpfs of its own
	fill string // the file that fills it
}

// mountDisk gives the collector a small file system for its data below dir, if
// this process may mount.
func mountDisk(dir string) (*disk, error) {
	d := &disk{dir: filepath.Join(dir, "data")}
	d.fill = filepath.Join(d.dir, "filler")
	if err := os.Mkdir(d.dir, 0o750); err != nil {
		return nil, err
	}
	err := unix.Mount("soak", d.dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=0750", diskBytes))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return d, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mount a small disk on %s: %w", d.dir, err)
	}
	d.own = true
	return d, nil
}

// String says what kind of disk it is.
func (d *disk) String() string {
	if d.own {
		return fmt.Sprintf("the collector has a disk of its own of %d MiB", diskBytes>>20)
	}
	return "the collector has no disk of its own (this needs root): full means the spool's limit"
}

// full takes all the room that is left.
func (d *disk) full() (err error) {
	if !d.own {
		return nil
	}
	f, err := os.OpenFile(d.fill, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for size := 1 << 20; size >= 512; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}

// room gives it back.
func (d *disk) room() error {
	if err := os.Remove(d.fill); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (d *disk) unmount() error {
	if !d.own {
		return nil
	}
	return unix.Unmount(d.dir, unix.MNT_DETACH)
}
