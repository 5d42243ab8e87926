package decide

import (
	"fmt"
	"time"
)

var livenessEdges = []Edge{
	{ID: "T24", Region: RegionLiveness, From: []Phase{Restarting},
		On: Event{"our restart was seen to work", (*turn).restartWorked}, To: Settling,
		Effect: Effect{"tell", func(t *turn) { t.settleMatter("process", "the collector was restarted and answers again") }},
		Text:   "the restarted collector answers"},
	{ID: "T24b", Region: RegionLiveness, From: []Phase{Restarting},
		On: Event{"our restart was called off", func(t *turn) bool { return t.s.Action == nil && t.want == nil && t.end != EndFailed }}, To: Suspect,
		Text: "the restart was called off: look again"},
	{ID: "T26", Region: RegionLiveness, From: []Phase{Restarting},
		On: Event{"the ladder is used up", func(t *turn) bool { return t.end == EndFailed }}, To: Down,
		Effect: Effect{"hand over", func(t *turn) { t.giveUp("collector_down", "the collector could not be restarted: "+t.decision.Reason) }},
		Text:   "nothing brings the collector back"},

	{ID: "T28", Region: RegionLiveness, From: []Phase{Up, Suspect, Settling},
		On: Event{"it starts again and again, and not by us", (*turn).looping}, To: Down,
		Effect: Effect{"page", func(t *turn) {
			t.note("crash_loop", Page, "the collector was started %d times within %s, not by this watchdog: it will not add to that",
				len(t.s.Liveness.Starts), length(t.p.CrashLoop.Window))
		}},
		Text: "a crash loop that is not ours is never added to"},
	{ID: "T29", Region: RegionLiveness, From: []Phase{Down},
		On: Event{"it has answered for settle and does not loop", func(t *turn) bool { return t.wellFor(t.p.Settle) && !t.looping() }}, To: Settling,
		Effect: Effect{"tell", func(t *turn) { t.resolve("crash_loop", "the collector answers again") }},
		Text:   "it is back"},
	{ID: "T29b", Region: RegionLiveness, From: []Phase{Down},
		On: Event{"a person acknowledges while it is silent", func(t *turn) bool { return t.acked && t.o.Reach != ReachOK }}, To: Suspect,
		Text: "people want the watchdog to try again"},
	{ID: "T27", Region: RegionLiveness, From: []Phase{Suspect, Down},
		On: Event{"its supervisor refuses to start it", func(t *turn) bool {
			return t.silent() && t.startLimited()
		}},
		Guards: []Guard{guardRestart, guardOne, guardMemory, guardGrace, guardDying, guardResetOnce, budgetRestart}, To: Restarting,
		Effect: Effect{"reset the failure and start it", (*turn).resetAndStart},
		Text:   "the start limit is reset, once an hour"},
	{ID: "T19", Region: RegionLiveness, From: []Phase{Up, Suspect},
		On: Event{"somebody started it", func(t *turn) bool { return t.started && t.o.Reach == ReachOK }}, To: Settling,
		Effect: Effect{"", func(t *turn) {
			t.remark("the collector was started by somebody else: it has %s to settle", length(t.p.Settle))
		}},
		Text: "a person, a package or the supervisor restarted it"},

	{ID: "T20", Region: RegionLiveness, From: []Phase{Up, Settling},
		On: Event{"it does not answer, or a part shows no progress", (*turn).suspicious}, To: Suspect,
		Text: "the other witnesses are asked"},
	{ID: "T25", Region: RegionLiveness, From: []Phase{Settling},
		On: Event{"it has answered for settle", func(t *turn) bool { return t.wellFor(t.p.Settle) }}, To: Up,
		Effect: Effect{"tell, if people were told that it does not", (*turn).answersAgain},
		Text:   "it has settled"},
	{ID: "T21", Region: RegionLiveness, From: []Phase{Suspect},
		On: Event{"it answers, and its parts make progress", func(t *turn) bool { return t.o.Reach == ReachOK && !t.suspicious() }}, To: Up,
		Effect: Effect{"tell, if people were told that it does not", (*turn).answersAgain},
		Text:   "one good report is enough to believe it again"},

	{ID: "T22", Region: RegionLiveness, From: []Phase{Suspect},
		On: Event{"a rule about the process fires", func(t *turn) bool { return t.firing(ProcessSick) != nil }},
		Guards: []Guard{
			guardRestart, guardOne, guardMemory, guardGrace, guardContact, guardSupervisor, guardDying, guardDisk, guardSettle,
			guardFresh, guardWitness, guardPatience, budgetRestart,
		},
		To:     Restarting,
		Effect: Effect{"restart in the same mode", (*turn).restartSame},
		Text:   "a sick process is restarted, in the mode it has"},
	{ID: "T23", Region: RegionLiveness, From: []Phase{Suspect},
		On: Event{"its supervisor has been at it for longer than patience", func(t *turn) bool {
			return t.supervisorBusy() && t.since(t.s.Liveness.Since) >= t.p.Patience && !t.within(t.s.Told["supervisor"], t.p.Pause.Remind)
		}}, To: Stay,
		Effect: Effect{"tell", func(t *turn) {
			t.tell("supervisor", Page, "the supervisor has been trying to start the collector for %s (%s): it owns the case, this watchdog does not interfere",
				length(t.since(t.s.Liveness.Since)), t.o.Supervisor.State)
		}},
		Text: "the supervisor owns the case; people are told when it takes long"},
	{ID: "T22b", Region: RegionLiveness, From: []Phase{Suspect},
		On: Event{"a restart is due and blocked", func(t *turn) bool { return worthTelling(t.blocked["T22"]) }}, To: Stay,
		Effect: Effect{"tell, once", (*turn).tellNoRestart},
		Text:   "the sentence of the guard reaches the people"},
}

func (t *turn) restartWorked() bool {
	return t.ended != nil && t.ended.Kind == RestartSame && t.end == EndVerified
}

func (t *turn) answersAgain() {
	t.settleMatter("process", "the collector answers again")
	t.settleMatter("supervisor", "the collector answers again")
}

func (t *turn) looping() bool { return len(t.s.Liveness.Starts) >= t.p.CrashLoop.Starts }

func (t *turn) wellFor(d time.Duration) bool {
	from := max(t.s.Liveness.OKFrom, t.s.Liveness.Since)
	return t.o.Reach == ReachOK && t.s.Liveness.OKFrom != 0 && t.since(from) >= d
}

func (t *turn) suspicious() bool {
	if t.switching() {
		return false
	}
	return t.o.Reach != ReachOK || t.rule(ruleStalled).sample.bad
}

func (t *turn) supervisorBusy() bool {
	switch t.o.Supervisor.State {
	case SupervisorActivating, SupervisorDeactivating, SupervisorAutoRestart:
		return true
	}
	return false
}

func (t *turn) restartSame() {
	t.because(RestartSame, t.s.Mode.File, t.firing(ProcessSick), "restarting it in the same mode")
	t.tell("process", Warning, "%s", t.want.Reason)
}

func (t *turn) startLimited() bool {
	return t.o.Supervisor.State == SupervisorFailed && t.o.Supervisor.Result == ResultStartLimit
}

func (t *turn) resetAndStart() {
	t.s.Liveness.ResetAt = t.now
	t.propose(Action{
		Kind: RestartSame, Target: t.s.Mode.File, Rung: RungStart, Rule: "start_limit", Value: ResultStartLimit,
		Reason: "the supervisor has given up starting the collector (" + ResultStartLimit + "): resetting that and starting it once",
	})
}

// guardResetOnce keeps the start limit meaningful.
var guardResetOnce = Guard{"reset_once", func(t *turn) string {
	const every = time.Hour
	if at := t.s.Liveness.ResetAt; t.within(at, every) {
		return fmt.Sprintf("the start limit was reset %s ago and may be again in %s", length(t.since(at)), length(every-t.since(at)))
	}
	return ""
}}

// guardDying objects while a killed process still holds what a new one needs.
var guardDying = Guard{"dying", func(t *turn) string {
	if t.o.Process.Dying {
		return dying
	}
	return ""
}}

// guardContact objects while the collector has never answered this watchdog and
// may still be on its way up.
var guardContact = Guard{"first_contact", func(t *turn) string {
	if t.s.Seen.At < t.s.Begun.RunAt && t.within(t.s.Begun.RunAt, t.p.StartupGrace) {
		return fmt.Sprintf("the collector has not answered since this watchdog began %s ago: it may still be starting (%s)",
			length(t.since(t.s.Begun.RunAt)), length(t.p.StartupGrace))
	}
	return ""
}}

// guardSupervisor objects while somebody else is at it.
var guardSupervisor = Guard{"supervisor", func(t *turn) string {
	switch {
	case t.supervisorBusy():
		return fmt.Sprintf("the supervisor is at it (%s) and owns the case", t.o.Supervisor.State)
	case t.o.Supervisor.State == SupervisorStopped:
		return "a person stopped the collector"
	case t.startLimited():
		return "the supervisor has given up starting it (" + ResultStartLimit + "): that is reset once an hour, and nothing else helps"
	case t.looping():
		return "the collector is in a crash loop that is not ours"
	}
	return ""
}}

// guardWitness objects to killing a process on one witness only. That a part is
// stuck is the collector's own word, and needs no other.
var guardWitness = Guard{"witness", func(t *turn) string {
	switch p := t.o.Process; {
	case t.rule(ruleStalled).state.Fires && t.o.Reach == ReachOK:
		return ""
	case t.progressing() && t.within(t.s.Seen.At, t.p.Rules.Unreachable.For) && !t.gone():
		return fmt.Sprintf("the process uses CPU and answers now and then, %s ago for the last time: it is slow, not hung", length(t.since(t.s.Seen.At)))
	case t.o.Reach == ReachOK:
		return "the collector answers again"
	case t.o.Public == PublicOK:
		return "one witness only: the health report cannot be had, but the public port serves trackers"
	case t.gone(), t.o.Public == PublicFailed, p.Known && (p.State == "T" || p.State == "Z"), p.Known && p.CPUKnown && !t.progressing():
		return ""
	}
	return "one witness only: the health report cannot be had, and nothing else says that the collector is sick"
}}

// guardPatience asks for more evidence while the process may just be slow: it
// uses CPU, or the whole box is short of it.
var guardPatience = Guard{"patience", func(t *turn) string {
	r := t.firing(ProcessSick)
	if r == nil || t.gone() || r.state.Evidence >= unsureFactor*r.span {
		return ""
	}
	why := ""
	switch {
	case t.starved():
		why = "the box is short of CPU, or this watchdog itself lately was"
	case r.def.name == ruleUnreachable && t.progressing():
		why = "the process uses CPU, so it may only be slow"
	default:
		return ""
	}
	return fmt.Sprintf("%s: bad for %s, waiting for %s", why, length(r.state.Evidence), length(unsureFactor*r.span))
}}

// progressing tells whether the silent process lately used CPU.
func (t *turn) progressing() bool {
	p := t.o.Process
	if p.Known && (p.State == "T" || p.State == "Z") {
		return false
	}
	return t.within(t.s.Seen.MovedAt, t.p.Rules.Unreachable.For)
}

func (t *turn) tellNoRestart() {
	r := t.firing(ProcessSick)
	if r == nil {
		return
	}
	t.suppressed()
	if fresh := t.again("blocked/restart/"+t.blocked["T22"], t.p.Pause.Remind); !fresh && t.s.Told["process"] != 0 {
		return
	}
	t.tell("process", Page, "%s, but it is not restarted: %s", t.sentence(r), t.objection("T22"))
}

// objection is the first sentence that stands in the way of an edge.
func (t *turn) objection(edge string) string {
	for _, b := range t.explain.BlockedBy {
		if b.Edge == edge {
			return b.Text
		}
	}
	return ""
}

// worthTelling tells whether a guard's objection is more than a matter of
// seconds, and not told by a rule of its own. Empty is no objection.
func worthTelling(guard string) bool {
	switch guard {
	case "", guardOne.Name, guardSettle.Name, guardGrace.Name, guardFresh.Name, guardContact.Name, guardPatience.Name, guardReached.Name:
		return false
	}
	return true
}
