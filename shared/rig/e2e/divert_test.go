package e2e

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/tracker"
)

func TestPair_divertsToS3AndBack_losingNothing(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{})
	tr := send(t, p, tracker.Config{Connections: 4, EventsPerSecond: 100, EventsPerPost: 2, PixelShare: 0.1, Resend: true})
	tr.acked(t, 100)
	if err := p.CutKinesis(); err != nil {
		t.Fatal(err)
	}
	health(t, p, "a backlog", backlogOf(100))
	if _, err := p.KillCollector(limited(t)); err != nil {
		t.Fatal(err)
	}

	diverting := journal(t, p, 0, func(e pair.Entry) bool { return e.Event == "action_start" && e.To == "fallback" })
	if diverting.Rule != "last_write_age" {
		t.Errorf("the watchdog diverts because of %q: %s", diverting.Rule, diverting.Sentence)
	}
	diverted := journal(t, p, diverting.Seq-1, goesTo("fallback"))
	health(t, p, "the fallback in use", runs("fallback"))
	if err := p.Rig.S3.Wait(limited(t), rig.Bucket, pair.Prefix+"/good/", 1); err != nil {
		t.Fatal(err)
	}

	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	back := journal(t, p, diverted.Seq, goesTo("probation"))
	health(t, p, "the primary in use", runs("primary"))
	arrived := p.Rig.Kinesis.Count(rig.GoodStream)
	if err := p.Rig.Kinesis.Wait(limited(t), rig.GoodStream, arrived+50); err != nil {
		t.Error(err)
	}
	r := tr.settle(t, p)
	if r.InKinesis == 0 || r.InS3 == 0 {
		t.Errorf("both destinations should have events: %v", r)
	}
	journal(t, p, back.Seq, goesTo("primary")) // the probation ends
}

// A watchdog that dies in the middle of an act goes on where it was.
func TestWatchdog_killedDuringADivert_endsInTheFallback(t *testing.T) {
	t.Parallel()
	step := func(name string) func(pair.Entry) bool {
		return func(e pair.Entry) bool { return e.Event == "step" && e.Step == name }
	}
	for _, c := range []struct {
		when string
		over string // of the collector
		kill func(*testing.T, *pair.Pair)
	}{
		{"between flush and mode file", "", func(t *testing.T, p *pair.Pair) {
			// Whoever writes the mode file takes its lock first: it is ours.
			release := holdModeFile(t, p)
			journal(t, p, 0, step("mode_written"))
			p.Watchdog.Process().Kill()
			if f, err := p.Mode(); err != nil || f.Mode != "primary" {
				t.Errorf("the mode file says %+v, %v before it could be written", f, err)
			}
			release()
		}},
		// The collector takes its time to stop, so that the kill falls in between.
		{"between mode file and restart", "stop: {grace: 3s}\n", func(t *testing.T, p *pair.Pair) {
			collector := p.Collector.Process()
			journal(t, p, 0, step("switch"))
			p.Watchdog.Process().Kill()
			if f, err := p.Mode(); err != nil || f.Mode != "fallback" {
				t.Errorf("the mode file says %+v, %v after it was written", f, err)
			}
			select {
			case <-collector.Done():
				t.Error("the collector had ended before the watchdog was killed")
			default:
			}
		}},
		{"after every step", "", func(t *testing.T, p *pair.Pair) {
			var last uint64
			for range 4 {
				e := journal(t, p, last, func(e pair.Entry) bool { return e.Event == "action_start" || e.Event == "step" })
				last = e.Seq
				p.Watchdog.Process().Kill()
			}
		}},
	} {
		t.Run(c.when, func(t *testing.T) {
			t.Parallel()
			p := start(t, pair.Options{Collector: c.over})
			tr := send(t, p, tracker.Config{Connections: 4, EventsPerSecond: 50, Resend: true})
			tr.acked(t, 50)
			if err := p.CutKinesis(); err != nil {
				t.Fatal(err)
			}
			c.kill(t, p)
			health(t, p, "the fallback in use", runs("fallback"))
			if _, err := p.WaitStatus(limited(t), func(s *pair.Status) error {
				if s.State.Mode.Phase != "fallback" || s.State.Action != nil {
					return fmt.Errorf("the watchdog is at %+v: %s", s.State, s.Explain.Summary)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if f, err := p.Mode(); err != nil || f.Mode != "fallback" || f.Pinned {
				t.Errorf("the mode file says %+v, %v", f, err)
			}
			diverts := map[string]bool{}
			entries, err := p.Journal()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Event == "action_start" {
					diverts[e.ActionID] = true
				}
			}
			if len(diverts) != 1 {
				t.Errorf("it took %d acts to divert once: %v", len(diverts), diverts)
			}
			tr.settle(t, p)
		})
	}
}

// holdModeFile takes the lock of the mode file until the returned function is called.
func holdModeFile(t *testing.T, p *pair.Pair) (release func()) {
	t.Helper()
	lock, err := os.OpenFile(p.ModeFile()+".lock", os.O_CREATE|os.O_RDWR, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := lock.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCollector_flushedDuringAnOutage_keepsWhatItCannotDeliver(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true})
	if err := p.CutKinesis(); err != nil {
		t.Fatal(err)
	}
	tr := sendAll(t, p, 200)
	waiting := health(t, p, "a backlog", backlogOf(1)).Backlog.Events
	if err := p.Collector.Process().Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	r := health(t, p, "a completed flush", func(r *healthapi.Report) bool { return r.Flush.Requested == 1 && r.Flush.Completed == 1 })
	if r.Flush.Result != healthapi.FlushKept || r.Flush.RemainingEvents != waiting {
		t.Errorf("the flush ended with %+v, want %d kept", r.Flush, waiting)
	}
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	if err := p.Collector.Process().Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	r = health(t, p, "a second completed flush", func(r *healthapi.Report) bool { return r.Flush.Completed == 2 })
	if r.Flush.Result != healthapi.FlushDrained || r.Flush.RemainingEvents != 0 {
		t.Errorf("the flush ended with %+v, want everything drained", r.Flush)
	}
	audit(t, p, tr.Ledger())
}

func TestCollector_switchesLive_byRequestAndByHUP(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true})
	pid := p.Collector.Process().PID()
	if err := p.CutKinesis(); err != nil {
		t.Fatal(err)
	}
	tr := sendAll(t, p, 100)
	if status, body := post(t, p.AdminURL()+healthapi.PathMode, `{"mode":"fallback","by":"person test","reason":"a test of the live switch"}`); status != 200 {
		t.Fatalf("POST /mode: %d: %s", status, body)
	}
	health(t, p, "the fallback in use and an empty backlog", func(r *healthapi.Report) bool { return r.Mode == "fallback" && empty(r) })
	if n := len(p.Rig.S3.Objects(rig.Bucket, pair.Prefix+"/good/")); n == 0 {
		t.Error("nothing came to S3")
	}

	// Back by the mode file and HUP, as a person with an editor does it.
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	f, err := p.Mode()
	if err != nil || f.By != "person test" || f.Mode != "fallback" {
		t.Fatalf("the mode file says %+v, %v", f, err)
	}
	text := fmt.Sprintf(`{"schema":1,"mode":"primary","rev":%d,"since":"2026-12-01T00:00:00Z","by":"person test","reason":"back"}`, f.Rev+1)
	if err := os.WriteFile(p.ModeFile(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Collector.Process().Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	health(t, p, "the primary in use", runs("primary"))
	more := sendAll(t, p, 100)
	health(t, p, "an empty backlog", empty)
	audit(t, p, tr.Ledger())
	if r := audit(t, p, more.Ledger()); r.InKinesis != 100 {
		t.Errorf("after the switch back %d of 100 events are in Kinesis", r.InKinesis)
	}
	if now := p.Collector.Process(); now.PID() != pid || len(p.Collector.Restarts()) > 0 {
		t.Errorf("the collector was restarted: pid %d before, %d now", pid, now.PID())
	}
	select {
	case <-p.Collector.Process().Done():
		t.Error("the collector has ended")
	default:
	}
}
