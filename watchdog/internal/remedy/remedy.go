// Package remedy carries out what was decided: it asks the collector to flush,
// and makes it run another config or start anew.
//
// A Restarter knows one way to do that: by the supervisor (systemd), by a signal
// after which a supervisor starts the process again (signal), by a command of
// the operator's own (command), or by switching the sink inside the living
// process (live). What works everywhere, ending a proven process, stands here.
//
// No remedy decides whether it helped. That is seen in the next health reports.
package remedy

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"spillway/shared/mode"
	"spillway/watchdog/internal/process"
)

// Order is what a Restarter is asked to bring about. The mode already stands in
// the mode file when the order is given.
type Order struct {
	ActionID string
	Mode     mode.Mode        // the mode the collector shall run
	Fresh    bool             // a new process is wanted, as the old one is sick
	By       string           // who decided, for the collector's log
	Reason   string           // why, in one sentence
	Process  process.Identity // the process of the last report; zero when there was none
}

// Restarter is one way to make the collector run what the mode file says. Its
// methods return by the end of ctx. An error of ErrNotApplicable says that this
// way cannot help here and another should be tried. A nil error says that the
// order was taken; whether it worked is for the next observations to tell. The
// text returned is what the journal keeps: what was done, or what a command
// printed.
type Restarter interface {
	// Name is the word for it in the config.
	Name() string
	// Switch makes a running collector run the mode of the order.
	Switch(ctx context.Context, o Order) (string, error)
	// Start makes a collector run where none does.
	Start(ctx context.Context, o Order) (string, error)
	// Check tells, without any effect, whether Switch would be permitted. p is
	// the running collector, zero when there is none.
	Check(ctx context.Context, p process.Identity) error
}

var (
	// ErrNotApplicable says that a remedy cannot be used in this case.
	ErrNotApplicable = errors.New("cannot be used here")
	// ErrCanceled says that a person stopped the unit while it was being restarted.
	ErrCanceled = errors.New("a person's own order to the supervisor won")
)

// Signals is a way to send a signal to a proven process.
type Signals interface {
	Send(ctx context.Context, p *process.Handle, sig unix.Signal) error
}

// Direct sends signals itself, which takes the collector's user or CAP_KILL.
type Direct struct{}

// Send sends sig.
func (Direct) Send(_ context.Context, p *process.Handle, sig unix.Signal) error { return p.Signal(sig) }

// NotApplicable is an ErrNotApplicable that says why.
func NotApplicable(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrNotApplicable)
}

// Terminate sends SIGTERM to the proven process and returns when it has ended,
// or with an error at the end of ctx. A stopped process keeps SIGTERM pending,
// so SIGCONT follows. A process that cannot be proven is not touched.
func Terminate(ctx context.Context, via Signals, id process.Identity) (string, error) {
	return end(ctx, via, id, unix.SIGTERM, unix.SIGCONT)
}

// Kill sends SIGKILL to the proven process and returns when it has ended. The
// spool on disk keeps every event that was answered.
func Kill(ctx context.Context, via Signals, id process.Identity) (string, error) {
	return end(ctx, via, id, unix.SIGKILL)
}

func end(ctx context.Context, via Signals, id process.Identity, signals ...unix.Signal) (string, error) {
	p, err := process.Open(id)
	if errors.Is(err, process.ErrGone) || errors.Is(err, process.ErrReused) {
		return fmt.Sprintf("process %d had ended already", id.PID), nil
	}
	if err != nil {
		return "", NotApplicable("process %d was not signalled: %v", id.PID, err)
	}
	defer func() { _ = p.Close() }()
	for _, sig := range signals {
		if err := via.Send(ctx, p, sig); err != nil && !errors.Is(err, process.ErrGone) {
			return "", err
		}
	}
	if err := p.Wait(ctx); err != nil {
		return "", fmt.Errorf("%s was sent but %w", unix.SignalName(signals[0]), err)
	}
	return fmt.Sprintf("process %d ended after %s", id.PID, unix.SignalName(signals[0])), nil
}
