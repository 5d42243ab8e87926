package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/sink"
	"spillway/shared/healthapi"
	"spillway/shared/httpserver"
	"spillway/shared/lifecycle"
	"spillway/shared/logsetup"
)

// Run serves until ctx ends, then stops gracefully: /readyz says 503, requests
// are taken for stop.grace, those under way are answered, what can be delivered
// is, and the rest stays in the spool. It returns nil after a clean stop, which
// with stop.evacuate is one that left nothing behind. It is called once.
func (a *App) Run(ctx context.Context) error {
	life := context.WithoutCancel(ctx) // parts stop in order, not all at once
	delivering := lifecycle.NewGroup(life)
	background := lifecycle.NewGroup(life)
	serving := lifecycle.NewGroup(ctx)

	background.Go("admission", a.gate.Run)
	background.Go("fallback check", a.checks.run)
	background.Go("health", a.sample)
	background.Go("disk", a.watchDisk)
	background.Go("systemd", a.systemd.run)
	background.Go("admin listener", a.serveAdmin)
	a.stack.OnStop("background", func(context.Context) error { return background.Stop() })

	for _, name := range sink.Lanes() {
		delivering.Go("delivery "+string(name), a.lanes[name].forwarder.Run)
	}
	a.stack.OnStop("delivery", func(context.Context) error { return delivering.Stop() })
	a.stack.OnStop("evacuation", a.evacuate)

	serving.Go("public listener", func(context.Context) error { return a.server.Serve(a.public) })
	a.stack.OnStop("public listener", a.shutdown)

	// Whatever ends on its own ends the whole: half a collector is worse than a restart.
	for _, g := range []*lifecycle.Group{background, delivering} {
		serving.Go("parts", func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return nil
			case <-g.Context().Done():
				return context.Cause(g.Context())
			}
		})
	}
	a.report.SignalsReady()
	a.report.Started()
	a.systemd.ready()
	a.log.Info("collector takes events")

	<-serving.Context().Done()
	stopped := a.stop(life)
	return errors.Join(serving.Wait(), stopped)
}

// stop runs the stop stack within stop.timeout.
func (a *App) stop(ctx context.Context) error {
	cfg := a.config(a.mode()).Stop
	a.report.Stopping()
	a.systemd.stopping()
	a.log.WithField("timeout", cfg.Timeout.String()).Info("collector stops")
	begun := time.Now()
	if cfg.Grace > 0 {
		a.server.Drain()
		<-time.After(cfg.Grace)
	}
	stopping, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	err := within(ctx, cfg.Timeout+lastGrace, func() error { return a.stack.Stop(stopping) })
	left := a.backlog()
	log := a.log.WithFields(logrus.Fields{"took": time.Since(begun).Round(time.Millisecond).String(), "kept_events": left.Events, "kept_bytes": left.Bytes})
	if cfg.Evacuate && left.Events > 0 {
		log.Error("collector stopped; what is kept is lost if the disk goes with this box: keep the disk and run `spillway-collector spool export`")
		return errors.Join(err, fmt.Errorf("stop.evacuate: %w: %d are on its disk", errLeftBehind, left.Events))
	}
	log.Info("collector stopped; what is kept is on disk and delivered after the next start")
	return err
}

// lastGrace is what a stop may take beyond its time-out before the process ends
// as it is: a disk that never answers must not keep it. What was answered 200 is
// on disk already.
const lastGrace = 5 * time.Second

// within runs f and waits for it no longer than d.
func within(ctx context.Context, d time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the stop did not end within %s: the disk or a part does not answer; nothing that was answered 200 is lost by that", d)
	}
}

// shutdown ends the public listener. Requests that are still being sent get as
// long as storing one may take, and no more than a quarter of the stop: one slow
// client must not use up what the backlog needs.
func (a *App) shutdown(ctx context.Context) error {
	cfg := a.config(a.mode())
	ctx, cancel := context.WithTimeout(ctx, min(cfg.HTTP.AppendTimeout+2*time.Second, cfg.Stop.Timeout/4))
	defer cancel()
	if err := a.server.Shutdown(ctx); err != nil {
		a.log.WithError(err).Warn("requests that had not arrived whole were cut off; their trackers send them again")
	}
	return nil
}

// serveAdmin answers on the admin listener. Flushes and profiles may take
// minutes, so answers have no deadline of their own.
func (a *App) serveAdmin(ctx context.Context) error {
	cfg := httpserver.DefaultConfig()
	cfg.WriteTimeout, cfg.ShutdownTimeout = 0, time.Second
	err := httpserver.New(a.private, a.admin, cfg, logsetup.Component(a.log, "admin")).Run(ctx)
	if errors.Is(err, httpserver.ErrCutOff) {
		return nil // a profile or a waiting flush: nothing of value is lost
	}
	return err
}

func (a *App) sample(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		a.report.Sample()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Flush asks both lanes for a flush and returns at once.
func (a *App) Flush() healthapi.Flush {
	for _, name := range sink.Lanes() {
		a.lanes[name].forwarder.Flush()
	}
	return a.flushStatus()
}

// LogReport writes the health report to the log.
func (a *App) LogReport() { logReport(a.log, a.report.Report()) }
