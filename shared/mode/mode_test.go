package mode_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"spillway/shared/mode"
)

func TestRead_missingIsPrimary(t *testing.T) {
	f, err := mode.Read(filepath.Join(t.TempDir(), "mode.json"))
	if err != nil || f.Mode != mode.Primary || f.Rev != 0 {
		t.Fatalf("got %+v, %v; want primary, rev 0, no error", f, err)
	}
}

func TestRead_unusableIsPrimaryWithError(t *testing.T) {
	for name, content := range map[string]string{
		"empty":         "",
		"zeros":         strings.Repeat("\x00", 4096),
		"truncated":     `{"schema":1,"mode":"fall`,
		"other schema":  `{"schema":2,"mode":"fallback"}`,
		"unknown mode":  `{"schema":1,"mode":"secondary"}`,
		"negative rev":  `{"schema":1,"mode":"fallback","rev":-1}`,
		"not an object": `"fallback"`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "mode.json")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := mode.Read(path)
			if err == nil || f.Mode != mode.Primary || f.Rev != 0 {
				t.Fatalf("got %+v, %v; want primary, rev 0 and an error", f, err)
			}
			// and it can be written anew
			if _, err := mode.Swap(path, 0, mode.File{Mode: mode.Fallback, By: "test", Reason: "r"}); err != nil {
				t.Fatalf("swap over unusable file: %v", err)
			}
		})
	}
}

func TestSwap_refusesStaleRev(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mode.json")
	first, err := mode.Swap(path, 0, mode.File{Mode: mode.Fallback, By: "watchdog box", Reason: "last_write_age fired"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := mode.Read(path)
	if err != nil || got != first || got.Rev != 1 {
		t.Fatalf("read back %+v, %v; want %+v", got, err, first)
	}
	if _, err := mode.Swap(path, 0, mode.File{Mode: mode.Primary, By: "x", Reason: "y"}); !errors.Is(err, mode.ErrConflict) {
		t.Fatalf("stale swap: got %v, want ErrConflict", err)
	}
	if _, err := mode.Swap(path, 1, mode.File{Mode: mode.Primary, By: "", Reason: "y"}); err == nil {
		t.Fatal("swap without a name was taken")
	}
}

func TestSwap_oneWinnerPerRev(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mode.json")
	for rev := range int64(20) {
		var won atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := mode.Swap(path, rev, mode.File{Mode: mode.Fallback, By: "t", Reason: "r"}); err == nil {
					won.Add(1)
				} else if !errors.Is(err, mode.ErrConflict) {
					t.Errorf("swap: %v", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("rev %d: %d winners", rev, won.Load())
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 2 { // mode.json and its lock
		t.Fatalf("files left behind: %v", left)
	}
}
