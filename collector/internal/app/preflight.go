package app

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/shared/healthapi"
)

// The fallback is proven while it is not needed: often enough that a broken
// permission is found on a quiet day, seldom enough that it costs nothing.
const (
	preflightEvery   = 10 * time.Minute
	preflightRetry   = time.Minute // after a check that failed
	preflightTimeout = 10 * time.Second
)

// preflight checks the fallback sinks from time to time and remembers the last
// verdict. A fallback that is in use is not checked: its writes say more.
type preflight struct {
	log   *logrus.Entry
	check func(ctx context.Context) error // nil when no fallback is configured
	inUse func() fallbackUse
	again chan struct{}

	mu     sync.Mutex // guards status
	status healthapi.Fallback
}

// fallbackUse is how the fallback fares where it is in use. Until its first write
// there the last check stands.
type fallbackUse struct{ used, failing, wrote bool }

func newPreflight(log *logrus.Entry, inUse func() fallbackUse) *preflight {
	return &preflight{log: log, inUse: inUse, again: make(chan struct{}, 1)}
}

// replace sets what is checked from now on, as after a reload, and checks it soon.
func (p *preflight) replace(check func(ctx context.Context) error) {
	p.mu.Lock()
	p.check = check
	p.status = healthapi.Fallback{Configured: check != nil, Valid: check != nil}
	p.mu.Unlock()
	select {
	case p.again <- struct{}{}:
	default:
	}
}

// run checks until ctx ends.
func (p *preflight) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-p.again:
		}
		timer.Reset(p.once(ctx))
	}
}

// once makes one check and returns when to make the next.
func (p *preflight) once(ctx context.Context) time.Duration {
	p.mu.Lock()
	check := p.check
	p.mu.Unlock()
	if check == nil {
		return preflightEvery
	}
	if p.inUse().used {
		return preflightRetry
	}
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	err := check(ctx)
	now := time.Now().UTC()

	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.status
	p.status.LastCheckAt, p.status.Ready, p.status.LastError = &now, err == nil, ""
	if err != nil {
		p.status.LastError = err.Error()
		if was.LastError != p.status.LastError {
			p.log.WithError(err).Warn("the fallback would not work if it were needed now")
		}
		return preflightRetry
	}
	if !was.Ready {
		p.log.Info("the fallback is ready: its check passed")
	}
	return preflightEvery
}

// report returns the last verdict; while the fallback is in use, how it fares.
func (p *preflight) report() healthapi.Fallback {
	p.mu.Lock()
	status := p.status
	p.mu.Unlock()
	switch use := p.inUse(); {
	case use.failing:
		status.Ready = false
	case use.wrote:
		status.Ready, status.LastError = true, ""
	}
	return status
}
