package vfstest

import (
	"io"
	"os"
	"syscall"
)

// file is an open handle.
type file struct {
	fs    *FS
	name  string // when it was opened
	node  *inode
	write bool
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if f.fs.ReadErr != nil {
		if err := f.fs.ReadErr(f.name, off, len(p)); err != nil {
			return 0, &os.PathError{Op: "read", Path: f.name, Err: err}
		}
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off >= int64(len(f.node.seen)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.seen[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if !f.write {
		return 0, &os.PathError{Op: "write", Path: f.name, Err: os.ErrPermission}
	}
	fault := f.fs.begin("write", f.name)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := len(p)
	var err error
	switch fault {
	case NotApplied:
		n, err = n/2, ErrInjected
	case Applied:
		err = ErrInjected
	}
	if end := off + int64(n); end > int64(len(f.node.seen)) {
		if !f.fs.fits(end - int64(len(f.node.seen))) {
			return 0, &os.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
		}
		f.node.resize(end)
	}
	f.node.ownSeen()
	copy(f.node.seen[off:], p[:n])
	f.node.touch(off, off+int64(n))
	if err != nil {
		return n, &os.PathError{Op: "write", Path: f.name, Err: err}
	}
	return n, nil
}

// Sync makes the blocks written durable. When it fails they are seen on, but no
// later Sync writes them out unless they are written again, as Linux does.
func (f *file) Sync() error {
	fault := f.fs.begin("sync", f.name)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	node := f.node
	if fault == NotApplied {
		for b := range node.dirty {
			node.lost[b] = true
		}
		clear(node.dirty)
		return &os.PathError{Op: "sync", Path: f.name, Err: ErrInjected}
	}
	node.ownStable()
	node.stable = resized(node.stable, int64(len(node.seen)))
	for b := range node.dirty {
		delete(node.lost, b)
		if at := b * block; at < int64(len(node.seen)) {
			copy(node.stable[at:min(at+block, int64(len(node.stable)))], node.seen[at:])
		}
	}
	clear(node.dirty)
	if fault == Applied {
		return &os.PathError{Op: "sync", Path: f.name, Err: ErrInjected}
	}
	return nil
}

func (f *file) Allocate(size int64) error {
	return f.fs.do("allocate", f.name, func() error {
		if grow := size - int64(len(f.node.seen)); grow > 0 {
			if !f.fs.fits(grow) {
				return syscall.ENOSPC
			}
			f.node.resize(size)
		}
		return nil
	})
}

func (f *file) Truncate(size int64) error {
	return f.fs.do("truncate", f.name, func() error { f.node.resize(size); return nil })
}

func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.seen)), nil
}

func (f *file) Close() error { return nil }

func (fs *FS) fits(grow int64) bool { return fs.Capacity == 0 || fs.used()+grow <= fs.Capacity }

func (n *inode) touch(from, to int64) {
	for b := from / block; b*block < to; b++ {
		n.dirty[b] = true
	}
}

// resize changes the size as seen. What is cut off comes back as zeros.
func (n *inode) resize(size int64) {
	old := int64(len(n.seen))
	n.ownSeen()
	n.seen = resized(n.seen, size)
	if size < old {
		n.touch(size, old)
	}
}

func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		clear(b[size:])
		return b[:size]
	}
	if size <= int64(cap(b)) {
		return b[:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}
