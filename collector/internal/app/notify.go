package app

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"

	"spillway/shared/healthapi"
)

// supervisor tells systemd how the process fares, where it runs under systemd
// (Type=notify); elsewhere every call does nothing.
type supervisor struct {
	log  *logrus.Entry
	live func() error // nil while the parts make progress
	rep  func() healthapi.Report
}

func (s supervisor) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.WithError(err).Debug("systemd was not told")
	}
}

func (s supervisor) ready() { s.tell(daemon.SdNotifyReady + "\n" + s.status()) }
func (s supervisor) stopping() {
	s.tell(daemon.SdNotifyStopping + "\nSTATUS=stopping: finishing requests, delivering what can be delivered")
}

// reloading wraps a reload in the messages that systemd wants of one.
func (s supervisor) reloading(reload func()) {
	s.tell(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonicMicros()))
	reload()
	s.ready()
}

// status is the line that `systemctl status` shows.
func (s supervisor) status() string {
	r := s.rep()
	line := fmt.Sprintf("STATUS=%s, mode %s, %d events wait", r.State, r.Mode, r.Backlog.Events)
	if r.Backlog.OldestAgeSeconds != nil {
		line += fmt.Sprintf(", the oldest for %s", time.Duration(*r.Backlog.OldestAgeSeconds*float64(time.Second)).Round(time.Second))
	}
	if r.Sink.LastError != "" && r.Sink.ConsecutiveFailures > 0 {
		line += "; " + r.Sink.LastError
	}
	return line
}

// run keeps the status line fresh and feeds the service watchdog while, and only
// while, the parts make progress.
func (s supervisor) run(ctx context.Context) error {
	every := 5 * time.Second
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.WithError(err).Warn("WATCHDOG_USEC cannot be read: the service watchdog is not fed")
	}
	if interval > 0 {
		every = min(every, interval/3)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		state := s.status()
		if interval > 0 && s.live() == nil {
			state = daemon.SdNotifyWatchdog + "\n" + state
		}
		s.tell(state)
	}
}
