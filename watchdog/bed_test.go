package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/shared/mode"
	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/config"
	"spillway/watchdog/internal/control"
	"spillway/watchdog/internal/journal"
)

// fast is a policy whose every wait is about a second. Only what a test is
// about is switched on.
const fast = `
startup_grace: 1s
settle: 1s
patience: 20s
poll: {interval: 200ms, timeout: 150ms}
flush: {timeout: 3s}
restart: {timeout: 5s, stop_timeout: 1s}
verify: {hold: 1s}
recover: {for: 1s, early_for: 1s, stale: 1m, min_hold: 2s, max_hold: 10s, probation: 1s}
flap: {window: 10s, decay: 20s}
budget: {tokens: 3, refill: 10s, per_hour: 20}
rules:
  quiet: 1s
  last_write_age: {threshold: 3s, for: 1s}
  oldest_event_age: {threshold: 1h}
  seconds_to_full: {threshold: 0s}
  unreachable: {for: 20s}
  drift: {for: 2s}
`

// bed is a collector's stand-in with a watchdog's config beside it.
type bed struct {
	t         *testing.T
	collector *collectortest.Collector
	cfg       config.Config
	yaml      string
}

func newBed(t *testing.T, o collectortest.Options, more string) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("", "spw") // short: a socket's path has its limits
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := collectortest.Start(t, true, o)
	b := &bed{t: t, collector: c, yaml: filepath.Join(dir, "watchdog.yaml")}
	b.write(fmt.Sprintf("instance: box-1\nstate_dir: %s/state\nmode_file: %s\nlisten: \"\"\ncollector: {address: \"unix:%s\", public_address: \"\"}\n",
		dir, c.Options.ModeFile, c.Options.Socket) + fast + more)
	return b
}

// write makes text the config.
func (b *bed) write(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.yaml, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	cfg, err := config.Load(b.yaml)
	if err != nil {
		b.t.Fatal(err)
	}
	b.cfg = cfg
}

// replace changes the config.
func (b *bed) replace(old, new string) {
	b.t.Helper()
	text, err := os.ReadFile(b.yaml)
	if err != nil {
		b.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		b.t.Fatalf("the config has no %q", old)
	}
	b.write(strings.Replace(string(text), old, new, 1))
}

// watchdog is one that runs in a process of its own.
type watchdog struct {
	t      *testing.T
	cmd    *exec.Cmd
	ended  chan struct{}
	output *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// run starts a watchdog, which is killed when the test ends.
func (b *bed) run() *watchdog {
	b.t.Helper()
	w := &watchdog{t: b.t, cmd: exec.Command("spillway-watchdog", "run", "--config", b.yaml), ended: make(chan struct{}), output: &lockedBuffer{}}
	w.cmd.Stderr = w.output
	if err := w.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() { defer close(w.ended); _ = w.cmd.Wait() }()
	b.t.Cleanup(func() {
		w.kill()
		if b.t.Failed() {
			b.t.Logf("the watchdog said:\n%s", w.output)
		}
	})
	return w
}

// kill ends it as a loss of power would, and returns when it is gone.
func (w *watchdog) kill() {
	_ = w.cmd.Process.Kill()
	<-w.ended
}

// exit waits for its end and returns the exit code.
func (w *watchdog) exit() int {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(time.Minute):
		w.t.Fatal("the watchdog does not end")
	}
	return w.cmd.ProcessState.ExitCode()
}

// order runs a command and returns what it printed.
func (b *bed) order(args ...string) string {
	b.t.Helper()
	out, err := exec.Command("spillway-watchdog", append(args, "--config", b.yaml)...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

func (b *bed) status() (control.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return newClient(b.cfg).status(ctx)
}

// awaitStatus returns when the watchdog says what is wanted.
func (b *bed) awaitStatus(what string, wanted func(control.Status) bool) {
	b.t.Helper()
	collectortest.Await(b.t, what, func() bool {
		s, err := b.status()
		return err == nil && !s.At.IsZero() && wanted(s)
	})
}

// journal returns the sentences of some events.
func (b *bed) journal(events ...string) []string {
	b.t.Helper()
	entries, _, err := journal.Read(b.cfg.JournalFile(), journal.Filter{Events: events})
	if err != nil {
		b.t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Sentence)
	}
	return list
}

func (b *bed) awaitJournal(event, part string) {
	b.t.Helper()
	collectortest.Await(b.t, "the journal has a "+event+" with "+part, func() bool {
		return slices.ContainsFunc(b.journal(event), func(s string) bool { return strings.Contains(s, part) })
	})
}

func (b *bed) modeFile() mode.File {
	b.t.Helper()
	f, err := mode.Read(b.collector.Options.ModeFile)
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

// Worlds.
var (
	well = collectortest.World{ProbeOKFor: 3600}
	sick = collectortest.World{Events: 1000, LastWriteAge: 400}
)
