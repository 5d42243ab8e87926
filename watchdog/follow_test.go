package main

import (
	"os/exec"
	"strings"
	"testing"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/control"
	"spillway/watchdog/internal/decide"
)

func TestFate_ofAnOrder(t *testing.T) {
	cases := map[string]struct {
		state decide.State
		over  bool
		want  string // part of the text or the error
		fails bool
	}{
		"it waits":      {decide.State{Pending: &decide.Command{ID: "c1"}}, false, "", false},
		"it is done":    {decide.State{Action: &decide.Action{Command: "c1"}, Last: &decide.Past{Command: "c0"}}, false, "", false},
		"seen to work":  {decide.State{Last: &decide.Past{Command: "c1", End: decide.EndVerified}}, true, "seen running fallback", false},
		"failed":        {decide.State{Last: &decide.Past{Command: "c1", End: decide.EndFailed, Text: "the disk is full"}}, true, "the disk is full", true},
		"called off":    {decide.State{Last: &decide.Past{Command: "c1", End: decide.EndAborted, Text: "bob was faster"}}, true, "bob was faster", true},
		"there already": {decide.State{Mode: decide.ModeRegion{File: mode.Fallback}, Seen: decide.Seen{Mode: mode.Fallback}}, true, "runs fallback", false},
		"replaced":      {decide.State{Pending: &decide.Command{ID: "c2"}, Mode: decide.ModeRegion{File: mode.Primary}}, true, "took its place", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := fate(control.Status{Snapshot: &control.Snapshot{State: c.state}}, "c1", mode.Fallback)
			said := got.text
			if got.err != nil {
				said = got.err.Error()
			}
			if got.over != c.over || (got.err != nil) != c.fails || !strings.Contains(said, c.want) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A person orders the fallback while the collector is dead; its supervisor takes
// its time. The order stands, and is followed to its end.
func TestWatchdog_anOrderForADeadCollectorStandsUntilItComes(t *testing.T) {
	t.Parallel()
	b := newBed(t, collectortest.Options{}, "")
	b.run()
	b.awaitStatus("it watches", func(s control.Status) bool { return s.LastReport != nil })
	release := b.collector.Hold()
	b.awaitStatus("it sees that it is gone", func(s control.Status) bool { return s.Observation.Reach != decide.ReachOK })
	order := exec.Command("spillway-watchdog", "switch", "fallback", "--wait", "--reason", "drill", "--by", "person alice", "--config", b.yaml)
	out := &lockedBuffer{}
	order.Stdout, order.Stderr = out, out
	if err := order.Start(); err != nil {
		t.Fatal(err)
	}
	b.awaitStatus("it waits for the supervisor", func(s control.Status) bool {
		return s.State.Action != nil && s.State.Action.Step == decide.Verify
	})
	release()
	if err := order.Wait(); err != nil || !strings.Contains(out.String(), "Done: the collector was seen running fallback.") {
		t.Errorf("the order: %v: %s", err, out)
	}
	b.collector.Await("it runs the fallback", func(r *healthapi.Report) bool { return r.Mode == "fallback" })
	if f := b.modeFile(); f.Mode != mode.Fallback || f.Rev != 1 || f.By != "person alice" || b.collector.Starts() != 2 {
		t.Errorf("the mode file says %+v after %d starts", f, b.collector.Starts())
	}
	// What is there already is done.
	if out := b.order("switch", "fallback", "--wait=10s", "--reason", "again"); !strings.Contains(out, "Done: ") {
		t.Errorf("it said %q", out)
	}
}

func TestWatchdog_anOrderThatFailsIsToldByItsExitCode(t *testing.T) {
	t.Parallel()
	b := newBed(t, collectortest.Options{}, "")
	b.replace("restart: {timeout: 5s,", "restart: {timeout: 1s,")
	b.run()
	b.awaitStatus("it watches", func(s control.Status) bool { return s.LastReport != nil })
	release := b.collector.Hold()
	defer release()
	b.awaitStatus("it sees that it is gone", func(s control.Status) bool { return s.Observation.Reach != decide.ReachOK })
	out, err := exec.Command("spillway-watchdog", "switch", "fallback", "--wait", "--reason", "drill", "--by", "person alice", "--config", b.yaml).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not rolled back, because person alice ordered it") {
		t.Errorf("%v: %s", err, out)
	}
	if f := b.modeFile(); f.Mode != mode.Fallback || f.Rev != 1 {
		t.Errorf("the mode file says %+v", f)
	}
}
