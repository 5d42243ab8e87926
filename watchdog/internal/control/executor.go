package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
)

// Executor does the steps of an action, each of which can be done again without
// harm. It is safe for concurrent use.
type Executor struct {
	Admin     remedy.Admin
	Restarter remedy.Restarter // the ordinary way to restart
	Live      remedy.Restarter // the way without a restart
	Signals   remedy.Signals
	ModePath  string
	Name      string        // how the mode file names this watchdog
	Patience  time.Duration // how long a question may take that the step can do without
}

// Do does the step that a is at and tells how it went. It returns by the end of
// ctx, which carries the step's deadline. known is the collector's process as last
// seen, zero when it never was.
func (e *Executor) Do(ctx context.Context, a decide.Action, known process.Identity) decide.Result {
	outcome, text, file := e.do(ctx, a, known)
	return decide.Result{ActionID: a.ID, Step: a.Step, Rung: a.Rung, Outcome: outcome, Text: text, File: file}
}

func (e *Executor) do(ctx context.Context, a decide.Action, known process.Identity) (decide.Outcome, string, mode.File) {
	switch a.Step {
	case decide.Flush:
		flushed, err := remedy.Flush(ctx, e.Admin, e.Signals)
		if err != nil {
			return decide.StepSkipped, "no flush: " + err.Error(), mode.File{}
		}
		return decide.StepOK, flushed.String(), mode.File{}
	case decide.ModeWritten:
		return e.writeMode(a)
	case decide.Switch:
		return e.switchOver(ctx, a, known)
	case decide.Claimed, decide.Verify, decide.Done:
		// The token is paid in the state that is saved already, and whether it
		// worked is seen in the reports: there is nothing to do.
		return decide.StepOK, "", mode.File{}
	}
	return decide.StepFailed, fmt.Sprintf("%q is no step this watchdog knows", a.Step), mode.File{}
}

// writeMode makes the mode file say what the action wants, provided it still is
// the file that was read when the action was decided.
func (e *Executor) writeMode(a decide.Action) (decide.Outcome, string, mode.File) {
	by := e.by(a)
	written, err := mode.Swap(e.ModePath, a.BaseRev, mode.File{Mode: a.Target, By: by, Reason: a.Reason, Pinned: a.Pinned})
	switch {
	case err == nil:
		return decide.StepOK, fmt.Sprintf("the mode file says %s (rev %d)", written.Mode, written.Rev), written
	case !errors.Is(err, mode.ErrConflict):
		return decide.StepFailed, err.Error(), mode.File{}
	}
	// Our own write of before a crash is no conflict.
	current, readErr := mode.Read(e.ModePath)
	if readErr == nil && current.Rev == a.BaseRev+1 && current.By == by && current.Mode == a.Target && current.Pinned == a.Pinned {
		return decide.StepOK, fmt.Sprintf("the mode file says %s already (rev %d)", current.Mode, current.Rev), current
	}
	return decide.StepConflict, err.Error(), current
}

func (e *Executor) by(a decide.Action) string {
	if a.By != "" {
		return a.By
	}
	return e.Name
}

// switchOver makes the collector run what the mode file says, by the rung that
// was chosen. When the collector is another process already than the one the
// action began with, somebody has restarted it and nothing is sent.
func (e *Executor) switchOver(ctx context.Context, a decide.Action, known process.Identity) (decide.Outcome, string, mode.File) {
	// A hung collector must not use up the time of its own restart.
	brief, cancel := context.WithTimeout(ctx, e.Patience)
	defer cancel()
	if now, err := e.Admin.Report(brief); err == nil {
		runs := now.Mode == string(a.Target)
		if runs && a.BaseBootID != "" && now.BootID != a.BaseBootID {
			return decide.StepOK, fmt.Sprintf("the collector was restarted already and runs %s", now.Mode), mode.File{}
		}
		if runs && a.Rung == decide.RungRollBack {
			return decide.StepOK, fmt.Sprintf("the collector runs %s, there is nothing to roll back in it", now.Mode), mode.File{}
		}
		known = remedy.ProcessOf(now)
	}
	order := remedy.Order{
		ActionID: a.ID, Mode: a.Target, Fresh: a.Kind == decide.RestartSame, By: e.by(a), Reason: a.Reason, Process: known,
	}
	text, err := e.climb(ctx, a.Rung, order)
	switch {
	case err == nil:
		return decide.StepOK, text, mode.File{}
	case errors.Is(err, remedy.ErrCanceled):
		return decide.StepConflict, err.Error(), mode.File{}
	case errors.Is(err, remedy.ErrNotApplicable) && (a.Rung == decide.RungStart || a.Rung == decide.RungRollBack):
		// These come when nothing runs: whoever supervises the collector will
		// start it in the mode of the file, so it is waited for.
		return decide.StepSkipped, "nothing was started: " + err.Error(), mode.File{}
	}
	if text != "" {
		return decide.StepFailed, err.Error() + "; it said: " + text, mode.File{}
	}
	return decide.StepFailed, err.Error(), mode.File{}
}

func (e *Executor) climb(ctx context.Context, rung decide.Rung, o remedy.Order) (string, error) {
	switch rung {
	case decide.RungLive:
		return e.Live.Switch(ctx, o)
	case decide.RungRestart:
		return e.Restarter.Switch(ctx, o)
	case decide.RungTerm:
		return remedy.Terminate(ctx, e.Signals, o.Process)
	case decide.RungKill:
		return remedy.Kill(ctx, e.Signals, o.Process)
	case decide.RungStart:
		return e.start(ctx, o)
	case decide.RungRollBack:
		return e.rollBack(ctx, o)
	}
	return "", remedy.NotApplicable("%q is no means this watchdog knows", rung)
}

// rollBack restarts once in the mode that worked, which the mode file names
// again. A collector that could not start is not running: then it is started.
func (e *Executor) rollBack(ctx context.Context, o remedy.Order) (string, error) {
	o.Fresh = true
	text, err := e.Restarter.Switch(ctx, o)
	if !errors.Is(err, remedy.ErrNotApplicable) {
		return text, err
	}
	return e.start(ctx, o)
}

// start starts a collector, unless the one before still dies: it holds the spool.
func (e *Executor) start(ctx context.Context, o remedy.Order) (string, error) {
	if stat, err := o.Process.Check(); err == nil && stat.Dying {
		return "", fmt.Errorf("nothing is started while process %d is dying: a thread of it hangs in the kernel", o.Process.PID)
	}
	return e.Restarter.Start(ctx, o)
}
