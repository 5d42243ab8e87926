package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/control"
	"spillway/watchdog/internal/decide"
)

func runs(m string) func(*healthapi.Report) bool {
	return func(r *healthapi.Report) bool { return r.Mode == m }
}

func TestWatchdog_divertsAndReturns(t *testing.T) {
	t.Parallel()
	b := newBed(t, collectortest.Options{}, "")
	w := b.run()
	b.awaitStatus("it watches", func(s control.Status) bool { return s.LastReport != nil })
	b.collector.SetWorld(sick)
	b.collector.Await("it runs the fallback", runs("fallback"))
	b.awaitStatus("the divert is over", func(s control.Status) bool { return s.State.Mode.Phase == decide.Fallback })
	if f := b.modeFile(); f.Mode != mode.Fallback || f.By != "watchdog box-1" || !strings.Contains(f.Reason, "Kinesis") {
		t.Errorf("the mode file says %+v", f)
	}
	b.awaitJournal(control.EventResult, "flush ok: flushed by SIGUSR1")
	if n := b.collector.Starts(); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
	b.collector.SetWorld(well)
	b.collector.Await("it runs the primary again", runs("primary"))
	b.awaitStatus("the outage is over", func(s control.Status) bool { return s.State.Mode.Phase == decide.Primary && s.State.Action == nil })
	if n := b.collector.Starts(); n != 3 {
		t.Errorf("%d starts, want 3", n)
	}
	before := b.collector.Process().Pid
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d after TERM", code)
	}
	if after := b.collector.Process().Pid; after != before || b.collector.Starts() != 3 {
		t.Error("the collector did not survive the watchdog's stop")
	}
}

// A watchdog that is killed in the middle of a divert, wherever that is, is
// followed by one that ends it, with one restart of the collector in all.
func TestWatchdog_killedInTheMiddleEndsInTheRightMode(t *testing.T) {
	cases := map[string]struct {
		options collectortest.Options
		at      func(b *bed)
	}{
		"while it flushes": {collectortest.Options{NeverFlushes: true}, func(b *bed) {
			b.collector.Await("the flush was asked for", func(r *healthapi.Report) bool { return r.Flush.Requested > 0 })
		}},
		"between mode file and restart": {collectortest.Options{DeafToTerm: true}, func(b *bed) {
			collectortest.Await(b.t, "the mode file says fallback", func() bool { return b.modeFile().Mode == mode.Fallback })
		}},
		"after the restart": {collectortest.Options{}, func(b *bed) {
			b.collector.Await("it runs the fallback", runs("fallback"))
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, c.options, "")
			b.collector.SetWorld(sick)
			first := b.run()
			c.at(b)
			first.kill()
			b.run()
			b.collector.Await("it runs the fallback", runs("fallback"))
			b.awaitStatus("the divert is over", func(s control.Status) bool {
				return s.State.Mode.Phase == decide.Fallback && s.State.Action == nil
			})
			if f := b.modeFile(); f.Mode != mode.Fallback || f.Rev != 1 {
				t.Errorf("the mode file says %+v", f)
			}
			if n := b.collector.Starts(); n != 2 {
				t.Errorf("%d starts, want 2", n)
			}
		})
	}
}

func TestWatchdog_restartsAHungCollectorInTheSameMode(t *testing.T) {
	t.Parallel()
	b := newBed(t, collectortest.Options{}, "")
	b.replace("unreachable: {for: 20s}", "unreachable: {for: 1s}")
	b.run()
	b.awaitStatus("it watches", func(s control.Status) bool {
		return s.LastReport != nil && s.State.Now.Sub(s.State.Begun.RunAt) > b.cfg.Policy.StartupGrace
	})
	hung := b.collector.Process().Pid
	if err := b.collector.Process().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.collector.Await("another process answers", func(r *healthapi.Report) bool { return r.PID != hung })
	b.awaitStatus("it is up again", func(s control.Status) bool { return s.State.Liveness.Phase == decide.Up && s.State.Action == nil })
	if f := b.modeFile(); f.Rev != 0 {
		t.Errorf("the mode file was touched: %+v", f)
	}
}

func TestWatchdog_startedBesideAHungCollectorKnowsItsProcess(t *testing.T) {
	t.Parallel()
	b := newBed(t, collectortest.Options{}, "")
	b.replace("unreachable: {for: 20s}", "unreachable: {for: 1s}")
	first := b.run()
	b.awaitStatus("it watches", func(s control.Status) bool { return s.LastReport != nil })
	first.kill()
	hung := b.collector.Process().Pid
	if err := b.collector.Process().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.run()
	b.collector.Await("another process answers", func(r *healthapi.Report) bool { return r.PID != hung })
}

func TestWatchdog_rollsBackAFallbackThatDoesNotStart(t *testing.T) {
	t.Parallel()
	b := newBed(t, collectortest.Options{FallbackBroken: true}, "")
	b.replace("restart: {timeout: 5s, stop_timeout: 1s}", "restart: {timeout: 3s, stop_timeout: 1s, ladder: [restart, roll_back]}")
	b.run()
	b.collector.SetWorld(sick)
	b.awaitJournal(control.EventActionStart, "diverting")
	b.awaitStatus("it has handed over", func(s control.Status) bool { return s.State.Authority.Phase == decide.HandedOver })
	b.collector.Await("it runs the primary", runs("primary"))
	if f := b.modeFile(); f.Mode != mode.Primary || f.Rev != 2 {
		t.Errorf("the mode file says %+v", f)
	}
}

func TestWatchdog_twoOnOneCollector(t *testing.T) {
	t.Parallel()
	b := newBed(t, collectortest.Options{}, "")
	b.run()
	b.awaitStatus("the first watches", func(control.Status) bool { return true })
	second := b.run()
	if code := second.exit(); code != exitState {
		t.Errorf("exit code %d, want %d", code, exitState)
	}
	if !strings.Contains(second.output.String(), "another watchdog is at work") {
		t.Errorf("it said %q", second.output)
	}
	// Nor with a state of its own: it is the collector that can have only one.
	b.replace("/state\n", "/other\n")
	if code := b.run().exit(); code != exitState {
		t.Errorf("with another state: exit code %d, want %d", code, exitState)
	}
	b.replace("/other\n", "/state\n")
	if _, err := b.status(); err != nil {
		t.Errorf("the first one suffered: %v", err)
	}
}

func TestWatchdog_saysWhenItCannotListen(t *testing.T) {
	t.Parallel()
	b := newBed(t, collectortest.Options{}, "")
	b.replace(`listen: ""`, `listen: "unix:`+b.yaml+`"`) // a file stands there
	w := b.run()
	if code := w.exit(); code != 69 || !strings.Contains(w.output.String(), "not a socket") {
		t.Errorf("exit code %d, it said %q", code, w.output)
	}
	// What it had taken by then is given back.
	b.replace(`listen: "unix:`+b.yaml+`"`, `listen: ""`)
	b.run()
	b.awaitStatus("it runs now", func(control.Status) bool { return true })
}

func TestWatchdog_withoutMemoryWatchesAndDoesNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t, collectortest.Options{}, "")
	listen := filepath.Join(filepath.Dir(b.yaml), "http.sock")
	b.replace(`listen: ""`, `listen: "unix:`+listen+`"`)
	b.replace("/state\n", "/watchdog.yaml/state\n") // below a file no directory can be made
	w := b.run()
	b.collector.SetWorld(sick)
	reader := client{&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", listen)
	}}}}
	collectortest.Await(t, "it says that it cannot remember", func() bool {
		s, err := reader.status(t.Context())
		return err == nil && len(firing(s.Explain, decide.SinkSick)) > 0 &&
			slices.ContainsFunc(s.Explain.BlockedBy, func(b decide.Block) bool { return b.Guard == "no_state" })
	})
	if f := b.modeFile(); f.Rev != 0 || b.collector.Starts() != 1 {
		t.Errorf("it acted: mode file %+v, %d starts", f, b.collector.Starts())
	}
	if out := w.output.String(); !strings.Contains(out, "the watchdog will watch and tell, but not act") || !strings.Contains(out, "the state cannot be saved") {
		t.Errorf("it said %q", out)
	}
}

func TestWatchdog_damagedStateIsKeptAndSurvived(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "zeroes": "\x00\x00\x00", "cut": `{"schema":1,"mode":`, "later": `{"schema":99}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, collectortest.Options{}, "")
			if err := os.MkdirAll(b.cfg.StateDir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(b.cfg.StateFile(), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			b.run()
			b.awaitStatus("it watches", func(s control.Status) bool { return s.LastReport != nil })
			if s, err := b.status(); err != nil || s.State.Begun.Amnesia == "" || s.State.Budget.Tokens > 1 {
				t.Errorf("got %+v, %v", s.State.Begun, err)
			}
			kept, err := filepath.Glob(b.cfg.StateFile() + ".damaged-*")
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept %v, %v", kept, err)
			}
			if got, err := os.ReadFile(kept[0]); err != nil || string(got) != text {
				t.Errorf("kept %q, %v", got, err)
			}
		})
	}
}

func TestWatchdog_hupReadsThePolicyAndTouchesNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t, collectortest.Options{}, "")
	w := b.run()
	b.awaitStatus("it watches", func(s control.Status) bool { return s.LastReport != nil })
	before := b.collector.Process().Pid
	b.replace("threshold: 3s", "threshold: 4s")
	b.replace("instance: box-1", "instance: box-2")
	hup := func() {
		if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hup()
	b.awaitStatus("the new threshold is in force", func(s control.Status) bool {
		return s.Policy.Rules.LastWriteAge.Threshold.Seconds() == 4
	})
	b.awaitJournal(control.EventReload, "changes of instance wait for the next start")
	if err := os.WriteFile(b.yaml, []byte("nonsense: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hup()
	b.awaitJournal(control.EventReload, "the new config is refused")
	if s, err := b.status(); err != nil || s.Policy.Rules.LastWriteAge.Threshold.Seconds() != 4 {
		t.Errorf("got %v, %v", s.Policy.Rules.LastWriteAge, err)
	}
	if b.collector.Process().Pid != before || b.collector.Starts() != 1 || b.modeFile().Rev != 0 {
		t.Error("the collector was touched")
	}
}

func TestWatchdog_obeysPeople(t *testing.T) {
	t.Parallel()
	b := newBed(t, collectortest.Options{}, "")
	b.order("pause", "--for", "1h", "--reason", "moving house", "--by", "person alice") // before it runs
	b.run()
	b.awaitStatus("it is paused", func(s control.Status) bool { return s.State.Authority.Phase == decide.Paused })
	b.collector.SetWorld(sick)
	b.awaitJournal(control.EventBlocked, "alice")
	if out := b.order("status"); !strings.Contains(out, "paused, by person alice") || !strings.Contains(out, "moving house") {
		t.Errorf("status says %q", out)
	}
	if out := b.order("why"); !strings.Contains(out, "Not done: ") {
		t.Errorf("why says %q", out)
	}
	if b.modeFile().Rev != 0 || b.collector.Starts() != 1 {
		t.Error("it acted though it was paused")
	}
	b.order("note", "Kinesis is being moved")
	b.awaitJournal(control.EventNote, "Kinesis is being moved")
	b.collector.SetWorld(well)
	b.order("resume", "--reason", "done")
	b.order("switch", "fallback", "--pin", "--reason", "a drill", "--by", "person bob")
	b.collector.Await("it runs the fallback", runs("fallback"))
	if f := b.modeFile(); !f.Pinned || f.By != "person bob" || f.Reason != "a drill" {
		t.Errorf("the mode file says %+v", f)
	}
	b.awaitStatus("it is pinned", func(s control.Status) bool { return s.State.Authority.Phase == decide.Pinned && s.State.Action == nil })
}
