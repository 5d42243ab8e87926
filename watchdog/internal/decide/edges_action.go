package decide

import (
	"fmt"
	"slices"
	"strings"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
)

// The steps of an action. A step that was done leads to the next one of its
// plan; one that failed leads up the ladder.

var everyStep = []Phase{Phase(Claimed), Phase(Flush), Phase(ModeWritten), Phase(Switch), Phase(Verify)}

func at(steps ...Step) []Phase {
	phases := make([]Phase, len(steps))
	for i, s := range steps {
		phases[i] = Phase(s)
	}
	return phases
}

// done happens when the step was done and cond holds.
func done(name string, cond func(*turn, *Action) bool) Event {
	return Event{name, func(t *turn) bool {
		a := t.s.Action
		ok := a.Ghost || t.result != nil && (t.result.Outcome == StepOK || t.result.Outcome == StepSkipped)
		return ok && cond(t, a)
	}}
}

// failed happens when the step was tried in vain, or nobody tells how it went.
func failed(name string, cond func(*turn, *Action) bool) Event {
	return Event{name, func(t *turn) bool { return t.fell() && cond(t, t.s.Action) }}
}

func (t *turn) fell() bool {
	if r := t.result; r != nil {
		return r.Outcome == StepFailed
	}
	return t.late()
}

// late tells whether the time of the step is over. A collector that has come up
// as wanted is looked at to the end.
func (t *turn) late() bool {
	return t.result == nil && t.now > t.s.Action.DeadlineAt && t.s.Action.HeldCount == 0
}

func (t *turn) conflicted() bool { return t.result != nil && t.result.Outcome == StepConflict }

func always(*turn, *Action) bool { return true }

var conflicts = Event{"somebody else was faster", (*turn).conflicted}

func end(name string, e End, why func(*turn) string) Effect {
	return Effect{name, func(t *turn) { t.finish(e, why(t)) }}
}

var (
	cancel   = end("abort; the token is given back if nothing was touched", EndAborted, (*turn).whyCancelled)
	nextRung = Effect{"note the failure, take the next rung", func(t *turn) { t.failure(); t.s.Action.Rung = t.nextRung() }}
	rollBack = Effect{"note the failure, write the mode that worked", (*turn).beginRollBack}
)

var actionEdges = []Edge{
	{ID: "A1", Region: RegionAction, From: everyStep,
		On: Event{"somebody else decided", (*turn).overruled}, To: Idle, Effect: cancel,
		Text: "a person or the supervisor decided otherwise: the action ends where it is"},
	{ID: "A2", Region: RegionAction, From: at(Claimed, Flush),
		On: Event{"the reason is gone", (*turn).reasonGone}, To: Idle, Effect: cancel,
		Text: "it healed while the action was being prepared"},
	{ID: "A3", Region: RegionAction, From: at(Switch),
		On: Event{"the watchdog was restarted and the switch shows", (*turn).switchShows}, To: Phase(Verify),
		Text: "the watchdog died after the switch: it goes on with looking"},
	{ID: "A4", Region: RegionAction, From: at(Claimed, Flush, ModeWritten, Switch),
		On: Event{"the watchdog was restarted", func(t *turn) bool { return t.o.FirstOfRun && !t.s.Action.Ghost }}, To: Stay,
		Effect: Effect{"do the step again", (*turn).redo},
		Text:   "the watchdog died in this step: the step is done again, which does no harm"},

	{ID: "A5", Region: RegionAction, From: at(Claimed),
		On: Event{"the claim failed", func(t *turn) bool { return t.fell() || t.conflicted() }}, To: Idle, Effect: cancel,
		Text: "the act could not be claimed: nothing was touched"},
	{ID: "A6", Region: RegionAction, From: at(Claimed),
		On: done("claimed, and there is something to flush", (*turn).worthFlushing), To: Phase(Flush),
		Text: "what waits gets one more chance before the switch"},
	{ID: "A7", Region: RegionAction, From: at(Claimed),
		On: done("claimed, nothing to flush, the mode changes", func(_ *turn, a *Action) bool { return a.writes() }), To: Phase(ModeWritten),
		Text: "the mode file is written first: it is what the collector starts with"},
	{ID: "A8w", Region: RegionAction, From: at(Claimed, Flush),
		On: Event{"the mode stays, and there is no means", (*turn).nothingToSend}, To: Phase(Verify),
		Text: "nothing can be sent: whoever supervises the collector has to start it"},
	{ID: "A8", Region: RegionAction, From: at(Claimed),
		On: done("claimed, nothing to flush, the mode stays", always), To: Phase(Switch),
		Text: "a restart in the same mode writes nothing"},

	{ID: "A9", Region: RegionAction, From: at(Flush),
		On: Event{"flushed or not, and the mode changes", func(t *turn) bool { return t.flushOver() && t.s.Action.writes() }}, To: Phase(ModeWritten),
		Text: "what was not flushed is safe in the spool"},
	{ID: "A10", Region: RegionAction, From: at(Flush),
		On: Event{"flushed or not, and the mode stays", (*turn).flushOver}, To: Phase(Switch),
		Text: "what was not flushed is safe in the spool"},

	{ID: "A11", Region: RegionAction, From: at(ModeWritten),
		On: done("written, and that was all", func(_ *turn, a *Action) bool { return a.Kind == Repin }), To: Idle,
		Effect: Effect{"finish", func(t *turn) { t.noteWritten(); t.finish(EndVerified, "") }},
		Text:   "the pin of the mode file was written"},
	{ID: "A12w", Region: RegionAction, From: at(ModeWritten),
		On: done("written, and there is no means", func(t *turn, _ *Action) bool { return t.noRung() }), To: Phase(Verify),
		Effect: Effect{"remember the pin", (*turn).noteWritten},
		Text:   "nothing can be sent: whoever supervises the collector will start it in the mode of the file"},
	{ID: "A12", Region: RegionAction, From: at(ModeWritten),
		On: done("written", always), To: Phase(Switch),
		Effect: Effect{"remember the pin", (*turn).noteWritten},
		Text:   "the mode is decided on disk: now the collector is to follow"},
	{ID: "A13", Region: RegionAction, From: at(ModeWritten), On: conflicts, To: Idle, Effect: cancel,
		Text: "somebody else wrote the mode file: theirs stands"},
	{ID: "A14", Region: RegionAction, From: at(ModeWritten),
		On: failed("it cannot be written, but the collector can be asked", (*turn).canGoLive), To: Phase(Switch),
		Effect: Effect{"note the failure, switch live", func(t *turn) { t.failure(); t.s.Action.Rung = RungLive }},
		Text:   "the mode file cannot be written here: the collector may be able to"},
	{ID: "A15", Region: RegionAction, From: at(ModeWritten), On: failed("it cannot be written", always), To: Idle,
		Effect: end("fail", EndFailed, (*turn).whyFailed),
		Text:   "the mode file cannot be written"},

	{ID: "A16", Region: RegionAction, From: at(Switch), On: done("sent", always), To: Phase(Verify),
		Text: "the order was given: now it must be seen to have worked"},
	{ID: "A17", Region: RegionAction, From: at(Switch), On: conflicts, To: Idle, Effect: cancel,
		Text: "a person's job of the supervisor won"},
	{ID: "A18", Region: RegionAction, From: at(Switch, Verify), On: failed("in vain, and there is another rung", (*turn).hasRung), To: Phase(Switch), Effect: nextRung,
		Text: "one rung up the ladder, each once"},
	{ID: "A18w", Region: RegionAction, From: at(Switch), On: failed("in vain, and there is no process", (*turn).awaitsStart), To: Phase(Verify),
		Effect: Effect{"note the failure", (*turn).failure},
		Text:   "nothing more can be sent: whoever supervises the collector has to start it"},
	{ID: "A19", Region: RegionAction, From: at(Switch, Verify), On: failed("in vain, and the other mode is left", (*turn).canRollBack), To: Phase(ModeWritten), Effect: rollBack,
		Text: "back to the mode that worked"},
	{ID: "A20", Region: RegionAction, From: at(Switch, Verify), On: failed("in vain, and nothing is left", always), To: Idle,
		Effect: end("fail", EndFailed, (*turn).whyFailed),
		Text:   "the ladder is used up"},

	{ID: "A21", Region: RegionAction, From: at(Verify),
		On: Event{"the old mode is seen to work again", func(t *turn) bool { return t.verified() && t.s.Action.RolledBack }}, To: Idle,
		Effect: end("fail", EndFailed, (*turn).whyFailed),
		Text:   "rolled back: the collector works, the switch did not"},
	{ID: "A22", Region: RegionAction, From: at(Verify),
		On: Event{"seen to work for verify.hold", (*turn).verified}, To: Idle,
		Effect: end("finish", EndVerified, func(*turn) string { return "" }),
		Text:   "the collector runs as wanted"},
}

var beginEdges = []Edge{
	{ID: "A0", Region: RegionAction, From: []Phase{Idle},
		On: Event{"an edge of another region wants it", func(t *turn) bool { return t.want != nil }}, To: Phase(Claimed),
		Effect: Effect{"pay the token, remember the process as it is", (*turn).begin},
		Text:   "an action begins: it is on disk before anything is done"},
}

// overruled tells whether somebody else's decision ends the action. An order to
// switch waits until the step in progress is over. A pause ends what has not
// written the mode yet; half a switch is worse than a whole one.
func (t *turn) overruled() bool {
	a := t.s.Action
	switch {
	case t.changed != nil:
		return true
	case t.standing(Standby) || a.Ghost && !t.standing(DryRun):
		return true
	case t.s.Pending != nil:
		return t.result != nil || a.Ghost || a.Step == Verify || !a.reached(ModeWritten)
	case a.commanded() || a.reached(ModeWritten) || a.Kind == Repin:
		return false
	}
	return t.forbidden(Paused, HandedOver) != "" || a.Kind != RestartSame && t.forbidden(Pinned) != ""
}

func (t *turn) whyCancelled() string {
	a := t.s.Action
	if !a.reached(ModeWritten) || a.Step == ModeWritten && t.conflicted() {
		t.refund(a)
	}
	switch {
	case t.changed != nil:
		return fmt.Sprintf("%s %s ends, because %s changed the mode file: %s", a.Kind, a.ID, somebody(t.changed.By), t.changed.Reason)
	case t.s.Pending != nil:
		return fmt.Sprintf("%s %s ends, because %s ordered %s", a.Kind, a.ID, t.s.Pending.By, t.s.Pending.Mode)
	case a.Ghost && !t.standing(DryRun):
		return fmt.Sprintf("the imagined %s ends with the dry run", a.Kind)
	case t.forbidden(Standby, Paused, HandedOver, Pinned) != "":
		return fmt.Sprintf("%s %s ends: %s", a.Kind, a.ID, t.forbidden(Standby, Paused, HandedOver, Pinned))
	case t.result != nil && t.result.Outcome == StepFailed:
		return fmt.Sprintf("%s %s could not begin: %s", a.Kind, a.ID, t.result.Text)
	case t.result != nil && t.result.Outcome == StepConflict:
		return fmt.Sprintf("%s %s ends, because somebody else was faster: %s", a.Kind, a.ID, t.result.Text)
	}
	return fmt.Sprintf("%s %s ends, because its reason is gone", a.Kind, a.ID)
}

// reasonGone tells whether nothing asks for the action any more.
func (t *turn) reasonGone() bool {
	a := t.s.Action
	if a.commanded() {
		return false
	}
	switch a.Kind {
	case Divert:
		return a.Rule != "" && t.firing(SinkSick) == nil
	case Return:
		return a.Rule == "" && t.o.Report != nil && t.p.Scope != ScopeCluster && t.s.Probe.Evidence == 0
	case RestartSame:
		return t.o.Reach == ReachOK && !t.rule(ruleStalled).state.Fires
	case Reconcile:
		return t.o.Report != nil && mode.Mode(t.o.Report.Mode) == a.Target
	}
	return false
}

// switchShows tells, after a restart of the watchdog, that the switch it may
// have ordered before has happened.
func (t *turn) switchShows() bool {
	a, r := t.s.Action, t.o.Report
	return t.o.FirstOfRun && r != nil && r.BootID != a.BaseBootID && mode.Mode(r.Mode) == a.Target
}

func (t *turn) redo() {
	a := t.s.Action
	a.StepAt = t.now
	a.DeadlineAt = t.now.Add(a.Timeout + 2*t.p.Poll.Interval)
	t.goOn()
}

func (t *turn) worthFlushing(a *Action) bool {
	return a.Kind != Repin && t.p.Flush.Timeout > 0 && !t.silent()
}

func (t *turn) flushOver() bool { return t.s.Action.Ghost || t.result != nil || t.late() }

// noteWritten keeps the pin as it was written to the mode file, and which start
// of the collector was the last one that could not know of it.
func (t *turn) noteWritten() {
	t.s.Action.BaseInvocation = t.o.Supervisor.InvocationID
	if a := t.s.Action; !a.Ghost && !a.RolledBack {
		t.filePin(a.Pinned, a.By, a.Reason, a.Target, a.Until)
	}
}

func (t *turn) canGoLive(a *Action) bool {
	if a.Kind == Repin || a.RolledBack || t.o.Reach != ReachOK {
		return false
	}
	return slices.Contains(t.p.Restart.Ladder, RungLive)
}

func (t *turn) hasRung(a *Action) bool { return !a.RolledBack && t.nextRung() != "" }

// nothingToSend tells whether an action that writes nothing is due to switch and
// has no means.
func (t *turn) nothingToSend() bool {
	a := t.s.Action
	if a.writes() || !t.noRung() {
		return false
	}
	if a.Step == Flush {
		return t.flushOver()
	}
	return done("", always).happens(t)
}

// awaitsStart tells whether all that is left is to wait for whoever supervises
// the collector. What is known to fail is not waited for.
func (t *turn) awaitsStart(a *Action) bool {
	return t.supervised() && !(a.Ran && t.canRollBack(a))
}

// canRollBack tells whether the mode file leads to a mode that does not work and
// can lead back. An order of a person is not undone on a guess: only when what
// was ordered has run and failed.
func (t *turn) canRollBack(a *Action) bool {
	return slices.Contains(t.p.Restart.Ladder, RungRollBack) && !a.RolledBack &&
		a.writes() && a.From != a.Target && t.s.Mode.File == a.Target && (!a.commanded() || a.Ran) && !t.o.Process.Dying
}

// failure notes why the step did not work.
func (t *turn) failure() {
	a := t.s.Action
	a.Failures = append(a.Failures, t.wentWrong(a))
}

// beginRollBack turns the action round: it now leads to the mode that worked.
func (t *turn) beginRollBack() {
	t.failure()
	a := t.s.Action
	order := ""
	if a.commanded() {
		order = " as " + a.By + " ordered"
	}
	a.Reason = fmt.Sprintf("rolled back, because the collector could not be made to run %s%s (%s)", a.Target, order, strings.Join(a.Failures, "; "))
	a.RolledBack, a.Rung, a.Target, a.BaseRev, a.Pinned = true, RungRollBack, a.From, t.s.Mode.Rev, false
	a.By, a.Until = "", 0 // it is our decision, not the person's
}

func (t *turn) whyFailed() string {
	a := t.s.Action
	if a.RolledBack && t.verified() {
		return fmt.Sprintf("%s %s failed (%s); rolled back to %s, which works", a.Kind, a.ID, strings.Join(a.Failures, "; "), a.Target)
	}
	t.failure()
	text := fmt.Sprintf("%s %s failed and nothing is left to try (%s)", a.Kind, a.ID, strings.Join(a.Failures, "; "))
	if a.commanded() && a.writes() && t.s.Mode.File == a.Target {
		text += fmt.Sprintf("; not rolled back, because %s ordered it: the mode file stays at %s", a.By, a.Target)
	}
	return text
}

func (t *turn) wentWrong(a *Action) string {
	what := string(a.Step)
	if a.Rung != "" {
		what = string(a.Rung)
	}
	if t.result != nil && t.result.Text != "" {
		return what + ": " + t.result.Text
	}
	if a.Step == Verify {
		what += ": the collector was not seen running " + string(a.Target)
		if t.o.Process.Dying {
			what += ", " + dying
		}
		return what
	}
	return fmt.Sprintf("%s: nobody told how it went within %s", what, length(a.Timeout))
}

func (t *turn) verified() bool {
	a := t.s.Action
	return a.Ghost || a.HeldCount >= 2 && t.since(a.HeldFrom) >= t.p.Verify.Hold
}

// asWanted tells whether the collector runs as the action wants it.
func (t *turn) asWanted(a *Action) bool {
	r := t.o.Report
	if t.o.Reach != ReachOK || r == nil || r.State == healthapi.StateStarting || r.State == healthapi.StateStopping {
		return false
	}
	if a.Kind == RestartSame && r.BootID == a.BaseBootID {
		return false
	}
	return mode.Mode(r.Mode) == a.Target
}
