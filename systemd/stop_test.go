package systemd

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
	"spillway/shared/rig/tracker"
)

// A person stops the collector and its port; the watchdog goes on. The rule about
// a collector that cannot be reached is impatient here: it fires within seconds
// and is held back by nothing but the stop.
func TestWatchdog_respectsAPersonsStop(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil, "2s")
	h.start()
	h.health("an answer", func(*healthapi.Report) bool { return true })
	h.watchdogSays("the collector is up", func(s *pair.Status) bool { return s.State.Liveness.Phase == "up" })

	h.do("systemctl", "stop", socket, collector)
	h.staysStopped("inactive")

	h.do("systemctl", "start", collector)
	h.watchdogSays("the watchdog in charge again", authority("auto"))
	tr := h.send(tracker.Config{Events: 20})
	tr.acked(20)
	tr.settle()

	// A stop that has to be finished by SIGKILL leaves a failed unit. It was a stop.
	h.write("/etc/systemd/system/"+collector+".d/deaf.conf", "[Service]\nKillSignal=SIGWINCH\nTimeoutStopSec=1\n")
	h.do("systemctl", "daemon-reload")
	h.do("systemctl", "stop", socket, collector)
	h.staysStopped("failed")
	if result := property(t, h.Bed, collector, "Result"); result != "timeout" {
		t.Errorf("the stop ended as %s", result)
	}
}

// staysStopped waits until the watchdog stands by, and for ten seconds more, in
// which it may not start the collector.
func (h *host) staysStopped(state string) {
	h.t.Helper()
	stood := h.watchdogSays("standby", authority("standby"))
	h.watchdogSays("standby ten seconds later", func(s *pair.Status) bool { return s.At.Sub(stood.At) > 10*time.Second })
	if now := property(h.t, h.Bed, collector, "ActiveState"); now != state {
		h.t.Errorf("the collector is %s, want %s", now, state)
	}
}

// Too many starts, and systemd gives up the service and closes its port. The
// watchdog makes it forget that, once, and brings both back.
func TestWatchdog_startsACollectorThatSystemdGaveUp(t *testing.T) {
	t.Parallel()
	h := newHost(t, map[string]string{collector: "[Unit]\nStartLimitIntervalSec=300\nStartLimitBurst=3\n"}, patient)
	h.start()
	h.watchdogSays("the collector is up", func(s *pair.Status) bool { return s.State.Liveness.Phase == "up" })
	proc.Eventually(t, patience, func() error {
		if _, err := h.Run(t.Context(), "systemctl", "restart", collector); err == nil {
			return errors.New("it was started once more")
		}
		return nil
	})
	h.watchdogSays("a restart by the watchdog", func(s *pair.Status) bool { return s.State.Liveness.Phase == "restarting" })
	h.is(collector, "ActiveState", "active")
	h.is(socket, "ActiveState", "active")
	tr := h.send(tracker.Config{Events: 20})
	tr.acked(20)
	tr.settle()
}

func TestTarget_stopsForGood(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil, patient)
	h.start()
	tr := h.send(tracker.Config{Events: 20})
	tr.acked(20)
	h.do("systemctl", "stop", target)
	// The order is given to the target: systemctl does not wait for what follows.
	for _, unit := range []string{collector, socket, watchdog} {
		h.is(unit, "ActiveState", "inactive")
		if result := property(t, h.Bed, unit, "Result"); result != "success" {
			t.Errorf("the stop of %s ended as %s", unit, result)
		}
	}
	if conn, err := net.Dial("tcp", h.listen); err == nil {
		_ = conn.Close()
		t.Error("the port is still open")
	}
	h.start()
	tr.settle()
}

// Restarts that are systemd's own: a process that hangs, one that dies of a
// signal as a Go program does that panics, one that refuses its config.
func TestCollector_hungOrBroken(t *testing.T) {
	t.Parallel()
	h := newHost(t, map[string]string{collector: "[Service]\nWatchdogSec=4\n"}, patient)
	h.do("systemctl", "start", collector)
	tr := h.send(tracker.Config{Connections: 2, EventsPerSecond: 20})
	tr.acked(20)
	for i, signal := range []string{"STOP", "ABRT"} {
		before := property(t, h.Bed, collector, "MainPID")
		h.do("kill", "-"+signal, before)
		proc.Eventually(t, patience, func() error {
			now, err := h.Property(t.Context(), collector, "MainPID")
			if err == nil && (now == before || now == "0") {
				err = fmt.Errorf("after SIG%s the process is still %s, now %s", signal, before, now)
			}
			return err
		})
		h.is(collector, "ActiveState", "active")
		if n := property(t, h.Bed, collector, "NRestarts"); n != fmt.Sprint(i+1) {
			t.Errorf("after SIG%s systemd has restarted it %s times, want %d", signal, n, i+1)
		}
		tr.acked(20)
	}
	log := h.Journal(t.Context(), collector, 20000)
	if !strings.Contains(log, "Watchdog timeout") || !strings.Contains(log, "goroutine ") {
		t.Errorf("the journal does not tell of the timeout and where the process hung:\n%.2000s", log)
	}
	tr.settle()

	h.write("/etc/spillway/collector.yaml", "no_such_key: 1\n")
	if out, err := h.Run(limited(t), "systemctl", "restart", collector); err == nil {
		t.Errorf("it started with a bad config: %s", out)
	}
	h.is(collector, "ActiveState", "failed")
	if status := property(t, h.Bed, collector, "ExecMainStatus"); status != "2" {
		t.Errorf("exit code %s", status)
	}
	// Nobody stopped it, and the watchdog must not think so.
	h.do("systemctl", "start", watchdog)
	type status struct {
		Observation struct {
			Supervisor struct {
				State string `json:"state"`
			} `json:"supervisor"`
		} `json:"observation"`
	}
	ask(t, "http://"+h.status+"/status", "a failed collector", func(s *status) bool { return s.Observation.Supervisor.State == "failed" })
}

func TestPolkit_letsTheWatchdogDoThisAndNoMore(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil, patient)
	h.do("systemctl", "start", collector)
	systemctl := func(user string, args ...string) (string, error) {
		return h.RunAs(limited(t), user, append([]string{"systemctl", "--no-ask-password"}, args...)...)
	}
	for _, allowed := range [][]string{
		{"try-restart", collector}, {"restart", collector}, {"start", collector}, {"reset-failed", collector},
		{"kill", "--kill-whom=main", "--signal=USR1", collector},
	} {
		if _, err := systemctl("spillway-watchdog", allowed...); err != nil {
			t.Errorf("the watchdog needs this: %v", err)
		}
	}
	for _, denied := range [][]string{
		{"stop", collector}, {"reload", collector}, {"set-property", "--runtime", collector, "CPUWeight=1"},
		{"stop", socket}, {"restart", socket}, {"try-restart", "dbus.service"}, {"kill", "--signal=USR1", "dbus.service"},
		{"start", "rescue.target"}, {"daemon-reload"}, {"edit", collector},
	} {
		if out, err := systemctl("spillway-watchdog", denied...); err == nil {
			t.Errorf("the watchdog may systemctl %v: %s", denied, out)
		}
	}
	if out, err := systemctl("spillway", "try-restart", collector); err == nil {
		t.Errorf("the collector may restart itself: %s", out)
	}
}

// What the watchdog's own check says on a host that is set up as documented.
func TestWatchdog_checkConfigIsContent(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil, patient)
	h.do("systemctl", "start", collector)
	h.health("the fallback proven", func(r *healthapi.Report) bool { return r.Fallback.Ready })
	out, err := h.RunAs(limited(t), "spillway-watchdog", "spillway-watchdog", "check-config", "/etc/spillway/watchdog.yaml")
	if err != nil {
		t.Error(err)
	}
	t.Log(out)
	for _, want := range []string{"systemd may be used", "catches SIGUSR1"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}
