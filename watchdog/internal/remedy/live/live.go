// Package live switches the sink inside the running collector, by POST /mode on
// its admin listener: no restart, no gap. It cannot cure a sick process.
package live

import (
	"context"
	"fmt"

	"spillway/shared/mode"
	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
)

// Switcher is the part of the admin listener that changes the mode.
type Switcher interface {
	SwitchMode(ctx context.Context, to mode.Mode, by, reason string) (mode.File, error)
}

// Restarter switches in place.
type Restarter struct{ admin Switcher }

var _ remedy.Restarter = (*Restarter)(nil)

// New returns a Restarter that asks on admin.
func New(admin Switcher) *Restarter { return &Restarter{admin: admin} }

// Name returns "live".
func (*Restarter) Name() string { return "live" }

// Switch asks the collector to change its sink and returns when it has.
func (r *Restarter) Switch(ctx context.Context, o remedy.Order) (string, error) {
	if o.Fresh {
		return "", remedy.NotApplicable("a live switch does not cure a sick process")
	}
	file, err := r.admin.SwitchMode(ctx, o.Mode, o.By, o.Reason)
	if err != nil {
		return "", err
	}
	if file.Mode != o.Mode {
		return "", fmt.Errorf("the collector was asked for mode %s and switched to %s", o.Mode, file.Mode)
	}
	return fmt.Sprintf("the collector switched to %s without a restart", file.Mode), nil
}

// Start is impossible: there is nobody to ask.
func (*Restarter) Start(context.Context, remedy.Order) (string, error) {
	return "", remedy.NotApplicable("a live switch starts nothing")
}

// Check asks for nothing: a request without effect does not exist, and whether
// the listener answers is seen at every poll.
func (*Restarter) Check(context.Context, process.Identity) error { return nil }
