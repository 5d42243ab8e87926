// Package app wires the collector's parts together and runs them: it is the only
// package that knows them all. It never touches signals or flags; main does, and
// calls Flush, Reload and LogReport.
//
// Start order: spool (its lock comes before anything else is touched), sinks,
// delivery (the backlog drains before new events come in), admin listener,
// public listener. Stop order is the reverse.
package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sirupsen/logrus"

	"spillway/collector/internal/admin"
	"spillway/collector/internal/admission"
	"spillway/collector/internal/config"
	"spillway/collector/internal/deadletter"
	"spillway/collector/internal/delivery"
	"spillway/collector/internal/health"
	"spillway/collector/internal/ingest"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/spool"
	"spillway/shared/buildinfo"
	"spillway/shared/durable"
	"spillway/shared/httpserver"
	"spillway/shared/lifecycle"
	"spillway/shared/logsetup"
	"spillway/shared/mode"
)

// App is a collector. New opens everything, Run serves until its context ends.
// Flush, Reload and LogReport may be called from any goroutine while it runs.
type App struct {
	log      *logrus.Entry
	registry *prometheus.Registry
	stack    *lifecycle.Stack

	dead    *deadletter.Store
	lanes   map[sink.Lane]*lane
	primary *delivery.Primary
	gate    *admission.Gate
	server  *ingest.Server
	modes   *modes
	checks  *preflight
	report  *health.Reporter
	admin   *admin.Server
	systemd supervisor

	public, private net.Listener

	reloading sync.Mutex // one reload or switch at a time
	mu        sync.Mutex // guards what follows
	set       config.Set
	sinks     *sinks
	problem   string // what was wrong with the last reload, in words
}

// New opens the spool, makes the sinks and opens the listeners. When it returns
// an error everything it had opened is closed again.
func New(ctx context.Context, set config.Set) (_ *App, err error) {
	log, err := logsetup.New(set.Primary.Log, os.Stderr)
	if err != nil {
		return nil, err
	}
	a := &App{
		log: log, set: set, registry: prometheus.NewRegistry(),
		stack: lifecycle.NewStack(logsetup.Component(log, "stop")), lanes: map[sink.Lane]*lane{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.stack.Stop(context.WithoutCancel(ctx)))
		}
	}()
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := a.openDisk(); err != nil {
		return nil, err
	}
	if err := a.openDelivery(); err != nil {
		return nil, err
	}
	if err := a.openHealth(); err != nil {
		return nil, err
	}
	if err := a.openIntake(); err != nil {
		return nil, err
	}
	if err := a.openListeners(ctx); err != nil {
		return nil, err
	}
	a.announce()
	return a, nil
}

// openDisk opens what is on disk. The spool comes first: its lock tells whether
// another collector runs here.
func (a *App) openDisk() error {
	cfg := a.set.Primary
	if err := durable.MkdirAll(cfg.DataDir, 0o750); err != nil {
		return fmt.Errorf("data_dir: %w (name a directory that this user may write)", err)
	}
	for _, name := range sink.Lanes() {
		spoolConfig := cfg.Spool
		if name == sink.Bad {
			spoolConfig = cfg.BadSpool
		}
		log, err := spool.Open(filepath.Join(cfg.DataDir, "spool", string(name)), spoolConfig, spool.Options{
			Log: logsetup.Component(a.log, "spool").WithField("lane", name), Metrics: a.registry, Lane: string(name),
		})
		if err != nil {
			return err
		}
		a.stack.OnStop("spool "+string(name), func(context.Context) error { return log.Close() })
		a.lanes[name] = &lane{name: name, log: log}
	}
	dead, err := deadletter.Open(filepath.Join(cfg.DataDir, "dead-letters"), cfg.DeadLetters, deadletter.Options{
		Log: logsetup.Component(a.log, "deadletter"), Metrics: a.registry,
	})
	if err != nil {
		return err
	}
	a.stack.OnStop("dead letters", func(context.Context) error { return dead.Close() })
	a.dead = dead
	return nil
}

// openDelivery makes the sinks and the forwarders of the mode that the mode file
// asks for.
func (a *App) openDelivery() error {
	a.modes = &modes{path: a.set.Paths.Mode, log: logsetup.Component(a.log, "mode"), apply: a.applyMode}
	runs := a.modes.read(a.set.Fallback != nil)
	made, err := makeSinks(a.set, a.log, a.registry)
	if err != nil {
		return err
	}
	a.sinks = made
	a.stack.OnStop("sinks", func(context.Context) error { return a.currentSinks().close() })
	a.primary = delivery.OpenPrimary(filepath.Join(a.set.Primary.DataDir, "primary.json"), logsetup.Component(a.log, "delivery"))
	for _, l := range a.lanes {
		opts := delivery.Options{
			Lane: l.name, Metrics: a.registry,
			Log: logsetup.Component(a.log, "delivery").WithField("lane", l.name),
		}
		if l.name == sink.Good {
			opts.Primary = a.primary
		}
		l.forwarder = delivery.New(a.config(runs).Delivery, queue{l.log}, made.route(l.name, runs), a.dead, opts)
	}
	a.checks = newPreflight(logsetup.Component(a.log, "fallback"), a.fallbackInUse)
	a.checks.replace(made.checkFallback())
	return nil
}

func (a *App) openHealth() error {
	identity, err := health.Identify(a.set.Primary.Instance, buildinfo.Get().Version)
	if err != nil {
		return err
	}
	log := logsetup.Component(a.log, "health")
	a.report = health.New(identity, a.sources(), logState(log))
	a.registry.MustRegister(a.report)
	a.systemd = supervisor{log: log, live: a.live, rep: a.report.Peek}
	return nil
}

func (a *App) openIntake() error {
	cfg := a.config(a.mode())
	logs := map[sink.Lane]*spool.Log{}
	for name, l := range a.lanes {
		logs[name] = l.log
	}
	a.gate = admission.New(cfg.Admission, a.load, logsetup.Component(a.log, "admission"), a.registry)
	info := buildinfo.Get()
	server, err := ingest.New(cfg.HTTP, ingest.Deps{
		Store: store{logs, a.gate}, DeadLetters: letters{a.dead}, Gate: a.gate,
		SinkHealthy: a.sinkHealthy, Log: logsetup.Component(a.log, "ingest"), Metrics: a.registry,
		Collector:     "spillway-" + info.Version + "-" + cfg.Sink.Type,
		ProcessorName: "spillway-collector", ProcessorVersion: info.Version,
	})
	if err != nil {
		return err
	}
	a.server = server
	return nil
}

func (a *App) openListeners(ctx context.Context) (err error) {
	cfg := a.set.Primary
	listen := func(addr string) (net.Listener, error) {
		l, err := httpserver.Listen(ctx, addr)
		if err != nil {
			return nil, err
		}
		// Closing twice does no harm: whoever serves the listener closes it first.
		a.stack.OnStop("listener "+addr, func(context.Context) error { _ = l.Close(); return nil })
		return l, nil
	}
	if a.private, err = listen(cfg.Admin.Listen); err != nil {
		return err
	}
	if a.public, err = listen(cfg.Listen); err != nil {
		return err
	}
	for _, name := range httpserver.Untaken() {
		a.log.WithField("socket", name).Warn("systemd passed a socket that no setting asks for: connections to it wait for ever")
	}
	a.admin, err = admin.New(cfg.Admin, httpserver.Private(a.private.Addr()), admin.Deps{
		Report: a.report.Report, Live: a.live, Ready: a.ready,
		Flush:       a.Flush,
		FlushStatus: a.flushStatus, SwitchMode: a.switchMode,
		SetLogLevel: func(level string) error { return logsetup.SetLevel(a.log, level) },
		Gatherer:    a.registry, Log: logsetup.Component(a.log, "admin"),
	})
	return err
}

// announce says in the log what runs where.
func (a *App) announce() {
	m := a.modes.state()
	route := a.currentSinks().route(sink.Good, mode.Mode(m.Name))
	backlog := a.backlog()
	a.log.WithFields(logrus.Fields{
		"version": buildinfo.Get().Version, "listen": a.public.Addr().String(), "admin": a.private.Addr().String(),
		"data_dir": a.set.Primary.DataDir, "mode": m.Name, "sink": route.Sink.Info().Type,
		"target": route.Sink.Info().Target, "backlog_events": backlog.Events,
	}).Info("collector starts")
	if a.set.Paths.Primary == "" {
		a.log.WithField("dir", a.set.Primary.Files().Dir).Warn("no config is given: events go to files in this directory; name a config with --config")
	}
	if why := volatile(a.set.Primary.DataDir); why != "" {
		a.log.WithField("dir", a.set.Primary.DataDir).Warn("data_dir " + why)
	}
	if a.set.Fallback == nil && a.set.Primary.Stop.Evacuate {
		a.log.Warn("stop.evacuate is set but no fallback config is given: at a stop during an outage events stay on this disk")
	}
	if a.set.Fallback == nil && a.set.Primary.Sink.Type == config.Kinesis {
		a.log.Warn("no fallback config is given: while Kinesis is away events only wait on disk")
	}
}
