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
			a.Rung = t.nextRung()
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
	past := Past{ID: a.ID, Kind: a.Kind, End: end, At: t.now}
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
	return p.Known && (!p.Alive || !p.SameStart) || t.o.Supervisor.State == SupervisorFailed
}

// nextRung is the next means of the ladder that was not tried and can apply;
// empty when none is left.
func (t *turn) nextRung() Rung {
	a := t.s.Action
	for _, r := range t.p.Restart.Ladder {
		if slices.Contains(a.Tried, r) {
			continue
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
		case RungRollBack:
			if a.From == a.Target || a.Kind == RestartSame || a.Kind == Reconcile {
				continue // there is no other mode to go back to
			}
		}
		return r
	}
	return ""
}

// watchVerify counts for how long the collector is seen as the action wants it.
func (t *turn) watchVerify() {
	a := t.s.Action
	if a == nil || a.Step != Verify {
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
