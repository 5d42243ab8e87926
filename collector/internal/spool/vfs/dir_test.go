package vfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/collector/internal/spool/vfs"
	"spillway/collector/internal/spool/vfs/vfstest"
)

// TestFS holds the real directory and the one in memory to the same contract.
func TestFS(t *testing.T) {
	real, err := vfs.Dir(filepath.Join(t.TempDir(), "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := vfs.ReadOnly(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, fs := range map[string]vfs.FS{"dir": real, "vfstest": vfstest.New()} {
		t.Run(name, func(t *testing.T) { contract(t, fs); locks(t, fs) })
	}
	t.Run("read only", func(t *testing.T) { contract(t, overlay) })
}

func contract(t *testing.T, fs vfs.FS) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fs.Open("f", true); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("open a missing file: %v", err)
	}
	for _, err := range []error{fs.Remove("f"), fs.Rename("f", "g")} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("a missing file: %v", err)
		}
	}
	f, err := fs.Create("f")
	must(err)
	must(f.Allocate(10000))
	if _, err := f.WriteAt([]byte("hello"), 5000); err != nil {
		t.Fatal(err)
	}
	must(f.Sync())
	size, err := f.Size()
	must(err)
	r, err := fs.Open("f", false)
	must(err)
	b := make([]byte, 10)
	if n, err := r.ReadAt(b, 4998); n != 10 || err != nil || string(b) != "\x00\x00hello\x00\x00\x00" || size != 10000 {
		t.Fatalf("read %q, %v; size %d", b[:n], err, size)
	}
	if n, err := r.ReadAt(b, 9995); n != 5 || err == nil {
		t.Fatalf("read %d bytes at the end, %v", n, err)
	}
	if _, err := r.WriteAt(b, 0); err == nil {
		t.Fatal("wrote to a file opened for reading")
	}
	must(f.Truncate(5002))
	must(f.Truncate(5005))
	if n, _ := r.ReadAt(b, 5000); string(b[:n]) != "he\x00\x00\x00" {
		t.Fatalf("what was cut off came back: %q", b[:n])
	}
	must(fs.Rename("f", "g"))
	must(fs.SyncDir())
	must(fs.Mkdir("sub"))
	must(fs.Mkdir("sub"))
	g, err := fs.Create("sub/x")
	must(err)
	must(g.Close())
	got, err := fs.List(".")
	must(err)
	want := []vfs.Entry{{Name: "g", Size: 5005}, {Name: "sub", Dir: true}}
	for i := range got {
		if got[i].Dir {
			got[i].Size = 0
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if got, err = fs.List("sub"); err != nil || len(got) != 1 || got[0].Name != "x" {
		t.Fatalf("got %v, %v", got, err)
	}
	if _, err := r.ReadAt(b[:2], 5000); err != nil || string(b[:2]) != "he" {
		t.Fatalf("a renamed file reads %q, %v", b[:2], err)
	}
	must(fs.Remove("g"))
	if _, err := r.ReadAt(b[:2], 5000); err != nil {
		t.Fatalf("a removed file that is open: %v", err)
	}
	for _, f := range []vfs.File{f, r} {
		must(f.Close())
	}
	if free, total, err := fs.Usage(); err != nil || free <= 0 || total < free {
		t.Fatalf("usage %d of %d, %v", free, total, err)
	}
}

func locks(t *testing.T, fs vfs.FS) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lock, err := fs.Lock("LOCK")
	must(err)
	if held, ok := errors.AsType[*vfs.LockedError](func() error { _, err := fs.Lock("LOCK"); return err }()); !ok || held.PID != os.Getpid() {
		t.Fatalf("locked twice: %v", held)
	}
	must(lock.Close())
	lock, err = fs.Lock("LOCK")
	must(err)
	must(lock.Close())
}

func TestDir_filesAreNotForEverybody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	fs, err := vfs.Dir(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for name, want := range map[string]os.FileMode{path: 0o750, filepath.Join(path, "f"): 0o640} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm()&^want != 0 {
			t.Errorf("%s has mode %v, want at most %v (%v)", name, info.Mode().Perm(), want, err)
		}
	}
}
