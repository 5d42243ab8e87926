package decide

import (
	"fmt"

	"spillway/shared/healthapi"
)

// guardMode objects while the watchdog may not change the mode on its own.
var guardMode = Guard{"authority", func(t *turn) string {
	if why := t.forbidden(Paused, Standby, HandedOver, Pinned); why != "" {
		return why
	}
	if t.standing(Held) && !t.escaping() {
		return t.forbidden(Held)
	}
	return ""
}}

// guardEarly objects to a return that cannot wait. A lost coordinator does not
// forbid it: the box has no sink that works but the other one.
var guardEarly = Guard{"authority", func(t *turn) string {
	return t.forbidden(Paused, Standby, HandedOver, Pinned)
}}

// guardRestart objects while the watchdog may not even restart.
var guardRestart = Guard{"authority", func(t *turn) string {
	return t.forbidden(Paused, Standby, HandedOver)
}}

// guardStanding objects to a person's order while the collector is to be down.
var guardStanding = Guard{"standby", func(t *turn) string {
	if o, ok := t.s.Authority.Orders[Standby]; ok {
		return "the order waits, because " + o.Reason + ": acting on it would start the collector"
	}
	return ""
}}

// guardOne keeps actions one at a time.
var guardOne = Guard{"one_at_a_time", func(t *turn) string {
	switch a := t.s.Action; {
	case a != nil:
		return fmt.Sprintf("action %s (%s) is still at step %s", a.ID, a.Kind, a.Step)
	case t.want != nil:
		return fmt.Sprintf("a %s is beginning", t.want.Kind)
	case t.ended != nil:
		return fmt.Sprintf("action %s has just ended", t.ended.ID)
	}
	return ""
}}

// guardMemory objects while the state cannot be saved.
var guardMemory = Guard{"no_state", func(t *turn) string {
	if t.o.StateError != "" {
		return "the state cannot be saved, and what is not remembered cannot be limited: " + t.o.StateError
	}
	return ""
}}

// guardGrace objects for a while after a start without memory.
var guardGrace = Guard{"startup_grace", func(t *turn) string {
	age := t.now.Sub(firstMoment)
	if age >= t.p.StartupGrace && t.s.Begun.Samples >= 2*freshEnough {
		return ""
	}
	why := "this watchdog has no memory of before"
	if t.s.Begun.Amnesia != "" {
		why += " (" + t.s.Begun.Amnesia + ")"
	}
	return fmt.Sprintf("%s: it looks on for %s and %d observations first, so far %s and %d",
		why, length(t.p.StartupGrace), 2*freshEnough, length(age), t.s.Begun.Samples)
}}

// guardSettle objects for a while after any start of the collector, and after an
// order ended that forbade acts.
var guardSettle = Guard{"settle", func(t *turn) string {
	if at := t.s.Liveness.StartedAt; t.within(at, t.p.Settle) {
		return fmt.Sprintf("the collector was started %s ago: it has %s to settle", length(t.since(at)), length(t.p.Settle))
	}
	if at := t.s.Authority.SettleAt; t.within(at, t.p.Settle) {
		return fmt.Sprintf("acts are allowed again since %s only: first %s of watching", length(t.since(at)), length(t.p.Settle))
	}
	return ""
}}

// guardReached objects to a change of mode that could not be seen to work.
var guardReached = Guard{"reached", func(t *turn) string {
	if t.o.Reach != ReachOK || t.o.Report == nil {
		return "the collector does not answer (" + t.how() + "): a sick process is not mended by another sink"
	}
	if t.o.Report.State == healthapi.StateStopping {
		return "the collector is stopping"
	}
	return ""
}}

// guardDisk objects to any remedy while the collector refuses because its disk
// hangs: what it does instead would hang, too, and a killed one stays on as dying.
var guardDisk = Guard{"disk", func(t *turn) string {
	if t.diskHangs() {
		return "the collector says that its disk does not answer: neither another sink nor a restart mends a disk"
	}
	return ""
}}

// guardFresh objects to judging the process right after we did not run ourselves.
var guardFresh = Guard{"fresh", func(t *turn) string {
	if n := t.s.Seen.FreshCount; n < freshEnough {
		return fmt.Sprintf("this watchdog itself was not running: %d of %d fresh observations so far", n, freshEnough)
	}
	return ""
}}

// guardFallback objects to a divert into a void. While trackers are refused
// anyway, or are about to be, an untested fallback is better than none.
var guardFallback = Guard{"fallback", func(t *turn) string {
	r := t.o.Report
	if r == nil {
		return ""
	}
	why := fallbackTrouble(r.Fallback)
	if why == "" {
		return ""
	}
	const nearlyFull = 95
	lastResort := t.rule(ruleRefusing).state.Fires || usedPercent(r.Backlog) >= nearlyFull
	if r.Fallback.Configured && r.Fallback.Valid && lastResort {
		return ""
	}
	return why
}}

// guardScope objects to deciding alone what the cluster decides.
var guardScope = Guard{"scope", func(t *turn) string {
	if t.p.Scope != ScopeCluster || t.escaping() {
		return ""
	}
	return "the boxes decide together (scope cluster): this one has voted, the mode is not changed yet"
}}

// guardReal objects to what a dry run cannot imagine.
var guardReal = Guard{"dry_run", func(t *turn) string {
	if t.standing(DryRun) {
		return "this is a dry run"
	}
	return ""
}}

// escaping tells whether the box, cut off from the coordinator, is so nearly
// full that it may divert alone.
func (t *turn) escaping() bool {
	r := t.believable()
	if r == nil || !t.standing(Held) {
		return false
	}
	growth := t.rule("seconds_to_full")
	soon := growth.sample.known && growth.sample.number < t.p.Escape.SecondsToFull.Seconds()
	return soon || t.p.Escape.Percent > 0 && usedPercent(r.Backlog) >= t.p.Escape.Percent
}
