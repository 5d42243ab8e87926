package app

import (
	"context"
	"errors"
	"time"

	"spillway/collector/internal/delivery"
	"spillway/collector/internal/sink"
	"spillway/shared/mode"
)

// evacuationPause is how long to wait after a round that took nothing.
const evacuationPause = 500 * time.Millisecond

// evacuate empties the spool of a box whose disk dies with it: what the
// destination in use does not take in a third of the time there is goes to the
// other one. It comes before delivery is stopped, which still tries once more;
// what is left then is told and counted by stop.
func (a *App) evacuate(ctx context.Context) error {
	cfg := a.config(a.mode())
	if !cfg.Stop.Evacuate {
		return nil
	}
	a.reloading.Lock() // nobody may switch while the lanes are switched here
	defer a.reloading.Unlock()
	end, _ := ctx.Deadline()
	span := time.Until(end)
	span -= min(cfg.Delivery.StopTimeout, span/4)
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()

	here, there := a.mode(), mode.Fallback
	if here == mode.Fallback {
		there = mode.Primary
	}
	both := a.hasFallback()
	first, done := ctx, cancel
	if both {
		first, done = context.WithTimeout(ctx, span/3)
	}
	a.empty(first, both)
	done()
	left := a.backlog().Events
	if left == 0 || !both {
		return nil
	}
	a.log.WithField("events", left).Warnf("the %s destination does not take everything in time: the rest goes to the %s destination", here, there)
	err := a.setRoutes(ctx, func(name sink.Lane) delivery.Route {
		route := a.currentSinks().route(name, there)
		route.Probe = nil
		return route
	})
	a.empty(ctx, false)
	return err
}

// empty flushes until the backlog is empty or ctx ends; with giveUp also when a
// flush got rid of nothing.
func (a *App) empty(ctx context.Context, giveUp bool) {
	for {
		before := a.backlog().Events
		if before == 0 {
			return
		}
		asked := a.Flush()
		for a.flushStatus().Completed < asked.Requested {
			if !wait(ctx, 20*time.Millisecond) {
				return
			}
		}
		if a.backlog().Events < before {
			continue
		}
		if giveUp || !wait(ctx, evacuationPause) {
			return
		}
	}
}

// wait waits, and says whether ctx is still on.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// errLeftBehind is the error of a stop that should have emptied the spool.
var errLeftBehind = errors.New("not every event has left this box")
