// Package vfstest is a file system in memory that loses power. It keeps apart
// what a program sees from what is on stable storage, promises no more than the
// vfs contract, and returns, at any moment, what a disk might hold if the power
// went now. It can also be told to fail any operation, before or after doing it,
// and to be full.
//
// Its disk is worse than most: a block of 4 KiB that was written and not synced
// holds after a crash the old content, the new, a mixture by sectors, or garbage.
// Blocks that were not written are safe. Names that were made, changed or removed
// since the last SyncDir may be there or not, each for itself.
package vfstest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"spillway/collector/internal/spool/vfs"
)

const block = 4096

// Op is an operation that changes something.
type Op struct {
	N    int    // counts from 0
	Kind string // create | write | sync | allocate | truncate | rename | remove | mkdir | syncdir
	Name string
}

// Fault says how an operation fails.
type Fault int

// Faults.
const (
	None       Fault = iota
	NotApplied       // it returns an error and does nothing; a write may be done in part
	Applied          // it returns an error after doing everything
)

// ErrInjected is the error of a Fault.
var ErrInjected error = syscall.EIO

// FS is the file system. Set its fields before use.
type FS struct {
	ReadErr  func(name string, off int64, length int) error // called before each read
	Capacity int64                                          // bytes that files may take; 0 is no limit

	mu      sync.Mutex
	before  func(Op) Fault
	now     map[string]*inode // names as seen
	durable map[string]*inode // names on stable storage
	changes []change          // since the last SyncDir
	ops     int
	locked  bool
}

// inode is a file, whatever its name.
type inode struct {
	seen   []byte         // content as seen
	stable []byte         // content on stable storage
	dirty  map[int64]bool // blocks written since the last Sync
	lost   map[int64]bool // blocks a failed Sync dropped: seen, and never written out

	// Content that is shared with a disk after a crash is copied before it changes.
	seenShared, stableShared bool
}

func newInode() *inode { return &inode{dirty: map[int64]bool{}, lost: map[int64]bool{}} }

// settled returns a file with this content and nothing that is not synced.
func settled(content []byte) *inode {
	n := newInode()
	n.seen, n.stable, n.seenShared, n.stableShared = content, content, true, true
	return n
}

func (n *inode) ownSeen() {
	if n.seenShared {
		n.seen, n.seenShared = bytes.Clone(n.seen), false
	}
}

func (n *inode) ownStable() {
	if n.stableShared {
		n.stable, n.stableShared = bytes.Clone(n.stable), false
	}
}

// change is a change of names that is not yet durable.
type change struct {
	kind     string // create | rename | remove
	from, to string
	file     *inode
}

// New returns an empty file system.
func New() *FS {
	return &FS{now: map[string]*inode{}, durable: map[string]*inode{}}
}

// Before makes f be called before each operation; it may call Crash. nil ends it.
func (fs *FS) Before(f func(Op) Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.before = f
}

// Ops returns how many operations there were.
func (fs *FS) Ops() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.ops
}

// begin announces an operation. It runs without the lock, so that before may look
// at the file system.
func (fs *FS) begin(kind, name string) Fault {
	fs.mu.Lock()
	op := Op{N: fs.ops, Kind: kind, Name: name}
	fs.ops++
	before := fs.before
	fs.mu.Unlock()
	if before == nil {
		return None
	}
	return before(op)
}

// do runs an operation with its fault.
func (fs *FS) do(kind, name string, apply func() error) error {
	fault := fs.begin(kind, name)
	if fault == NotApplied {
		return &os.PathError{Op: kind, Path: name, Err: ErrInjected}
	}
	fs.mu.Lock()
	err := apply()
	fs.mu.Unlock()
	if err == nil && fault == Applied {
		err = ErrInjected
	}
	if err != nil {
		return &os.PathError{Op: kind, Path: name, Err: err}
	}
	return nil
}

// Open implements vfs.FS.
func (fs *FS) Open(name string, write bool) (vfs.File, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	node := fs.now[name]
	if node == nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
	return &file{fs: fs, name: name, node: node, write: write}, nil
}

// Create implements vfs.FS.
func (fs *FS) Create(name string) (vfs.File, error) {
	var f *file
	err := fs.do("create", name, func() error {
		node := fs.now[name]
		if node != nil { // emptied
			node.resize(0)
		} else {
			node = newInode()
			fs.now[name] = node
			fs.changes = append(fs.changes, change{kind: "create", to: name, file: node})
		}
		f = &file{fs: fs, name: name, node: node, write: true}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Rename implements vfs.FS.
func (fs *FS) Rename(from, to string) error {
	return fs.do("rename", from, func() error {
		node := fs.now[from]
		if node == nil {
			return os.ErrNotExist
		}
		delete(fs.now, from)
		fs.now[to] = node
		fs.changes = append(fs.changes, change{kind: "rename", from: from, to: to, file: node})
		return nil
	})
}

// Remove implements vfs.FS.
func (fs *FS) Remove(name string) error {
	return fs.do("remove", name, func() error {
		node := fs.now[name]
		if node == nil {
			return os.ErrNotExist
		}
		delete(fs.now, name)
		fs.changes = append(fs.changes, change{kind: "remove", from: name, file: node})
		return nil
	})
}

// List implements vfs.FS.
func (fs *FS) List(sub string) ([]vfs.Entry, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var entries []vfs.Entry
	dirs := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(fs.now)) {
		dir, rest, nested := strings.Cut(name, "/")
		switch {
		case !nested && sub == ".":
			entries = append(entries, vfs.Entry{Name: name, Size: int64(len(fs.now[name].seen))})
		case nested && sub == "." && !dirs[dir]:
			dirs[dir] = true
			entries = append(entries, vfs.Entry{Name: dir, Dir: true})
		case nested && sub == dir:
			entries = append(entries, vfs.Entry{Name: rest, Size: int64(len(fs.now[name].seen))})
		}
	}
	return entries, nil
}

// Mkdir implements vfs.FS.
func (fs *FS) Mkdir(sub string) error {
	return fs.do("mkdir", sub, func() error { return nil })
}

// SyncDir implements vfs.FS.
func (fs *FS) SyncDir() error {
	return fs.do("syncdir", ".", func() error {
		fs.durable = maps.Clone(fs.now)
		fs.changes = nil
		return nil
	})
}

// Usage implements vfs.FS.
func (fs *FS) Usage() (free, total int64, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.Capacity == 0 {
		return 1 << 40, 1 << 40, nil
	}
	return max(0, fs.Capacity-fs.used()), fs.Capacity, nil
}

func (fs *FS) used() (n int64) {
	for _, node := range fs.now {
		n += int64(len(node.seen))
	}
	return n
}

// Lock implements vfs.FS.
func (fs *FS) Lock(string) (io.Closer, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.locked {
		return nil, &vfs.LockedError{PID: os.Getpid()}
	}
	fs.locked = true
	return unlocker{fs}, nil
}

type unlocker struct{ fs *FS }

func (u unlocker) Close() error {
	u.fs.mu.Lock()
	defer u.fs.mu.Unlock()
	u.fs.locked = false
	return nil
}

// Content returns what a file holds as seen, or nil.
func (fs *FS) Content(name string) []byte {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if node := fs.now[name]; node != nil {
		return bytes.Clone(node.seen)
	}
	return nil
}

// Put makes a file with this content, durably, or removes it if content is nil.
func (fs *FS) Put(name string, content []byte) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.now, name)
	delete(fs.durable, name)
	if content != nil {
		node := settled(bytes.Clone(content))
		fs.now[name], fs.durable[name] = node, node
	}
}

// Names returns the names as seen, with the sizes.
func (fs *FS) Names() []string {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(fs.now)) {
		names = append(names, fmt.Sprintf("%s (%d)", name, len(fs.now[name].seen)))
	}
	return names
}
