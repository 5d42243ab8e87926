package decide

import (
	"fmt"
	"slices"

	"spillway/shared/mode"
)

// propose asks for an action. It begins at the end of the turn, if none is in
// progress; the edge that proposes has asked its guards before.
func (t *turn) propose(a Action) {
	a.From = t.s.Mode.File
	a.Ghost = a.By == "" && t.standing(DryRun) && a.Kind != Repin
	a.Token = a.By == "" && a.Kind != Repin
	t.want = &a
}

// because proposes an act that a rule asks for.
func (t *turn) because(kind Kind, target mode.Mode, r *ruleResult, what string) {
	a := Action{
		Kind: kind, Target: target, Rule: r.def.name, Reason: t.sentence(r) + ": " + what,
		Value: r.sample.unit.text(r.state.Number), Threshold: "for " + length(r.span),
	}
	if r.sample.limit > 0 {
		a.Threshold = r.sample.unit.text(r.sample.limit) + " " + a.Threshold
	}
	t.propose(a)
}

// begin makes the proposed action the one in progress. The token is paid here,
// in the state that is saved before anything is done.
func (t *turn) begin() {
	a := t.want
	t.s.LastID++
	a.ID = fmt.Sprintf("%s-%d", t.s.Clock.Wall.Format("20060102T150405"), t.s.LastID)
	a.StartedAt, a.BaseRev = t.now, t.s.Mode.Rev
	if t.o.ModeFile.Err != "" {
		a.BaseRev = 0 // a file that cannot be understood counts as revision 0
	}
	a.BaseBootID, a.BaseInvocation = t.s.Seen.BootID, t.o.Supervisor.InvocationID
	t.s.Action = a
	if a.Token {
		t.spend()
	}
	if a.Ghost {
		t.s.Mode.Ghost = true
		t.decision.Would = a.clone()
		t.note("dry_run", Info, "dry run, so nothing is done: %s", a.Reason)
		return
	}
	t.decision.Verb, t.decision.Reason = Start, a.Reason
}

// enterStep puts the action in progress at a step, or ends it at Idle.
func (t *turn) enterStep(s Step) {
	a := t.s.Action
	if s == Step(Idle) {
		t.s.Action = nil
		return
	}
	a.Step, a.StepAt = s, t.now
	a.HeldFrom, a.HeldCount = 0, 0
	switch s {
	case Flush:
		a.Timeout = t.p.Flush.Timeout
	case Switch:
		if a.Rung == "" {
			a.Rung = t.nextRung() // there is one, or the edge would not have led here
		}
		a.Tried = append(a.Tried, a.Rung)
		a.Timeout = t.p.Restart.Timeout
		if a.Rung == RungTerm {
			a.Timeout = t.p.Restart.StopTimeout
		}
	case Verify:
		a.Timeout = t.p.Restart.Timeout + t.p.Verify.Hold
	default:
		a.Timeout = t.p.Restart.Timeout
	}
	// The executor gets the whole timeout and its word a poll or two to arrive.
	a.DeadlineAt = t.now.Add(a.Timeout + 2*t.p.Poll.Interval)
	t.goOn()
}

// goOn has the present step done.
func (t *turn) goOn() {
	if a := t.s.Action; !a.Ghost && t.decision.Verb == None {
		t.decision.Verb = Continue
		t.decision.Reason = fmt.Sprintf("%s %s goes on with %s", a.Kind, a.ID, a.Step)
		if a.Step == Switch {
			t.decision.Reason += " by " + string(a.Rung)
		}
	}
}

// finish records how the action in progress ends.
func (t *turn) finish(end End, why string) {
	a := t.s.Action.clone()
	t.ended, t.end = a, end
	past := Past{ID: a.ID, Kind: a.Kind, End: end, At: t.now, Command: a.Command, Text: why}
	if end == EndFailed {
		past.Failed = 1
		if t.s.Last != nil {
			past.Failed += t.s.Last.Failed
		}
	}
	t.s.Last = &past
	t.decision.Reason = why
	if a.Ghost {
		return
	}
	switch end {
	case EndVerified:
		a.Step = Done
		t.decision.Verb = Continue
		t.decision.Reason = fmt.Sprintf("%s %s is done and was seen to work", a.Kind, a.ID)
	default:
		t.decision.Verb = Abort
	}
}

// reached tells whether the action has come as far as step s.
func (a *Action) reached(s Step) bool {
	order := []Step{Claimed, Flush, ModeWritten, Switch, Verify, Done}
	return slices.Index(order, a.Step) >= slices.Index(order, s)
}

// commanded tells whether a person ordered the action.
func (a *Action) commanded() bool { return a.By != "" }

// writes tells whether the action changes the mode file.
func (a *Action) writes() bool { return a.Kind == Divert || a.Kind == Return || a.Kind == Repin }

// gone tells whether there is no process to talk to.
func (t *turn) gone() bool {
	p := t.o.Process
	if p.Dying {
		return false // whatever its supervisor says
	}
	return p.Known && (!p.Alive || !p.SameStart) || t.o.Supervisor.State == SupervisorFailed
}

// nextRung is the next means of the ladder that was not tried and can apply;
// empty when none is left. Rolling back is no means to the same end, see
// [turn.canRollBack].
func (t *turn) nextRung() Rung {
	a := t.s.Action
	if t.o.Process.Dying {
		return "" // it is killed already, and nothing can be started beside it
	}
	for _, r := range t.p.Restart.Ladder {
		if r == RungRollBack || slices.Contains(a.Tried, r) {
			continue
		}
		if r != RungLive && a.writes() && !a.Ghost && t.s.Mode.File != a.Target {
			continue // a collector that is ended now would come back in the mode it has
		}
		switch r {
		case RungLive:
			if a.Kind == RestartSame || t.o.Reach != ReachOK {
				continue // a process that does not answer cannot be asked
			}
		case RungRestart, RungTerm, RungKill:
			if t.gone() {
				continue
			}
		case RungStart:
			if t.o.Reach == ReachOK {
				continue
			}
		}
		return r
	}
	return ""
}

// noRung tells whether the action has no means but to wait for whoever
// supervises the collector.
func (t *turn) noRung() bool { return t.s.Action.Rung == "" && t.nextRung() == "" }

// supervised tells whether a collector that does not answer may yet be started by
// somebody else: no process of it is known to live on.
func (t *turn) supervised() bool {
	return t.silent() && (t.gone() || !t.o.Process.Known || t.o.Process.Dying)
}

// dying is what there is to say about a process that is killed and not gone.
const dying = "its process is killed but does not end: a thread of it hangs in the kernel, most likely on a disk, " +
	"and holds the spool, so nothing can be started beside it"

// watchVerify counts for how long the collector is seen as the action wants it,
// and keeps whether it was at all.
func (t *turn) watchVerify() {
	a := t.s.Action
	if a == nil || a.Step != Switch && a.Step != Verify {
		return
	}
	a.Ran = a.Ran || t.ran(a)
	if a.Step != Verify {
		return
	}
	if !t.asWanted(a) {
		a.HeldFrom, a.HeldCount = 0, 0
		return
	}
	if a.HeldCount == 0 {
		a.HeldFrom = t.now
	}
	a.HeldCount = min(a.HeldCount+1, 1000)
}

// ran tells whether the wanted mode is seen to run, however badly, or its
// supervisor saw it fail to start.
func (t *turn) ran(a *Action) bool {
	if r := t.o.Report; r != nil {
		return mode.Mode(r.Mode) == a.Target
	}
	s := t.o.Supervisor
	another := a.BaseInvocation != "" && s.InvocationID != "" && s.InvocationID != a.BaseInvocation
	return another && (s.State == SupervisorFailed || s.State == SupervisorAutoRestart)
}
