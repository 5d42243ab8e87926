package app

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"spillway/collector/internal/config"
	"spillway/collector/internal/delivery"
	"spillway/collector/internal/sink"
	"spillway/shared/logsetup"
	"spillway/shared/mode"
)

// switchTimeout is how long writes under way may hold up a switch; then they are
// given up and their records go to the new sink.
const switchTimeout = 10 * time.Second

// Reload reads both configs and the mode file again and takes over what can
// change without a restart: sinks, protocol, log level, tokens
// and certificates. A config that is not valid is refused as a whole and the old
// one stays in force; the health report says so until a reload succeeds. The mode
// file is followed in either case.
func (a *App) Reload(ctx context.Context) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	a.systemd.reloading(func() {
		err := a.reloadConfig()
		if err != nil {
			a.log.WithError(err).Error("reload refused, the old config stays in force")
		} else {
			a.log.Info("config reloaded")
		}
		a.setProblem(err)
		if err := a.modes.follow(ctx, a.hasFallback()); err != nil {
			a.log.WithError(err).Error("cannot follow the mode file")
		}
	})
}

// reloadConfig does everything that can fail before it changes anything.
func (a *App) reloadConfig() error {
	a.mu.Lock()
	paths, old := a.set.Paths, a.set
	a.mu.Unlock()
	set, err := config.Load(paths)
	if err != nil {
		return err
	}
	if set.Primary.DataDir != old.Primary.DataDir {
		return fmt.Errorf("data_dir changed from %s to %s: that needs a restart", old.Primary.DataDir, set.Primary.DataDir)
	}
	made := a.currentSinks()
	if !sameSinks(old, set) {
		if made, err = makeSinks(set, a.log, a.registry); err != nil {
			return err
		}
	}
	runs := a.mode()
	cfg := set.Primary
	if runs == mode.Fallback && set.Fallback != nil {
		cfg = *set.Fallback
	}
	before := a.currentSinks()
	// The token and the level do no harm if the step behind them is refused.
	err = a.admin.Reload()
	if err == nil {
		err = logsetup.SetLevel(a.log, cfg.Log.Level)
	}
	if err == nil {
		err = a.server.SetConfig(cfg.HTTP)
	}
	if err != nil {
		if made != before {
			err = errors.Join(err, made.close())
		}
		return err
	}
	a.mu.Lock()
	a.set, a.sinks = set, made
	a.mu.Unlock()
	if made == before {
		return nil
	}
	a.checks.replace(made.checkFallback())
	if err := a.applyMode(context.Background(), runs); err != nil {
		return err // a lane still uses the old sinks
	}
	return before.close()
}

// sameSinks says whether the sinks can stay as they are: a probe of the primary
// then keeps the evidence it has. A file of certificates may have changed though
// its name has not.
func sameSinks(a, b config.Set) bool {
	if (a.Fallback == nil) != (b.Fallback == nil) {
		return false
	}
	same := func(a, b config.Config) bool {
		s := b.Sink
		return a.Instance == b.Instance && reflect.DeepEqual(a.Sink, s) && s.Kinesis.AWS.CAFile == "" && s.S3.AWS.CAFile == ""
	}
	return same(a.Primary, b.Primary) && (a.Fallback == nil || same(*a.Fallback, *b.Fallback))
}

// applyMode makes both lanes deliver where the mode says.
func (a *App) applyMode(ctx context.Context, to mode.Mode) error {
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	made := a.currentSinks()
	return a.setRoutes(ctx, func(name sink.Lane) delivery.Route { return made.route(name, to) })
}

// setRoutes switches both lanes at once: one that waits for its old sink does not
// keep the other from switching. A lane whose new route is in force, though the
// old sink is not done, has switched.
func (a *App) setRoutes(ctx context.Context, route func(sink.Lane) delivery.Route) error {
	var wg sync.WaitGroup
	errs := make([]error, len(sink.Lanes()))
	for i, name := range sink.Lanes() {
		wg.Go(func() {
			if err := a.lanes[name].forwarder.SetRoute(ctx, route(name)); errors.Is(err, delivery.ErrNotSwitched) {
				errs[i] = fmt.Errorf("switch the %s lane: %w", name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// switchMode is POST /mode.
func (a *App) switchMode(ctx context.Context, to mode.Mode, by, reason string) (mode.File, error) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	// The switch goes on though the client that asked for it leaves.
	return a.modes.order(context.WithoutCancel(ctx), to, a.hasFallback(), by, reason)
}

func (a *App) mode() mode.Mode { return mode.Mode(a.modes.state().Name) }

// config is the config of a mode.
func (a *App) config(m mode.Mode) config.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m == mode.Fallback && a.set.Fallback != nil {
		return *a.set.Fallback
	}
	return a.set.Primary
}

func (a *App) hasFallback() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.set.Fallback != nil
}

func (a *App) currentSinks() *sinks {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sinks
}

func (a *App) setProblem(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problem = ""
	if err != nil {
		a.problem = "the last reload was refused, the config before it is in force: " + err.Error()
	}
}

func (a *App) problems() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.problem == "" {
		return nil
	}
	return []string{a.problem}
}
