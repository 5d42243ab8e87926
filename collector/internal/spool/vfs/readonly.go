package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ReadOnly returns a directory as it is now, for somebody who must not change
// it: what is written, renamed or removed through the FS happens in memory and is
// gone with it. The directory may be on a volume mounted read-only. Lock looks
// whether another process holds the directory and takes nothing.
func ReadOnly(dir string) (FS, error) {
	o := &overlay{dir: dir, nodes: map[string]*node{}, dirs: map[string]bool{".": true}}
	if err := o.read("."); err != nil {
		return nil, err
	}
	return o, nil
}

// overlay is a directory with changes that only it knows of.
type overlay struct {
	dir string

	mu    sync.Mutex // guards what follows, and every node
	nodes map[string]*node
	dirs  map[string]bool
}

// node is a file: what is on disk, and blocks that were changed.
type node struct {
	onDisk string // path; empty if there is nothing
	solid  int64  // bytes on disk that still count
	size   int64
	blocks map[int64][]byte
}

const block = 4096

func (o *overlay) read(sub string) error {
	list, err := os.ReadDir(filepath.Join(o.dir, sub))
	if err != nil {
		return err
	}
	for _, e := range list {
		name := path.Join(sub, e.Name())
		info, err := e.Info()
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return err
		case info.Mode().IsRegular():
			o.nodes[name] = &node{onDisk: filepath.Join(o.dir, name), solid: info.Size(), size: info.Size()}
		default:
			o.dirs[name] = true
			if sub == "." && info.IsDir() {
				_ = o.read(name) // what cannot be listed is none of the spool's business
			}
		}
	}
	return nil
}

func (o *overlay) find(op, name string) (*node, error) {
	if n := o.nodes[name]; n != nil {
		return n, nil
	}
	return nil, &os.PathError{Op: op, Path: filepath.Join(o.dir, name), Err: os.ErrNotExist}
}

func (o *overlay) Open(name string, write bool) (File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.find("open", name)
	if err != nil {
		return nil, err
	}
	h := &handle{o: o, node: n, name: name, write: write}
	if n.onDisk != "" {
		if h.file, err = os.Open(n.onDisk); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (o *overlay) Create(name string) (File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := &node{}
	o.nodes[name] = n
	return &handle{o: o, node: n, name: name, write: true}, nil
}

func (o *overlay) Rename(from, to string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.find("rename", from)
	if err == nil {
		delete(o.nodes, from)
		o.nodes[to] = n
	}
	return err
}

func (o *overlay) Remove(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.find("remove", name)
	delete(o.nodes, name)
	return err
}

func (o *overlay) Mkdir(sub string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dirs[sub] = true
	return nil
}

func (o *overlay) SyncDir() error { return nil }

func (o *overlay) List(sub string) ([]Entry, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dirs[sub] {
		return nil, &os.PathError{Op: "list", Path: filepath.Join(o.dir, sub), Err: os.ErrNotExist}
	}
	var entries []Entry
	for name, n := range o.nodes {
		if path.Dir(name) == sub {
			entries = append(entries, Entry{Name: path.Base(name), Size: n.size})
		}
	}
	for name := range o.dirs {
		if name != "." && path.Dir(name) == sub {
			entries = append(entries, Entry{Name: path.Base(name), Dir: true})
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

func (o *overlay) Usage() (free, total int64, err error) { return dir(o.dir).Usage() }

func (o *overlay) Lock(name string) (io.Closer, error) {
	f, err := os.Open(filepath.Join(o.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // and with it the shared lock
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return io.NopCloser(nil), nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, &LockedError{PID: holder(f)}
	default:
		return nil, fmt.Errorf("look at the lock %s: %w", f.Name(), err)
	}
}

// holder reads the number of the process that holds a lock file.
func holder(f *os.File) int {
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	return pid
}

// handle is an open file.
type handle struct {
	o     *overlay
	node  *node
	name  string
	write bool
	file  *os.File // nil if nothing is on disk
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	return h.read(p, off)
}

func (h *handle) read(p []byte, off int64) (int, error) {
	n := h.node
	if off >= n.size {
		return 0, io.EOF
	}
	var end error
	if rest := n.size - off; int64(len(p)) > rest {
		p, end = p[:rest], io.EOF
	}
	solid := min(max(n.solid-off, 0), int64(len(p)))
	if solid > 0 {
		if got, err := h.file.ReadAt(p[:solid], off); int64(got) < solid {
			return got, err
		}
	}
	clear(p[solid:])
	for at := off / block * block; len(n.blocks) > 0 && at < off+int64(len(p)); at += block {
		if b := n.blocks[at]; b != nil && at < off {
			copy(p, b[off-at:])
		} else if b != nil {
			copy(p[at-off:], b)
		}
	}
	return len(p), end
}

func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	if !h.write {
		return 0, &os.PathError{Op: "write", Path: h.name, Err: os.ErrPermission}
	}
	n := h.node
	if n.blocks == nil {
		n.blocks = map[int64][]byte{}
	}
	for done := 0; done < len(p); {
		at := (off + int64(done)) / block * block
		b := n.blocks[at]
		if b == nil {
			b = make([]byte, block)
			if _, err := h.read(b, at); err != nil && !errors.Is(err, io.EOF) {
				return done, err
			}
			n.blocks[at] = b
		}
		done += copy(b[off+int64(done)-at:], p[done:])
	}
	n.size = max(n.size, off+int64(len(p)))
	return len(p), nil
}

func (h *handle) Truncate(size int64) error {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	n := h.node
	n.solid, n.size = min(n.solid, size), size
	for at, b := range n.blocks {
		if at >= size {
			delete(n.blocks, at)
		} else if at+block > size {
			clear(b[size-at:])
		}
	}
	return nil
}

func (h *handle) Allocate(size int64) error {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	h.node.size = max(h.node.size, size)
	return nil
}

func (h *handle) Size() (int64, error) {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	return h.node.size, nil
}

func (h *handle) Sync() error { return nil }

func (h *handle) Close() error {
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}
