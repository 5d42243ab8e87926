package systemd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"spillway/shared/rig/bed"
)

const (
	collector = "spillway-collector.service"
	socket    = "spillway-collector.socket"
	watchdog  = "spillway-watchdog.service"
	target    = "spillway.target"
)

// patience is how long a test waits for something that takes seconds on a quiet
// machine.
const patience = 90 * time.Second

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// tree is what `make install` leaves, with programs built from this source.
var tree = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "spillway-install-")
	if err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"make", "--no-print-directory", "-C", "..", "build", "BIN=" + filepath.Join(dir, "bin")},
		{"make", "--no-print-directory", "-C", "..", "install", "BIN=" + filepath.Join(dir, "bin"), "DESTDIR=" + filepath.Join(dir, "root")},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return dir, fmt.Errorf("%v: %w\n%s", args, err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := tree(); dir != "" {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// installed returns the directory that DESTDIR was.
func installed(t *testing.T) string {
	t.Helper()
	dir, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "root")
}

// boot boots a systemd with spillway installed. Where that cannot be done it says
// why, and under SPILLWAY_NO_SKIP=1 that is a failure.
func boot(t *testing.T) *bed.Bed {
	t.Helper()
	if err := bed.Possible(); err != nil {
		if os.Getenv("SPILLWAY_NO_SKIP") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	b, err := bed.Boot(t.Context(), bed.Options{Tree: installed(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
			defer cancel()
			t.Logf("journal:\n%s", journal(ctx, b))
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func journal(ctx context.Context, b *bed.Bed) string {
	out, err := b.Run(ctx, "journalctl", "--no-pager", "--output=short-precise", "--lines=80", "--unit=spillway*", "--unit=polkit.service")
	if err != nil {
		return err.Error()
	}
	return out
}

// must runs a program in the bed and fails the test when it fails.
func must(t *testing.T, b *bed.Bed, argv ...string) string {
	t.Helper()
	out, err := b.Run(limited(t), argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// property returns a property of a unit.
func property(t *testing.T, b *bed.Bed, unit, name string) string {
	t.Helper()
	value, err := b.Property(limited(t), unit, name)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
