package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"spillway/shared/durable"
)

func TestWriteFile_replacesAndLeavesNothingBehind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := durable.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "f")
	for _, content := range []string{"one", "a longer two"} {
		if err := durable.WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Fatalf("got %q, %v; want %q", got, err, content)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Fatalf("mode %v, %v; want 0640", info.Mode(), err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Fatalf("left %v, %v; want one file", left, err)
	}
}

func TestWriteFile_failureKeepsOldAndRemovesTemporary(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d")
	// A non-empty directory cannot be replaced by rename, whoever asks.
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(path, []byte("new"), 0o640); err == nil {
		t.Fatal("replaced a directory")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Fatalf("left %v, %v; want only the directory", left, err)
	}
}
