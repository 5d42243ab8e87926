package decide

import (
	"spillway/shared/mode"
)

var (
	steady = []Phase{Primary, Fallback, Probation}
	every  = []Phase{Primary, Diverting, Fallback, Returning, Probation}

	// permitDivert are the objections to a divert of our own.
	permitDivert = []Guard{guardMode, guardOne, guardMemory, guardGrace, guardSettle, guardReached, guardDisk, guardFallback, guardScope, budgetDivert}
	// permitCluster are the objections to what the cluster has decided.
	permitCluster = []Guard{guardMode, guardOne, guardMemory, guardGrace, guardSettle, guardReached, guardDisk, guardClusterPause}
	// permitOrder are the objections to a person's order.
	permitOrder = []Guard{guardStanding, guardOne, guardMemory}
)

var modeEdges = []Edge{
	{ID: "T1", Region: RegionMode, From: every,
		On: Event{"a rule has half its evidence", (*turn).warnings}, To: Stay,
		Effect: Effect{"tell, once per episode", (*turn).tellWarnings},
		Text:   "people are told before anything is done"},

	{ID: "T18a", Region: RegionMode, From: every, On: fileChanged(mode.Primary), To: Primary,
		Effect: Effect{"adopt it and its pin", (*turn).adopt},
		Text:   "somebody else wrote the mode file: primary"},
	{ID: "T18b", Region: RegionMode, From: every, On: fileChanged(mode.Fallback), To: Fallback,
		Effect: Effect{"adopt it and its pin", (*turn).adopt},
		Text:   "somebody else wrote the mode file: fallback"},
	{ID: "T35a", Region: RegionMode, From: every, On: wakes(mode.Primary), To: Primary,
		Effect: Effect{"forget what was imagined", (*turn).wake},
		Text:   "the dry run is over: back to what is real"},
	{ID: "T35b", Region: RegionMode, From: every, On: wakes(mode.Fallback), To: Fallback,
		Effect: Effect{"forget what was imagined", (*turn).wake},
		Text:   "the dry run is over: back to what is real"},

	{ID: "T5", Region: RegionMode, From: []Phase{Diverting}, On: over("the divert was seen to work", EndVerified, ""), To: Fallback,
		Effect: Effect{"hold, count a flap if it is one", (*turn).diverted},
		Text:   "the box runs on the fallback"},
	{ID: "T8a", Region: RegionMode, From: []Phase{Diverting}, On: over("the divert failed; the file says primary", EndFailed, mode.Primary), To: Primary,
		Effect: Effect{"hand over", (*turn).divertFailed},
		Text:   "the fallback could not be had: back to the mode that worked, and people take over"},
	{ID: "T8b", Region: RegionMode, From: []Phase{Diverting}, On: over("the divert failed; the file says fallback", EndFailed, mode.Fallback), To: Fallback,
		Effect: Effect{"hand over", (*turn).divertFailed},
		Text:   "not even the roll-back could be written: people take over"},
	{ID: "T6a", Region: RegionMode, From: []Phase{Diverting}, On: over("the divert was called off; the file says primary", EndAborted, mode.Primary), To: Primary,
		Effect: Effect{"tell", (*turn).calledOff},
		Text:   "it healed, or somebody decided otherwise"},
	{ID: "T6b", Region: RegionMode, From: []Phase{Diverting}, On: over("the divert was called off; the file says fallback", EndAborted, mode.Fallback), To: Fallback,
		Effect: Effect{"hold", func(t *turn) { t.hold(); t.calledOff() }},
		Text:   "somebody decided otherwise after the mode was written"},

	{ID: "T12", Region: RegionMode, From: []Phase{Returning}, On: over("the return was seen to work", EndVerified, ""), To: Probation,
		Effect: Effect{"watch closely", (*turn).returnedHome},
		Text:   "the box runs on the primary again, on probation"},
	{ID: "T13a", Region: RegionMode, From: []Phase{Returning}, On: over("the return failed; the file says fallback", EndFailed, mode.Fallback), To: Fallback,
		Effect: Effect{"count a flap, hold; hand over the second time", (*turn).returnFailed},
		Text:   "the primary could not be had: the fallback stays"},
	{ID: "T13b", Region: RegionMode, From: []Phase{Returning}, On: over("the return failed; the file says primary", EndFailed, mode.Primary), To: Primary,
		Effect: Effect{"hand over", func(t *turn) { t.endOutage(); t.giveUp("return_failed", t.decision.Reason) }},
		Text:   "neither mode could be seen to work: people take over"},
	{ID: "T13c", Region: RegionMode, From: []Phase{Returning}, On: over("the return was called off; the file says fallback", EndAborted, mode.Fallback), To: Fallback,
		Effect: Effect{"tell", (*turn).calledOff},
		Text:   "the primary is not well after all, or somebody decided otherwise"},
	{ID: "T13d", Region: RegionMode, From: []Phase{Returning}, On: over("the return was called off; the file says primary", EndAborted, mode.Primary), To: Primary,
		Effect: Effect{"tell", (*turn).calledOff},
		Text:   "somebody decided otherwise after the mode was written"},
	{ID: "T17b", Region: RegionMode, From: steady,
		On: Event{"bringing the collector back to the mode file failed", func(t *turn) bool {
			return t.ended != nil && t.ended.Kind == Reconcile && t.end == EndFailed
		}}, To: Stay,
		Effect: Effect{"hand over", func(t *turn) { t.giveUp("drift", t.decision.Reason) }},
		Text:   "the collector cannot be made to follow the mode file"},

	{ID: "T9a", Region: RegionMode, From: steady, On: pendingFor(mode.Fallback), Guards: permitOrder, To: Diverting,
		Effect: Effect{"as ordered", func(t *turn) { t.obey(Divert) }},
		Text:   "a person orders the fallback: no rule, hold or budget is asked"},
	{ID: "T9b", Region: RegionMode, From: steady, On: pendingFor(mode.Primary), Guards: permitOrder, To: Returning,
		Effect: Effect{"as ordered", func(t *turn) { t.obey(Return) }},
		Text:   "a person orders the primary: no rule, hold or budget is asked"},
	{ID: "T9c", Region: RegionMode, From: steady,
		On:     Event{"a person orders the mode it has, and the pin changes", func(t *turn) bool { return t.pendingHere() && t.pinChanges() }},
		Guards: permitOrder, To: Stay,
		Effect: Effect{"write the pin", func(t *turn) { t.obey(Repin) }},
		Text:   "only the pin is written"},
	{ID: "T9d", Region: RegionMode, From: steady,
		On: Event{"a person orders what is", func(t *turn) bool { return t.pendingHere() && !t.pinChanges() }}, To: Stay,
		Effect: Effect{"answer", (*turn).alreadySo},
		Text:   "there is nothing to do"},
	{ID: "T9e", Region: RegionMode, From: steady,
		On: Event{"a pin has ended and still stands in the mode file", func(t *turn) bool {
			return t.s.Pending == nil && !t.within(t.s.Told["unpin"], t.p.Rules.Quiet) && t.o.ModeFile.Err == "" && t.o.ModeFile.File.Pinned && !t.standing(Pinned)
		}},
		Guards: permitOrder, To: Stay,
		Effect: Effect{"take it off", (*turn).unpin},
		Text:   "the pin is taken off the mode file"},

	{ID: "T28b", Region: RegionMode, From: []Phase{Fallback},
		On: Event{"a crash loop began right after our divert", func(t *turn) bool {
			return t.looping() && t.within(t.s.Mode.DivertedAt, t.p.CrashLoop.Window) && !t.s.Mode.Ghost
		}},
		Guards: []Guard{guardMode, guardOne, guardMemory, budgetDivert}, To: Returning,
		Effect: Effect{"roll back, once", (*turn).rollBackDivert},
		Text:   "the fallback config makes the collector crash"},

	{ID: "T2", Region: RegionMode, From: []Phase{Primary}, On: sinkFires, Guards: permitDivert, To: Diverting,
		Effect: Effect{"divert", (*turn).divert},
		Text:   "the primary is sick: what comes in goes to the fallback"},
	{ID: "T14", Region: RegionMode, From: []Phase{Probation}, On: sinkFires, Guards: permitDivert, To: Diverting,
		Effect: Effect{"divert", (*turn).divert},
		Text:   "the primary is sick again: a flap"},
	{ID: "T2c", Region: RegionMode, From: []Phase{Primary, Probation}, On: clusterSays(mode.Fallback), Guards: permitCluster, To: Diverting,
		Effect: Effect{"divert with the others", func(t *turn) { t.follow(Divert, mode.Fallback) }},
		Text:   "the cluster diverts"},
	{ID: "T3", Region: RegionMode, From: []Phase{Primary, Probation},
		On: Event{"a divert is due and blocked", func(t *turn) bool { return worthTelling(t.blocked["T2"]) || worthTelling(t.blocked["T14"]) }}, To: Stay,
		Effect: Effect{"tell, once", (*turn).tellNoDivert},
		Text:   "the sentence of the guard reaches the people"},
	{ID: "T4", Region: RegionMode, From: []Phase{Primary},
		On: Event{"the trouble that people were told of is over", (*turn).stillTold}, To: Stay,
		Effect: Effect{"tell", func(t *turn) { t.settleMatter("outage", "the sink is well again, and nothing was diverted") }},
		Text:   "it healed by itself"},
	{ID: "T15", Region: RegionMode, From: []Phase{Probation},
		On: Event{"it was clean for recover.probation", func(t *turn) bool {
			return t.since(t.s.Mode.Since) >= t.p.Recover.Probation && t.firing(SinkSick) == nil
		}}, To: Primary,
		Effect: Effect{"tell how long it lasted", (*turn).endOutage},
		Text:   "the outage is over"},
	{ID: "T16", Region: RegionMode, From: []Phase{Primary},
		On: Event{"it was clean for flap.decay", (*turn).decays}, To: Stay,
		Effect: Effect{"forget one flap", func(t *turn) { t.s.Mode.Flaps--; t.s.Mode.FlapAt = t.now }},
		Text:   "one flap is forgotten"},

	{ID: "T11a", Region: RegionMode, From: []Phase{Fallback},
		On:     Event{"the fallback fails and the primary is good for recover.early_for", func(t *turn) bool { return t.fallbackFails() && t.recovered(t.p.Recover.EarlyFor) }},
		Guards: []Guard{guardEarly, guardOne, guardMemory, guardSettle, guardReached, guardDisk, budgetDivert}, To: Returning,
		Effect: Effect{"return at once", (*turn).returnEarly},
		Text:   "the fallback fails and the primary works: no hold is waited for"},
	{ID: "T11b", Region: RegionMode, From: []Phase{Fallback},
		On: Event{"the fallback fails, too", func(t *turn) bool { return t.fallbackFails() && !t.s.Mode.BothFail }}, To: Stay,
		Effect: Effect{"page; stay", (*turn).bothFail},
		Text:   "both sinks fail: back-pressure speaks to the trackers, nothing is switched to and fro"},
	{ID: "T11c", Region: RegionMode, From: every,
		On: Event{"not both fail any more", func(t *turn) bool {
			return t.s.Mode.BothFail && (t.s.Mode.Phase != Fallback || !t.fallbackFails())
		}}, To: Stay,
		Effect: Effect{"tell", func(t *turn) { t.s.Mode.BothFail = false; t.resolve("both_failing", "not both sinks fail any more") }},
		Text:   "one of the sinks takes events again"},
	{ID: "T10", Region: RegionMode, From: []Phase{Fallback},
		On: Event{"the primary is good for recover.for", func(t *turn) bool { return t.recovered(t.p.Recover.For) }},
		Guards: []Guard{
			guardMode, guardOne, guardMemory, guardGrace, guardSettle, guardReached, guardDisk, guardScope,
			guardHold, guardWell, guardBacklog, budgetReturn,
		}, To: Returning,
		Effect: Effect{"return", (*turn).goHome},
		Text:   "the primary is well: what comes in goes there again"},
	{ID: "T10c", Region: RegionMode, From: []Phase{Fallback}, On: clusterSays(mode.Primary),
		Guards: append([]Guard{guardWave, budgetReturn}, permitCluster...), To: Returning,
		Effect: Effect{"return with the others", func(t *turn) { t.follow(Return, mode.Primary) }},
		Text:   "the cluster returns, in waves"},
	{ID: "T17a", Region: RegionMode, From: steady,
		On:     Event{"the collector does not follow the mode file", func(t *turn) bool { return t.rule(ruleDrift).state.Fires && t.s.Pending == nil && !t.driftsAgain() }},
		Guards: []Guard{guardReal, guardRestart, guardOne, guardMemory, guardGrace, guardSettle, guardReached, guardDisk, budgetReconcile}, To: Stay,
		Effect: Effect{"restart it in the mode of the file", (*turn).reconcile},
		Text:   "the mode file is the only wish: the collector is brought to it"},
	{ID: "T17c", Region: RegionMode, From: steady,
		On: Event{"it left the mode file again within an hour", func(t *turn) bool {
			return t.rule(ruleDrift).state.Fires && t.driftsAgain() && t.s.Action == nil && t.want == nil && t.forbidden(Paused, Standby, HandedOver) == ""
		}}, To: Stay,
		Effect: Effect{"hand over", func(t *turn) {
			t.giveUp("drift", "the collector left the mode file again soon after it was brought back to it")
		}},
		Text: "something keeps it from following: people take over"},
}
