package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spillway/shared/mode"
)

func testModes(t *testing.T) (*modes, *[]mode.Mode) {
	t.Helper()
	var applied []mode.Mode
	m := &modes{path: filepath.Join(t.TempDir(), "mode.json"), log: quiet()}
	m.apply = func(_ context.Context, to mode.Mode) error {
		applied = append(applied, to)
		return nil
	}
	return m, &applied
}

func TestModes_followsTheFile(t *testing.T) {
	m, applied := testModes(t)
	if got := m.read(true); got != mode.Primary {
		t.Fatalf("without a file: %s", got)
	}
	if _, err := mode.Swap(m.path, 0, mode.File{Mode: mode.Fallback, By: "watchdog box", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if err := m.follow(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	s := m.state()
	if s.Name != "fallback" || s.Rev != 1 || s.By != "watchdog box" || s.FileError != "" || len(*applied) != 1 {
		t.Fatalf("got %+v, applied %v", s, *applied)
	}
}

func TestModes_unusableFileRunsPrimaryAndSaysSo(t *testing.T) {
	m, _ := testModes(t)
	if err := os.WriteFile(m.path, []byte("\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := m.read(true); got != mode.Primary || m.state().FileError == "" {
		t.Fatalf("got %s, %+v", got, m.state())
	}
}

func TestModes_fallbackThatIsNotConfigured(t *testing.T) {
	m, _ := testModes(t)
	if _, err := m.order(t.Context(), mode.Fallback, false, "person", "drill"); !errors.Is(err, errNoFallback) {
		t.Fatalf("got %v", err)
	}
	if _, err := mode.Swap(m.path, 0, mode.File{Mode: mode.Fallback, By: "x", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if got := m.read(false); got != mode.Primary || !strings.Contains(m.state().FileError, "--fallback-config") {
		t.Fatalf("got %s, %+v", got, m.state())
	}
}

func TestModes_orderWritesTheFileOnce(t *testing.T) {
	m, applied := testModes(t)
	m.read(true)
	for range 2 { // the second finds the file as it should be
		file, err := m.order(t.Context(), mode.Fallback, true, "person alice", "drill")
		if err != nil || file.Rev != 1 || file.By != "person alice" {
			t.Fatalf("got %+v, %v", file, err)
		}
	}
	if len(*applied) != 2 || m.state().Name != "fallback" {
		t.Fatalf("applied %v, state %+v", *applied, m.state())
	}
	// an unusable file is written anew
	if err := os.WriteFile(m.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := m.order(t.Context(), mode.Primary, true, "person alice", "back"); err != nil || file.Mode != mode.Primary {
		t.Fatalf("got %+v, %v", file, err)
	}
}
