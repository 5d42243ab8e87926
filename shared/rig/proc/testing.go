package proc

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// Run starts a process for a test and kills it when the test ends. If the test
// failed, the end of its output goes to the test's log. An empty spec.Log takes
// a file in the test's temporary folder.
func Run(t testing.TB, spec Spec) *Process {
	t.Helper()
	if spec.Log == "" {
		spec.Log = filepath.Join(t.TempDir(), filepath.Base(spec.Path)+".log")
	}
	p, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s: %v; its last output:\n%s", spec.Path, p.exit, p.Tail(60))
		}
	})
	return p
}

// RunSupervised is Run for a process that is restarted whenever it ends.
func RunSupervised(t testing.TB, spec Spec, b Backoff) *Supervisor {
	t.Helper()
	if spec.Log == "" {
		spec.Log = filepath.Join(t.TempDir(), filepath.Base(spec.Path)+".log")
	}
	s, err := Supervise(spec, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("%s: %d restarts; its last output:\n%s", spec.Path, len(s.Restarts()), s.Process().Tail(60))
		}
	})
	return s
}

// Eventually waits until the condition returns nil, and fails the test with its
// last error if it has not within the time.
func Eventually(t testing.TB, within time.Duration, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := Until(ctx, condition); err != nil {
		t.Fatal(err)
	}
}
