package vfs_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spillway/collector/internal/spool/vfs"
)

// Whatever is done through it, the directory stays as it was, and what was on
// disk shows through.
func TestReadOnly_changesNothing(t *testing.T) {
	dir := t.TempDir()
	before := map[string]string{"a": strings.Repeat("a", 9000), "b": "b", "LOCK": "0"}
	for name, text := range before {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := vfs.ReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := fs.Open("a", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.WriteAt([]byte("XYZ"), 4095); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{a.Truncate(8000), a.Truncate(8002), fs.Rename("a", "c"), fs.Remove("b"), a.Sync(), fs.SyncDir(), fs.Mkdir("corrupt")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 9000)
	n, err := a.ReadAt(got, 0)
	want := strings.Repeat("a", 4095) + "XYZ" + strings.Repeat("a", 8000-4098) + "\x00\x00"
	if string(got[:n]) != want || !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes (%v), not what was written over what was there", n, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := fs.Lock("LOCK"); err != nil {
		t.Errorf("nobody holds the lock: %v", err)
	}
	for name, text := range before {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != text {
			t.Errorf("%s has changed (%v)", name, err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != len(before) {
		t.Errorf("the directory holds %v (%v)", list, err)
	}
}

func TestReadOnly_Lock_seesAHolder(t *testing.T) {
	dir := t.TempDir()
	real, err := vfs.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := real.Lock("LOCK")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	fs, err := vfs.ReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fs.Lock("LOCK")
	if held, ok := errors.AsType[*vfs.LockedError](err); !ok || held.PID != os.Getpid() {
		t.Errorf("got %v, want the process that holds it", err)
	}
}
