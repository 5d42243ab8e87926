// Package durable writes small files so that after a crash or a loss of power
// either the old or the new content is there, never a mixture and never nothing.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile replaces path with data: it writes a temporary file beside it,
// syncs it, renames it over path and syncs the directory. When it returns nil
// the new content survives a loss of power; when it returns an error the old
// content is still there, unless the last step (syncing the directory) failed,
// in which case either may be. Concurrent callers each publish a whole file.
func WriteFile(path string, data []byte, perm os.FileMode) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return fmt.Errorf("create temporary file for %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := tmp.Chmod(perm); err != nil {
		return fmt.Errorf("set mode of %s: %w", tmp.Name(), err)
	}
	if _, err := tmp.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", tmp.Name(), err)
	}
	if err := tmp.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", tmp.Name(), err)
	}
	if err := tmp.Close(); err != nil {
		return fmt.Errorf("close %s: %w", tmp.Name(), err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("publish %s: %w", path, err)
	}
	return SyncDir(dir)
}

// SyncDir makes the names in dir (files created, renamed, removed) survive a
// loss of power.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory %s to sync it: %w", dir, err)
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// MkdirAll creates dir and its parents and syncs the directory that holds each
// name, so that the path itself survives a loss of power. Names that were there
// before are synced too, as far as permissions go: a process that crashed between
// making a directory and syncing its name leaves one that can still vanish.
func MkdirAll(dir string, perm os.FileMode) error {
	parent := filepath.Dir(dir)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("create directory %s: a file of that name exists", dir)
	}
	if parent == dir {
		return err
	}
	if err := MkdirAll(parent, perm); err != nil {
		return err
	}
	if err != nil {
		if err := os.Mkdir(dir, perm); err != nil && !os.IsExist(err) {
			return fmt.Errorf("create directory %s: %w", dir, err)
		}
		return SyncDir(parent)
	}
	if err := SyncDir(parent); err != nil && !unsyncable(err) {
		return err
	}
	return nil
}

// unsyncable says that a directory cannot be synced by this user or at all, as on
// the file systems of /proc and /sys or where only searching is allowed.
func unsyncable(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EROFS)
}
