// Package systemd restarts the collector's unit through systemd's D-Bus
// interface, and tells what systemd knows about it.
//
// A person's own order to systemd always wins: jobs are queued in mode "fail",
// which is refused when another job of the unit is queued, and a unit that is
// not running is never restarted, as somebody may just have stopped it.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spillway/shared/configfile"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
)

// Config says which unit is the collector.
type Config struct {
	// Unit is the collector's service. Default spillway-collector.service.
	Unit string `yaml:"unit"`
}

// DefaultConfig is the unit that comes with the collector.
func DefaultConfig() Config { return Config{Unit: "spillway-collector.service"} }

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	if !strings.HasSuffix(c.Unit, ".service") || strings.ContainsAny(c.Unit, "/ \n") {
		return configfile.Invalid("unit", "%q is not the name of a service: want one like spillway-collector.service", c.Unit)
	}
	return nil
}

// Bus is what is used of systemd. TryRestart and Start queue a job in mode
// "fail" and return its result when it has ended. All return by the end of ctx.
type Bus interface {
	TryRestart(ctx context.Context, unit string) (result string, err error)
	Start(ctx context.Context, unit string) (result string, err error)
	ResetFailed(ctx context.Context, unit string) error
	Kill(ctx context.Context, unit string, sig unix.Signal) error // its main process only
	Unit(ctx context.Context, unit string) (Unit, error)
}

// Unit is what systemd knows about a service.
type Unit struct {
	LoadState    string
	ActiveState  string
	SubState     string
	Result       string
	InvocationID string
	MainPID      int
	Queued       bool // a job of the unit waits or runs

	Restart            string // always, on-failure, no, ...
	RestartPrevented   bool   // by RestartPreventExitStatus, for the way the last process ended
	Watchdog           time.Duration
	TimeoutAbort       time.Duration
	TimeoutStop        time.Duration
	TimeoutStart       time.Duration
	StartLimitBurst    int
	StartLimitInterval time.Duration
}

// ErrBusy is returned by a Bus when another job of the unit is queued.
var ErrBusy = errors.New("another job of the unit is queued")

// Restarter restarts one unit. It is safe for concurrent use if its Bus is.
type Restarter struct {
	unit string
	bus  Bus
}

var (
	_ remedy.Restarter = (*Restarter)(nil)
	_ remedy.Signals   = (*Restarter)(nil)
)

// New returns a Restarter for the unit of cfg.
func New(cfg Config, bus Bus) *Restarter { return &Restarter{unit: cfg.Unit, bus: bus} }

// Name returns "systemd".
func (*Restarter) Name() string { return "systemd" }

// Switch restarts the unit if it is running and returns when systemd says that
// this is done.
func (r *Restarter) Switch(ctx context.Context, _ remedy.Order) (string, error) {
	u, err := r.bus.Unit(ctx, r.unit)
	if err != nil {
		return "", err
	}
	if u.ActiveState == "inactive" || u.ActiveState == "failed" {
		return "", remedy.NotApplicable("%s is %s (%s), so there is nothing to restart", r.unit, u.ActiveState, u.Result)
	}
	result, err := r.bus.TryRestart(ctx, r.unit)
	return r.outcome(ctx, "restart", result, err)
}

// Start starts the unit, after making systemd forget its failures.
func (r *Restarter) Start(ctx context.Context, _ remedy.Order) (string, error) {
	u, err := r.bus.Unit(ctx, r.unit)
	if err != nil {
		return "", err
	}
	if u.ActiveState == "failed" || u.Result == decide.ResultStartLimit {
		if err := r.bus.ResetFailed(ctx, r.unit); err != nil {
			return "", err
		}
	}
	result, err := r.bus.Start(ctx, r.unit)
	return r.outcome(ctx, "start", result, err)
}

func (r *Restarter) outcome(ctx context.Context, verb, result string, err error) (string, error) {
	if errors.Is(err, ErrBusy) {
		return "", fmt.Errorf("%s %s: %w: %w", verb, r.unit, err, remedy.ErrCanceled)
	}
	if err != nil {
		return "", err
	}
	switch result {
	case "done":
		return fmt.Sprintf("systemd: %s of %s is done", verb, r.unit), nil
	case "canceled":
		return "", fmt.Errorf("%s %s: the job was canceled: %w", verb, r.unit, remedy.ErrCanceled)
	case "skipped":
		return "", remedy.NotApplicable("systemd skipped the %s of %s, it was not running", verb, r.unit)
	}
	text := fmt.Sprintf("%s %s: the job ended as %q", verb, r.unit, result)
	if u, err := r.bus.Unit(ctx, r.unit); err == nil {
		text += fmt.Sprintf(", the unit is %s (%s), result %s", u.ActiveState, u.SubState, u.Result)
	}
	return "", errors.New(text)
}

// Check tells whether systemd answers and knows the unit. Whether it permits a
// restart is only told by restarting.
func (r *Restarter) Check(ctx context.Context, _ process.Identity) error {
	u, err := r.bus.Unit(ctx, r.unit)
	if err != nil {
		return err
	}
	if u.LoadState != "loaded" {
		return fmt.Errorf("systemd knows no unit %s (it is %s)", r.unit, u.LoadState)
	}
	return nil
}

// Surroundings tells the unit's own timing, which the policy has to fit, and
// what of the unit itself would defeat the watchdog; empty when nothing does.
func (r *Restarter) Surroundings(ctx context.Context) (decide.Surroundings, string, error) {
	u, err := r.bus.Unit(ctx, r.unit)
	if err != nil {
		return decide.Surroundings{}, "", err
	}
	trouble := ""
	if u.Restart != "always" {
		trouble = fmt.Sprintf("%s has Restart=%s: after SIGTERM it exits cleanly and would stay down, set Restart=always", r.unit, u.Restart)
	}
	return decide.Surroundings{
		WatchdogSec: u.Watchdog, TimeoutAbort: u.TimeoutAbort, TimeoutStop: u.TimeoutStop, TimeoutStart: u.TimeoutStart,
		StartLimitBurst: u.StartLimitBurst, StartLimitInterval: u.StartLimitInterval,
	}, trouble, nil
}

// Send sends sig to the unit's main process, through systemd, which needs no
// right to signal it. The proven process must be that main process.
func (r *Restarter) Send(ctx context.Context, p *process.Handle, sig unix.Signal) error {
	u, err := r.bus.Unit(ctx, r.unit)
	if err != nil {
		return err
	}
	if u.MainPID != p.Identity().PID {
		return fmt.Errorf("the main process of %s is %d, not %d which was proven", r.unit, u.MainPID, p.Identity().PID)
	}
	return r.bus.Kill(ctx, r.unit, sig)
}

// Look tells what systemd says about the unit.
func (r *Restarter) Look(ctx context.Context) (decide.Supervisor, error) {
	u, err := r.bus.Unit(ctx, r.unit)
	if err != nil {
		return decide.Supervisor{}, err
	}
	return decide.Supervisor{State: stateOf(u), Result: u.Result, InvocationID: u.InvocationID, MainPID: u.MainPID}, nil
}

func stateOf(u Unit) decide.SupervisorState {
	switch u.ActiveState {
	case "active", "reloading", "refreshing":
		return decide.SupervisorActive
	case "activating":
		if strings.HasPrefix(u.SubState, "auto-restart") {
			return decide.SupervisorAutoRestart
		}
		return decide.SupervisorActivating
	case "deactivating":
		return decide.SupervisorDeactivating
	case "failed", "inactive":
		switch {
		case u.Queued: // between the stop and the start of a restart
			return decide.SupervisorActivating
		case stoppedByPerson(u):
			return decide.SupervisorStopped
		}
		return decide.SupervisorFailed
	}
	return decide.SupervisorUnknown
}

// stoppedByPerson tells whether a unit that does not run was stopped by an order.
// What else ends a unit with Restart=always is restarted, but for the start limit
// and the exit codes that prevent it. The result does not tell: a stop that took too
// long, or in which the process failed, leaves a failed unit.
func stoppedByPerson(u Unit) bool {
	switch {
	case u.LoadState != "loaded":
		return false
	case u.ActiveState == "inactive" && u.Result == "success":
		return true
	}
	return u.Restart == "always" && !u.RestartPrevented && u.Result != decide.ResultStartLimit
}
