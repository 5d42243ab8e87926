package app

import (
	"context"
	"errors"
	"io/fs"

	"github.com/sirupsen/logrus"

	"spillway/shared/mode"
	"spillway/watchdog/internal/admin"
	"spillway/watchdog/internal/config"
	"spillway/watchdog/internal/control"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/probe"
	"spillway/watchdog/internal/state"
)

// Look observes the collector once and tells what a watchdog with the state on
// disk would make of it. It changes nothing: no state, no journal, no collector.
// It is what status and why show when no watchdog runs.
func Look(ctx context.Context, c config.Config, log *logrus.Entry) (control.Status, error) {
	clock, err := control.BootClock()
	if err != nil {
		return control.Status{}, err
	}
	begin, err := state.New(c.StateFile(), usable).Peek()
	if errors.Is(err, fs.ErrNotExist) {
		begin.State = decide.NewState(c.Policy)
	} else if err != nil {
		return control.Status{}, err
	}
	begin = begin.Since(clock().BootID)
	client, err := admin.New(c.Collector.Admin, log)
	if err != nil {
		return control.Status{}, err
	}
	way := newWay(c.Restarter, client)
	defer func() { _ = way.close() }()
	prober := probe.New(c.Collector.Probe, probe.Options{
		Reporter: client, Supervisor: way.supervisor, Timeout: c.Policy.Poll.Timeout, Last: begin.Seen, Process: begin.Process,
	})
	o := prober.Observe(ctx)
	o.Clock, o.FirstOfRun = clock(), true
	file, err := mode.Read(c.ModeFile)
	o.ModeFile = decide.ModeFile{File: file, Mine: file.By == c.Name()}
	if err != nil {
		o.ModeFile.Err = err.Error()
	}
	snap := control.Snapshot{At: o.Clock.Wall, Observation: o, Policy: c.Policy, LastReport: o.Report, LastReportAt: o.Clock.Wall}
	snap.State, snap.Decision, snap.Explain = decide.Next(c.Policy, begin.State, o)
	return control.StatusOf(control.Identity{
		Instance: c.Instance, Collector: c.Collector.Admin.Address, Restarter: c.Restarter.Use,
	}, &snap), nil
}
