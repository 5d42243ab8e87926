package systemd

import (
	"strings"
	"testing"

	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/fault"
	"spillway/shared/rig/tracker"
)

// The whole of it: Kinesis goes away, the watchdog, which is nobody in
// particular, restarts the collector through D-Bus and polkit with the fallback,
// and brings it back. The port is the socket's: nobody is refused meanwhile.
func TestPair_failsOverAndBackThroughSystemd(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil, patient)
	h.start()
	first := property(t, h.Bed, collector, "InvocationID")
	tr := h.send(tracker.Config{Connections: 4, EventsPerSecond: 100, EventsPerPost: 2, PixelShare: 0.1})
	tr.acked(100)
	h.health("the fallback proven", func(r *healthapi.Report) bool { return r.Fallback.Ready })

	if err := h.rig.Kinesis.Break(fault.Fault{Kind: fault.Down}); err != nil {
		t.Fatal(err)
	}
	h.health("the fallback in use", runs("fallback"))
	second := property(t, h.Bed, collector, "InvocationID")
	if first == second {
		t.Error("the collector runs the fallback, but systemd did not restart it")
	}
	if err := h.rig.S3.Wait(limited(t), rig.Bucket, "bed/good/", 1); err != nil {
		t.Fatal(err)
	}
	// Either program may write the mode file after the other.
	for file, want := range map[string]string{
		"": "spillway spillway 2770", "/mode.json": "spillway-watchdog spillway 660", "/mode.json.lock": "spillway-watchdog spillway 660",
	} {
		if got := strings.TrimSpace(h.do("stat", "--format=%U %G %a", "/var/lib/spillway"+file)); got != want {
			t.Errorf("/var/lib/spillway%s is %s, want %s", file, got, want)
		}
	}
	if status := h.do("systemctl", "status", "--no-pager", collector); !strings.Contains(status, "mode fallback") {
		t.Errorf("systemctl status does not tell the mode:\n%s", status)
	}

	if err := h.rig.Kinesis.Mend(); err != nil {
		t.Fatal(err)
	}
	h.health("the primary in use", runs("primary"))
	if third := property(t, h.Bed, collector, "InvocationID"); third == second {
		t.Error("the collector runs the primary again, but systemd did not restart it")
	}
	tr.acked(100)
	if r := tr.settle(); r.InKinesis == 0 || r.InS3 == 0 {
		t.Errorf("both destinations should have events: %v", r)
	}
	if n := property(t, h.Bed, collector, "NRestarts"); n != "0" {
		t.Errorf("systemd had to restart the collector on its own %s times", n)
	}
	// What the watchdog may not even see: the events.
	main := property(t, h.Bed, watchdog, "MainPID")
	if out, err := h.Run(limited(t), "nsenter", "--target", main, "--mount", "--", "ls", "/var/lib/spillway/spool"); err == nil && strings.TrimSpace(out) != "" {
		t.Errorf("the watchdog can look into the spool: %s", out)
	}
}

func TestCollector_restartedUnderLoad_refusesNobodyAndLosesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil, patient)
	h.start()
	tr := h.send(tracker.Config{Connections: 16, EventsPerSecond: 400, EventsPerPost: 2, PixelShare: 0.2})
	for _, way := range [][]string{
		{"systemctl", "restart", collector},
		{"systemctl", "kill", "--kill-whom=main", "--signal=KILL", collector},
		{"systemctl", "try-restart", collector},
	} {
		tr.acked(200)
		before := property(t, h.Bed, collector, "InvocationID")
		h.do(way...)
		tr.acked(200)
		if after := property(t, h.Bed, collector, "InvocationID"); after == before {
			t.Errorf("%v: it was not restarted", way)
		}
	}
	tr.settle()
}

func TestCollector_reload_changesTheModeInPlace(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil, patient)
	// By itself, or the watchdog would bring it back.
	h.do("systemctl", "start", collector)
	before := h.health("the primary in use", runs("primary"))
	if _, err := h.RunAs(limited(t), "spillway-watchdog", "sh", "-c",
		`umask 007; echo '{"schema":1,"mode":"fallback","rev":1,"since":"2026-12-01T00:00:00Z","by":"person test","reason":"a test","pinned":false}' > /var/lib/spillway/mode.json`); err != nil {
		t.Fatal(err)
	}
	h.do("systemctl", "reload", collector)
	after := h.health("the fallback in use", runs("fallback"))
	if after.PID != before.PID {
		t.Errorf("the reload made process %d out of %d", after.PID, before.PID)
	}
	h.is(collector, "ActiveState", "active")

	// A bad config is refused, and the service goes on as it was.
	h.write("/etc/spillway/collector.yaml", "no_such_key: 1\n")
	h.do("systemctl", "reload", collector)
	h.health("the refusal", func(r *healthapi.Report) bool { return len(r.Problems) > 0 && r.PID == before.PID })
	h.is(collector, "ActiveState", "active")
}
