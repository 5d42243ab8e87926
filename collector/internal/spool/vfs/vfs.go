// Package vfs is the seam between the spool and the disk: the few operations
// the spool's promise rests on, each with what it guarantees. Production uses
// Dir; vfstest has a file system that crashes.
//
// Names are relative to the directory the FS was made for. A name may have one
// directory in front ("corrupt/x").
package vfs

import (
	"fmt"
	"io"
)

// FS is one directory. It is safe for concurrent use.
type FS interface {
	// Open opens an existing file for reading, and for writing if write is set.
	Open(name string, write bool) (File, error)
	// Create makes a new file, or empties an existing one, open for reading and
	// writing. Its name is durable only after SyncDir.
	Create(name string) (File, error)
	// Rename gives a file another name, replacing what had it. After a crash
	// before SyncDir the file has either name.
	Rename(from, to string) error
	// Remove removes a name. After a crash before SyncDir it may be back.
	Remove(name string) error
	// List returns what is directly in a sub-directory ("." is the directory
	// itself), in the order of the names.
	List(sub string) ([]Entry, error)
	// Mkdir makes a sub-directory durable; one that exists is no error.
	Mkdir(sub string) error
	// SyncDir makes the names in the directory itself durable.
	SyncDir() error
	// Usage returns the free and the total bytes of the volume.
	Usage() (free, total int64, err error)
	// Lock takes the directory for this process until the Closer is closed or
	// the process ends. It returns a *LockedError if another holds it.
	Lock(name string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync returns nil once everything written through any handle of this file
	// is on stable storage. After an error nothing is known about what was
	// written since the last nil, and a second Sync that returns nil proves
	// nothing about it.
	Sync() error
	// Allocate gives the file this size and reserves the room, so that writing
	// within it needs no more space, where the file system can do that.
	Allocate(size int64) error
	// Truncate sets the size.
	Truncate(size int64) error
	// Size returns the size.
	Size() (int64, error)
}

// Entry is a name in a directory.
type Entry struct {
	Name string
	Size int64
	Dir  bool
}

// LockedError says that another process holds the directory.
type LockedError struct {
	PID int // the holder; 0 if it is not known
}

// Error names the holder.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return "locked by another process"
	}
	return fmt.Sprintf("locked by process %d", e.PID)
}
