// Package signal restarts the collector by ending it: SIGTERM to the proven
// process, after which whoever supervises it (kubelet, Docker, Restart=always)
// starts it again, with the mode the mode file names.
package signal

import (
	"context"

	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
)

// Restarter ends the process for its supervisor to start it again.
type Restarter struct{}

var _ remedy.Restarter = Restarter{}

// Name returns "signal".
func (Restarter) Name() string { return "signal" }

// Switch sends SIGTERM and returns when the process has ended.
func (Restarter) Switch(ctx context.Context, o remedy.Order) (string, error) {
	return remedy.Terminate(ctx, remedy.Direct{}, o.Process)
}

// Start is not in the power of a signal.
func (Restarter) Start(context.Context, remedy.Order) (string, error) {
	return "", remedy.NotApplicable("a signal starts nothing, the collector's supervisor has to")
}

// Check tells whether the process may be signalled.
func (Restarter) Check(_ context.Context, id process.Identity) error {
	p, err := process.Open(id)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	return p.MaySignal()
}
