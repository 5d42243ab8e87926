// Package app builds the watchdog from its config, runs it and stops it. It is
// the only package that knows all the others.
package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"

	"spillway/shared/buildinfo"
	"spillway/shared/durable"
	"spillway/shared/healthapi"
	"spillway/shared/httpserver"
	"spillway/shared/lifecycle"
	"spillway/shared/logsetup"
	"spillway/watchdog/internal/admin"
	"spillway/watchdog/internal/config"
	"spillway/watchdog/internal/control"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/journal"
	"spillway/watchdog/internal/probe"
	"spillway/watchdog/internal/remedy/live"
	"spillway/watchdog/internal/replayer"
	"spillway/watchdog/internal/state"
)

// Options is what an App is built from.
type Options struct {
	Config config.Config
	// Load reads the config anew, for Reload. Nil keeps the one there is.
	Load func() (config.Config, error)
	Log  *logrus.Entry
}

// App is one watchdog.
type App struct {
	cfg      config.Config
	load     func() (config.Config, error)
	log      *logrus.Entry
	stack    *lifecycle.Stack
	registry *prometheus.Registry

	loop    *control.Loop
	prober  *probe.Prober
	replays *replayer.Replayer // nil: people start replays
	servers []*httpserver.Server
	resumed string // what the state says, for the first line of the journal
}

// New builds the watchdog and takes its locks and listeners, so that whatever is
// wrong is said before anything runs. An error wraps state.ErrLocked when
// another watchdog is at work, or is an *httpserver.ListenError.
//
// A state directory that cannot be written is no error: a watchdog that cannot
// remember may not act, but it still sees, and says so.
func New(ctx context.Context, opts Options) (*App, error) {
	a := &App{
		cfg: opts.Config, load: opts.Load, log: logsetup.Component(opts.Log, "watchdog"),
		stack: lifecycle.NewStack(opts.Log), registry: prometheus.NewRegistry(),
	}
	if err := a.build(ctx, opts.Log); err != nil {
		return nil, errors.Join(err, a.stack.Stop(ctx))
	}
	return a, nil
}

func (a *App) build(ctx context.Context, log *logrus.Entry) error {
	if err := a.prepare(); err != nil {
		return err
	}
	clock, err := control.BootClock()
	if err != nil {
		return err
	}
	store := state.New(a.cfg.StateFile(), usable)
	begin := a.remember(store).Since(clock().BootID)

	client, err := admin.New(a.cfg.Collector.Admin, logsetup.Component(log, "admin"))
	if err != nil {
		return err
	}
	way := newWay(a.cfg.Restarter, client)
	a.stack.OnStop("restarter", func(context.Context) error { return way.close() })
	a.prober = probe.New(a.cfg.Collector.Probe, probe.Options{
		Reporter: client, Supervisor: way.supervisor, Timeout: a.cfg.Policy.Poll.Timeout,
		Metrics: a.registry, Last: begin.Seen, Process: begin.Process,
	})
	record := journal.New(a.cfg.JournalFile(), a.cfg.Journal)
	a.stack.OnStop("journal", func(context.Context) error { return record.Close() })
	a.loop = control.New(control.Options{
		Policy: a.cfg.Policy, Memory: begin, Mind: decide.Next,
		Observer: a.prober, Store: store, Journal: record,
		Doer: &control.Executor{
			Admin: client, Restarter: way.restarter, Live: live.New(client), Signals: way.signals,
			ModePath: a.cfg.ModeFile, Name: a.cfg.Name(), Patience: a.cfg.Policy.Poll.Timeout,
		},
		Inbox: control.NewInbox(a.cfg.CommandsDir(), logsetup.Component(log, "inbox")),
		Clock: clock, ModePath: a.cfg.ModeFile, Name: a.cfg.Name(),
		Log: logsetup.Component(log, "control"), Metrics: a.registry,
	})
	a.replays = a.replayer(logsetup.Component(log, "replay"))
	return a.listen(ctx, logsetup.Component(log, "http"))
}

// prepare makes the state directory and takes the locks.
func (a *App) prepare() error {
	if err := durable.MkdirAll(a.cfg.StateDir, 0o750); err != nil {
		a.log.WithError(err).Error("the state directory cannot be used: the watchdog will watch and tell, but not act")
	}
	for _, path := range []string{a.cfg.LockFile(), a.cfg.ModeLockFile()} {
		lock, err := state.TakeLock(path)
		if errors.Is(err, state.ErrLocked) {
			return err
		}
		if err != nil {
			a.log.WithError(err).Error("the lock against a second watchdog cannot be taken")
			continue
		}
		a.stack.OnStop("lock "+filepath.Base(path), func(context.Context) error { return lock.Release() })
	}
	return nil
}

// usable tells whether a memory read from disk is one of this version.
func usable(s control.Memory) error {
	if s.Schema != decide.Schema {
		return fmt.Errorf("schema is %d: this version reads %d", s.Schema, decide.Schema)
	}
	return nil
}

// remember returns what to begin with.
func (a *App) remember(store *state.Store[control.Memory]) control.Memory {
	found, err := store.Load()
	log := a.log.WithFields(logrus.Fields{"origin": found.Origin.String(), "file": a.cfg.StateFile()})
	if err != nil || found.Cause != nil {
		log.WithError(errors.Join(err, found.Cause)).WithField("kept_as", found.Aside).Error("the state is damaged")
	}
	begin := found.Value
	switch {
	case found.Origin == state.Fresh && err == nil:
		begin.State = decide.NewState(a.cfg.Policy)
	case err != nil, found.Origin == state.Amnesia:
		begin.State = decide.Amnesia(a.cfg.Policy, fmt.Sprint(errors.Join(err, found.Cause)))
	case found.Origin == state.Backup:
		// The save that is missing may have been the one that paid for an act.
		begin.Budget.Tokens = max(0, begin.Budget.Tokens-1)
	}
	a.resumed = "it begins without a memory"
	if begin.Mode.Phase != "" {
		a.resumed = fmt.Sprintf("it remembers mode %s and authority %s", begin.Mode.Phase, begin.Authority.Phase)
	}
	if found.Origin == state.Backup {
		a.resumed += ", from the backup of the state"
	}
	return begin
}

// listen opens the control socket and the public listener.
func (a *App) listen(ctx context.Context, log *logrus.Entry) error {
	id := control.Identity{
		Instance: a.cfg.Instance, PID: os.Getpid(), StartedAt: time.Now().UTC(),
		Collector: a.cfg.Collector.Admin.Address, Restarter: a.cfg.Restarter.Use,
	}
	serve := func(addr string, h http.Handler) error {
		l, err := httpserver.Listen(ctx, addr)
		if err != nil {
			return err
		}
		a.servers = append(a.servers, httpserver.New(l, h, serverConfig(), log))
		a.stack.OnStop("listener "+addr, func(context.Context) error { _ = l.Close(); return nil })
		return nil
	}
	if err := serve("unix:"+a.cfg.ControlSocket(), a.loop.ControlHandler(id)); err != nil {
		log.WithError(err).Error("no control socket: orders are taken from the commands directory only")
	}
	if a.cfg.Listen == "" {
		return nil
	}
	build := buildinfo.Get()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "spillway_watchdog_build_info", Help: "1, with the version as labels.",
		ConstLabels: prometheus.Labels{"version": build.Version, "commit": build.Commit},
	})
	info.Set(1)
	a.registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := a.loop.ReadHandler(id)
	mux.Handle("GET "+healthapi.PathMetrics, promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{ErrorLog: log}))
	return serve(a.cfg.Listen, mux)
}

func serverConfig() httpserver.Config {
	c := httpserver.DefaultConfig()
	c.ShutdownTimeout = 2 * time.Second
	return c
}

// Addrs are the addresses it listens on, the control socket first.
func (a *App) Addrs() []string {
	var addrs []string
	for _, s := range a.servers {
		addrs = append(addrs, s.Addr().String())
	}
	return addrs
}

// Run watches until ctx ends, then stops and leaves the collector as it is. It
// returns nil then, or why a part of the watchdog failed. It is called once.
func (a *App) Run(ctx context.Context) error {
	a.say(control.EventStart, fmt.Sprintf("watchdog %s started: %s", buildinfo.Get().Version, a.resumed))
	group := lifecycle.NewGroup(ctx)
	group.Go("control", a.loop.Run)
	for _, s := range a.servers {
		group.Go("http "+s.Addr().String(), s.Run)
	}
	group.Go("supervisor", a.notifySupervisor)
	if a.replays != nil {
		group.Go("replay", a.replays.Run)
	}
	err := group.Wait()
	a.say(control.EventStop, "watchdog stops; the collector is left as it is")
	// The stop has its own time: ctx has ended already.
	return errors.Join(err, a.stack.Stop(context.WithoutCancel(ctx)))
}

// say writes what the loop has no part in to log and journal.
func (a *App) say(event, sentence string) {
	if err := a.loop.Note(event, "", sentence); err != nil {
		a.log.WithError(err).Error("the journal cannot be written")
	}
}
