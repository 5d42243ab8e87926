package decide

import (
	"fmt"
	"time"

	"spillway/shared/mode"
)

// Events of the mode region.

var sinkFires = Event{"a rule about the sink fires", func(t *turn) bool { return t.firing(SinkSick) != nil }}

func fileChanged(m mode.Mode) Event {
	return Event{"the mode file was changed to " + string(m), func(t *turn) bool { return t.changed != nil && t.changed.Mode == m }}
}

// wakes happens when a phase was imagined and must not be any more.
func wakes(m mode.Mode) Event {
	return Event{"the dry run ended; the file says " + string(m), func(t *turn) bool {
		return t.s.Mode.Ghost && (!t.standing(DryRun) || t.s.Pending != nil) && t.s.Mode.File == m
	}}
}

// over happens when the action in progress ended, and the mode file says m.
func over(name string, e End, m mode.Mode) Event {
	return Event{name, func(t *turn) bool {
		if t.ended == nil || t.end != e || t.ended.Kind != Divert && t.ended.Kind != Return {
			return false
		}
		return m == "" || t.s.Mode.File == m
	}}
}

// pendingFor happens when a person ordered m and the box is not there.
func pendingFor(m mode.Mode) Event {
	return Event{"a person orders " + string(m), func(t *turn) bool {
		return t.s.Pending != nil && t.s.Pending.Mode == m && !t.pendingHere()
	}}
}

// pendingHere tells whether a person ordered the mode that the box is in, by
// the mode file and by what the collector really runs.
func (t *turn) pendingHere() bool {
	p := t.s.Pending
	return p != nil && p.Mode == modeOf(t.s.Mode.Phase) && p.Mode == t.s.Mode.File &&
		(t.s.Seen.Mode == "" || t.s.Seen.Mode == p.Mode)
}

func (t *turn) pinChanges() bool { return t.s.Pending.pins() || t.standing(Pinned) }

func clusterSays(m mode.Mode) Event {
	return Event{"the cluster decided for " + string(m), func(t *turn) bool {
		c := t.o.Cluster
		return t.p.Scope == ScopeCluster && c != nil && c.Connected && c.Mode == m && c.Epoch > t.s.Cluster.AppliedEpoch
	}}
}

func (t *turn) warnings() bool {
	for i := range t.rules {
		if t.rules[i].warns || t.rules[i].ends {
			return true
		}
	}
	return false
}

func (t *turn) decays() bool {
	m := t.s.Mode
	return m.Flaps > 0 && t.firing(SinkSick) == nil && t.since(max(m.FlapAt, m.Since)) >= t.p.Flap.Decay
}

// fallbackFails tells whether the fallback in use takes nothing.
func (t *turn) fallbackFails() bool {
	return !t.s.Mode.Ghost && (t.rule(ruleLastWrite).state.Fires || t.rule(ruleRefusing).state.Fires)
}

// Guards of the mode region.

var guardHold = Guard{"hold", func(t *turn) string {
	m := t.s.Mode
	if t.now >= m.HoldUntil {
		return ""
	}
	return fmt.Sprintf("the fallback is kept for another %s (%s so far)", length(m.HoldUntil.Sub(t.now)), plural(m.Flaps, "flap"))
}}

var guardWell = Guard{"rules", func(t *turn) string {
	for _, class := range []Class{SinkSick, ProcessSick} {
		if r := t.firing(class); r != nil {
			return "a rule fires: " + t.sentence(r)
		}
	}
	return ""
}}

var guardBacklog = Guard{"backlog", func(t *turn) string {
	r := t.o.Report
	if r == nil || t.s.Mode.Ghost {
		return ""
	}
	most := t.p.Recover.MaxBacklog
	age := r.Backlog.OldestAgeSeconds
	if r.Backlog.Events == 0 || age == nil || seconds(*age) <= most ||
		float64(r.Backlog.Events) <= most.Seconds()*r.Intake.EventsPerSecond {
		return ""
	}
	return fmt.Sprintf("%s events wait, more than comes in within %s: first the fallback takes them", count(r.Backlog.Events), length(most))
}}

var guardWave = Guard{"wave", func(t *turn) string {
	if !t.o.Cluster.Admitted {
		return "the cluster returns in waves, and this one has not reached the box"
	}
	return ""
}}

var guardClusterPause = Guard{"cluster_pause", func(t *turn) string {
	if t.o.Cluster.Paused {
		return "a person paused the whole cluster"
	}
	return ""
}}

// driftsAgain tells whether the collector was brought to the mode file a short
// while ago already.
func (t *turn) driftsAgain() bool { return t.within(t.s.Mode.DriftAt, time.Hour) }

// Effects of the mode region.

func (t *turn) tellWarnings() {
	for i := range t.rules {
		switch r := &t.rules[i]; {
		case r.ends:
			t.resolve("rule/"+r.def.name, "%s has been well for %s", r.def.name, length(t.p.Rules.Quiet))
		case r.warns && r.def.page:
			t.note("rule/"+r.def.name, Page, "%s", t.sentence(r))
		case r.warns:
			t.note("rule/"+r.def.name, Warning, "%s", t.sentence(r))
		}
	}
}

func (t *turn) adopt() {
	f, m := t.changed, &t.s.Mode
	t.filePin(f.Pinned, f.By, f.Reason, f.Mode, 0)
	m.Ghost = false
	if f.Mode == mode.Fallback {
		t.hold()
	} else {
		t.endOutage()
	}
	t.forget()
	text := fmt.Sprintf("%s set the mode file to %s: %s", somebody(f.By), f.Mode, f.Reason)
	if t.decision.Verb == None {
		t.decision.Verb, t.decision.Reason = Adopt, text
	}
	t.note("mode", Info, "%s", text)
}

func (t *turn) wake() {
	m := &t.s.Mode
	m.Ghost, m.OutageAt, m.BothFail, m.DivertedAt, m.ReturnedAt = false, 0, false, 0, 0
	t.s.Probe = ProbeState{}
}

// hold keeps the fallback for a while: longer, the more often it went to and fro.
func (t *turn) hold() {
	d := t.p.Recover.MinHold
	for range t.s.Mode.Flaps {
		if d *= 2; d >= t.p.Recover.MaxHold {
			break
		}
	}
	t.s.Mode.HoldUntil = t.now.Add(min(d, max(t.p.Recover.MaxHold, t.p.Recover.MinHold)))
}

func (t *turn) divert() {
	if t.s.Mode.OutageAt == 0 {
		t.s.Mode.OutageAt = t.now
	}
	t.because(Divert, mode.Fallback, t.firing(SinkSick), "diverting to the fallback")
}

func (t *turn) diverted() {
	m, a := &t.s.Mode, t.ended
	if !a.commanded() && t.within(m.ReturnedAt, max(t.p.Flap.Window, t.p.Recover.Probation)) {
		m.Flaps, m.FlapAt = min(m.Flaps+1, maxFlaps), t.now
	}
	m.ReturnedAt, m.DivertedAt = 0, t.now
	if m.OutageAt == 0 && !a.commanded() {
		m.OutageAt = t.now
	}
	t.hold()
	t.s.Probe = ProbeState{}
	t.forget()
	t.applyEpoch(mode.Fallback)
	t.tell("outage", Warning, "%s runs on the fallback: %s", t.box(), a.Reason)
}

// maxFlaps is where doubling has long met its limit.
const maxFlaps = 16

// box says whether this is real.
func (t *turn) box() string {
	if t.ended != nil && t.ended.Ghost {
		return "in the dry run the box"
	}
	return "the box"
}

func (t *turn) divertFailed() {
	t.forget()
	t.giveUp("fallback_start_failed", t.decision.Reason)
}

func (t *turn) calledOff() {
	if t.s.Mode.File == mode.Primary {
		t.endOutage()
	}
}

func (t *turn) returnedHome() {
	m, a := &t.s.Mode, t.ended
	if !a.commanded() {
		m.ReturnedAt = t.now
	}
	m.DivertedAt, m.HoldUntil = 0, 0
	t.forget()
	t.applyEpoch(mode.Primary)
	t.note("mode", Info, "%s runs on the primary again, on probation for %s", t.box(), length(t.p.Recover.Probation))
}

func (t *turn) returnFailed() {
	m := &t.s.Mode
	m.Flaps, m.FlapAt = min(m.Flaps+1, maxFlaps), t.now
	t.hold()
	t.s.Probe = ProbeState{}
	t.note("mode", Warning, "%s; the next try comes in %s", t.decision.Reason, length(m.HoldUntil.Sub(t.now)))
	if t.s.Last.Failed >= 2 {
		t.giveUp("return_failed", t.decision.Reason)
	}
}

// endOutage tells how long it lasted, if people were told that it began.
func (t *turn) endOutage() {
	m := &t.s.Mode
	if m.OutageAt != 0 {
		t.settleMatter("outage", "the outage is over, it lasted %s", length(t.since(m.OutageAt)))
	}
	m.OutageAt = 0
}

// stillTold tells whether people believe in trouble with the sink that is over.
func (t *turn) stillTold() bool {
	if t.s.Told["outage"] == 0 || t.s.Mode.OutageAt != 0 {
		return false
	}
	for i := range t.rules {
		if t.rules[i].def.class == SinkSick && t.rules[i].state.Warned {
			return false
		}
	}
	return true
}

func (t *turn) goHome() {
	probe := t.s.Probe
	t.propose(Action{Kind: Return, Target: mode.Primary, Reason: fmt.Sprintf(
		"Kinesis has taken every probe for %s (threshold %s) and the hold is over: returning to the primary", length(probe.Evidence), length(t.p.Recover.For))})
}

func (t *turn) returnEarly() {
	t.propose(Action{Kind: Return, Target: mode.Primary, Reason: fmt.Sprintf(
		"the fallback takes nothing while Kinesis has taken every probe for %s (threshold %s): returning at once", length(t.s.Probe.Evidence), length(t.p.Recover.EarlyFor))})
}

func (t *turn) rollBackDivert() {
	t.s.Mode.DivertedAt = 0
	t.propose(Action{Kind: Return, Target: mode.Primary, Rule: "crash_loop", Value: plural(len(t.s.Liveness.Starts), "start"), Reason: fmt.Sprintf(
		"the collector was started %d times since it was diverted: the fallback config may be at fault, going back to the primary", len(t.s.Liveness.Starts))})
}

func (t *turn) bothFail() {
	t.s.Mode.BothFail = true
	t.note("both_failing", Page, "both sinks fail: %s and Kinesis is not well. The box stays where it is; events are kept on disk and trackers get 503 when it is full", t.sink())
}

func (t *turn) reconcile() {
	t.s.Mode.DriftAt = t.now
	t.because(Reconcile, t.s.Mode.File, t.rule(ruleDrift), "restarting it in the mode of the file")
}

func (t *turn) tellNoDivert() {
	r := t.firing(SinkSick)
	if r == nil {
		return
	}
	t.suppressed()
	edge := "T2"
	if t.s.Mode.Phase == Probation {
		edge = "T14"
	}
	// Once per matter and reason, and again when it lasts.
	if fresh := t.again("blocked/divert/"+t.blocked[edge], t.p.Pause.Remind); fresh || t.s.Told["outage"] == 0 {
		t.tell("outage", Page, "%s, but nothing is diverted: %s", t.sentence(r), t.objection(edge))
	}
}

// obey carries out the order that waits.
func (t *turn) obey(kind Kind) {
	c := t.s.Pending
	a := Action{Kind: kind, Target: c.Mode, By: c.By, Reason: c.Reason, Pinned: c.pins(), Command: c.ID}
	if c.For > 0 {
		a.Until = t.now.Add(c.For)
	}
	t.s.Pending = nil
	t.propose(a)
	t.note("command/"+c.ID, Info, "%s ordered %s (%s): it is being done", c.By, c.Mode, c.Reason)
}

func (t *turn) alreadySo() {
	c := t.s.Pending
	t.s.Pending = nil
	t.note("command/"+c.ID, Info, "%s ordered %s (%s): the box is there already", c.By, c.Mode, c.Reason)
}

func (t *turn) unpin() {
	t.s.Told["unpin"] = t.now
	t.propose(Action{Kind: Repin, Target: t.o.ModeFile.File.Mode, Reason: "the pin has ended"})
}

// follow does what the cluster decided.
func (t *turn) follow(kind Kind, m mode.Mode) {
	if kind == Divert && t.s.Mode.OutageAt == 0 {
		t.s.Mode.OutageAt = t.now
	}
	c := t.o.Cluster
	t.propose(Action{Kind: kind, Target: m, Reason: fmt.Sprintf("the cluster decided for %s (epoch %d): %s", m, c.Epoch, c.Reason)})
}

// applyEpoch remembers that the cluster's decision for m is carried out here.
func (t *turn) applyEpoch(m mode.Mode) {
	if c := t.o.Cluster; c != nil && c.Connected && c.Mode == m && !t.s.Mode.Ghost {
		t.s.Cluster.AppliedEpoch = max(t.s.Cluster.AppliedEpoch, c.Epoch)
	}
}
