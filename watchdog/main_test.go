package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/decide"
)

func TestMain(m *testing.M) {
	collectortest.Main()
	testscript.Main(m, map[string]func(){
		"spillway-watchdog": func() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":  exits,
			"expand": expand,
		},
	})
}

// exits N COMMAND... wants the command to end with exit code N.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// expand FILE replaces $WORK in the file.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := strings.ReplaceAll(ts.ReadFile(name), "$WORK", ts.Getenv("WORK"))
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

func TestRules_knowsEveryRule(t *testing.T) {
	var got []string
	for _, r := range rules(decide.DefaultPolicy().Rules) {
		got = append(got, r.name)
	}
	if want := decide.RuleNames(); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2h":                   now.Add(-2 * time.Hour),
		"1d":                   now.Add(-24 * time.Hour),
		"03:15":                time.Date(2026, 12, 1, 3, 15, 0, 0, time.UTC),
		"23:15":                time.Date(2026, 11, 30, 23, 15, 0, 0, time.UTC), // not in the future
		"03:15:30":             time.Date(2026, 12, 1, 3, 15, 30, 0, time.UTC),
		"2026-11-01":           time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		"2026-11-01 03:15":     time.Date(2026, 11, 1, 3, 15, 0, 0, time.UTC),
		"2026-11-01T03:15:00Z": time.Date(2026, 11, 1, 3, 15, 0, 0, time.UTC),
	} {
		if got, err := parseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "noon", "-2h", "25:00"} {
		if got, err := parseTime(text, now); err == nil {
			t.Errorf("%q: got %v and no error", text, got)
		}
	}
}

func TestShort_hasTwoUnitsAtMost(t *testing.T) {
	var got []string
	for _, d := range []time.Duration{-1, 0, 3 * time.Millisecond, 1499 * time.Millisecond, 90 * time.Second, 3*time.Hour + 29*time.Second, 75 * time.Hour} {
		got = append(got, short(d))
	}
	if want := []string{"0s", "0s", "3ms", "1s", "1m30s", "3h", "3d3h"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 183423412: "174.9 MiB", 1 << 42: "4.0 TiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for n, want := range map[float64]string{0: "0 %", 0.000359: "< 0.1 %", 0.1: "0.1 %", 9.94: "9.9 %", 55.5: "56 %"} {
		if got := percent(n); got != want {
			t.Errorf("%v: got %q, want %q", n, got, want)
		}
	}
}
