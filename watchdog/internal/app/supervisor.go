package app

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifySupervisor tells systemd, where it asks, that the watchdog is ready once
// the first round is over, and then, for WatchdogSec, that it makes progress:
// only while the loop comes round.
func (a *App) notifySupervisor(ctx context.Context) error {
	first := time.NewTicker(100 * time.Millisecond)
	defer first.Stop()
	for a.loop.Alive() != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-first.C:
		}
	}
	tellSupervisor(daemon.SdNotifyReady)
	defer tellSupervisor(daemon.SdNotifyStopping)
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(every / 3)
	defer tick.Stop()
	for {
		if a.loop.Alive() == nil {
			tellSupervisor(daemon.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tellSupervisor sends one message; where nobody listens it goes nowhere, and
// nothing depends on it.
func tellSupervisor(message string) { _, _ = daemon.SdNotify(false, message) }
