package app

import (
	"spillway/watchdog/internal/admin"
	"spillway/watchdog/internal/config"
	"spillway/watchdog/internal/probe"
	"spillway/watchdog/internal/remedy"
	"spillway/watchdog/internal/remedy/command"
	"spillway/watchdog/internal/remedy/live"
	"spillway/watchdog/internal/remedy/signal"
	"spillway/watchdog/internal/remedy/systemd"
)

// way is the chosen way to restart, with what comes with it.
type way struct {
	restarter  remedy.Restarter
	signals    remedy.Signals
	supervisor probe.Supervisor // nil where none can be asked
	close      func() error
}

func newWay(c config.Restarter, client *admin.Client) way {
	w := way{signals: remedy.Direct{}, close: func() error { return nil }}
	switch c.Use {
	case config.UseSystemd:
		bus := systemd.Connect()
		r := systemd.New(c.Systemd, bus)
		return way{restarter: r, signals: r, supervisor: r, close: bus.Close}
	case config.UseCommand:
		w.restarter = command.New(c.Command)
	case config.UseLive:
		w.restarter = live.New(client)
	default:
		w.restarter = signal.Restarter{}
	}
	return w
}
