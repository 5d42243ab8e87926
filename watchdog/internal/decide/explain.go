package decide

import (
	"fmt"
	"strings"
	"time"
)

// conclude completes the decision and says why it is what it is.
func (t *turn) conclude() {
	switch t.decision.Verb {
	case Start, Continue:
		if a := t.s.Action; a != nil {
			t.decision.Action = a.clone()
		} else {
			t.decision.Action = t.ended
		}
	case Abort:
		t.decision.Action = t.ended
	}
	t.seeAgreement()
	t.explain.Rules = make([]RuleView, 0, len(t.rules))
	for i := range t.rules {
		t.explain.Rules = append(t.explain.Rules, t.view(&t.rules[i]))
	}
	t.explain.Next = t.next()
	t.explain.Summary = t.summary()
}

// seeAgreement notes that this box is where the cluster wants it, without
// having had to move.
func (t *turn) seeAgreement() {
	if p := t.s.Mode.Phase; t.p.Scope == ScopeCluster && t.s.Action == nil && p != Diverting && p != Returning {
		t.applyEpoch(modeOf(p))
	}
}

func (t *turn) view(r *ruleResult) RuleView {
	v := RuleView{
		Name: r.def.name, Class: r.def.class, Status: r.status,
		Number: r.state.Number, Limit: r.sample.limit,
		Evidence: min(r.state.Evidence, r.span), For: r.span, Samples: r.state.Samples,
	}
	if r.status == Off {
		v.Text = "switched off"
		return v
	}
	v.Text = "well"
	if r.state.Evidence > 0 {
		v.Text = r.badFor()
	}
	if r.sample.known {
		v.Value = r.sample.unit.text(r.state.Number)
		if r.sample.unit != unitFlag && r.sample.limit > 0 {
			v.Threshold = r.sample.unit.text(r.sample.limit)
		}
		if r.sample.number == endless {
			v.Value = "not filling"
		}
	}
	switch {
	case !r.sample.known && r.status == Unknown:
		v.Text = "not known now; before that " + v.Text
		if r.state.KnownAt == 0 {
			v.Text = "not known yet"
		}
	case r.sample.detail != "":
		v.Text += " (" + r.sample.detail + ")"
	}
	return v
}

// next says what would happen next if things stay as they are.
func (t *turn) next() string {
	if a := t.s.Action; a != nil {
		return t.nextStep(a)
	}
	if p := t.s.Pending; p != nil {
		return fmt.Sprintf("switches to %s as %s ordered, as soon as nothing stands in the way", p.Mode, p.By)
	}
	if len(t.explain.BlockedBy) > 0 {
		b := t.explain.BlockedBy[0]
		return "acts as soon as nothing stands in the way any more: " + b.Text
	}
	if r := t.soonest(); r != nil {
		what := "diverts to the fallback"
		if r.def.class == ProcessSick {
			what = "restarts the collector, if another witness agrees"
		}
		if t.s.Mode.Phase == Fallback && r.def.class == SinkSick {
			what = "calls the fallback failing, too"
		}
		return fmt.Sprintf("%s in %s if %s stays bad", what, length(max(r.span-r.state.Evidence, 0)), r.def.name)
	}
	switch m := t.s.Mode; m.Phase {
	case Fallback:
		return t.nextReturn()
	case Probation:
		return fmt.Sprintf("calls the outage over in %s if it stays clean", length(max(t.p.Recover.Probation-t.since(m.Since), 0)))
	}
	return "nothing, as long as no rule gathers evidence"
}

func (t *turn) nextStep(a *Action) string {
	left := length(max(a.DeadlineAt.Sub(t.now), 0))
	what := fmt.Sprintf("waits up to %s for step %s of %s %s", left, a.Step, a.Kind, a.ID)
	switch {
	case a.Step == Verify && a.HeldCount > 0:
		what = fmt.Sprintf("calls %s %s done when %s has been seen for %s, %s so far", a.Kind, a.ID, a.Target, length(t.p.Verify.Hold), length(t.since(a.HeldFrom)))
	case a.Step == Switch || a.Step == Verify:
		if a.Step == Verify && t.supervised() {
			what = fmt.Sprintf("waits up to %s for the collector to be started by its supervisor", left)
			if t.o.Process.Dying {
				what += " (" + dying + ")"
			}
		}
		what += ", then " + t.afterFailure(a)
	}
	return what
}

// afterFailure says what follows when the present means is in vain.
func (t *turn) afterFailure(a *Action) string {
	switch r := t.nextRung(); {
	case r != "" && !a.RolledBack:
		return "tries " + string(r)
	case a.Step == Switch && t.awaitsStart(a):
		return "waits for the collector's supervisor to start it"
	case t.canRollBack(a):
		return "goes back to " + string(a.From)
	}
	return "hands over to people"
}

func (t *turn) nextReturn() string {
	probe := t.s.Probe
	var wants []string
	if probe.Evidence < t.p.Recover.For {
		wants = append(wants, fmt.Sprintf("Kinesis has taken every probe for %s (%s so far)", length(t.p.Recover.For), length(probe.Evidence)))
	}
	if left := t.s.Mode.HoldUntil.Sub(t.now); left > 0 {
		wants = append(wants, fmt.Sprintf("the hold is over (in %s)", length(left)))
	}
	if len(wants) == 0 {
		return "returns to the primary"
	}
	return "returns to the primary when " + strings.Join(wants, " and ")
}

// soonest is the rule that would act first, of those that gather evidence.
func (t *turn) soonest() *ruleResult {
	var best *ruleResult
	var wait time.Duration
	for i := range t.rules {
		r := &t.rules[i]
		if r.def.class == Unsure || !r.sample.bad || r.state.Fires {
			continue
		}
		if left := r.span - r.state.Evidence; best == nil || left < wait {
			best, wait = r, left
		}
	}
	return best
}

// summary is the whole situation in a sentence.
func (t *turn) summary() string {
	m := t.s.Mode
	var b strings.Builder
	fmt.Fprintf(&b, "%s since %s, collector %s, authority %s", m.Phase, length(t.since(m.Since)), t.s.Liveness.Phase, t.s.Authority.Phase)
	if m.Ghost {
		b.WriteString(" (imagined by the dry run)")
	}
	if a := t.s.Action; a != nil {
		fmt.Fprintf(&b, "; %s at step %s", a.Kind, a.Step)
	}
	for i := range t.rules {
		if r := &t.rules[i]; r.state.Fires {
			fmt.Fprintf(&b, "; %s fires", r.def.name)
		}
	}
	return b.String()
}
