package decide

import "fmt"

// Kinds of standby.
const (
	causeStopped = "stopped"
	causeRival   = "rival"
)

// ordered is the event of a person's command.
func ordered(kind CommandKind) Event {
	return Event{"a person orders " + string(kind), func(t *turn) bool { return t.command != nil && t.command.Kind == kind }}
}

// commandEdges are tried for every command but switch and pin, which are about
// the mode.
var commandEdges = []Edge{
	{ID: "T30a", Region: RegionAuthority, From: []Phase{Auto}, On: ordered(CommandPause), To: Paused,
		Effect: Effect{"note who, why and until when", (*turn).doPause},
		Text:   "a person pauses the watchdog: it looks on and tells what it would do"},
	{ID: "T30b", Region: RegionAuthority, From: []Phase{Paused}, On: ordered(CommandResume), To: Auto,
		Effect: Effect{"end the pause", func(t *turn) { t.resume(Paused) }},
		Text:   "a person ends the pause"},
	{ID: "T30c", Region: RegionAuthority, From: []Phase{Pinned}, On: ordered(CommandResume), To: Auto,
		Effect: Effect{"end the pin", func(t *turn) { t.resume(Pinned) }},
		Text:   "a person ends the pin; the mode stays until a rule says otherwise"},
	{ID: "T30d", Region: RegionAuthority, From: []Phase{DryRun}, On: ordered(CommandResume), To: Auto,
		Effect: Effect{"end the dry run, unless the config asks for it", (*turn).endDryRun},
		Text:   "a person ends the dry run"},
	{ID: "T30e", Region: RegionAuthority, From: []Phase{Auto}, On: ordered(CommandDryRun), To: DryRun,
		Effect: Effect{"note who and why", (*turn).doDryRun},
		Text:   "a person orders a dry run: everything is decided and nothing is done"},
	{ID: "T30f", Region: RegionAuthority, From: []Phase{HandedOver}, On: ordered(CommandAck), To: Auto,
		Effect: Effect{"take over again", func(t *turn) {
			t.withdraw(HandedOver)
			t.resolve("handed_over", "%s acknowledged: the watchdog acts again", t.command.By)
		}},
		Text: "a person acknowledges: the watchdog takes over again"},
	{ID: "T30g", Region: RegionAuthority, From: []Phase{Auto}, On: ordered(CommandAck), To: Stay,
		Effect: Effect{"forget flaps, hold and starts", (*turn).doAck},
		Text:   "a person acknowledges: what was counted is forgotten"},
}

func expiry(p Phase) Event {
	return Event{"its time is over", func(t *turn) bool { return t.expired(p) }}
}

// authorityEdges are what happens to the authority without a command.
var authorityEdges = []Edge{
	{ID: "T30h", Region: RegionAuthority, From: []Phase{Paused}, On: expiry(Paused), To: Auto,
		Effect: Effect{"end the pause", func(t *turn) { t.withdraw(Paused); t.resolve("pause", "the pause is over, the watchdog acts again") }},
		Text:   "the pause is over"},
	{ID: "T30i", Region: RegionAuthority, From: []Phase{Pinned}, On: expiry(Pinned), To: Auto,
		Effect: Effect{"end the pin", func(t *turn) {
			t.withdraw(Pinned)
			t.resolve("pin", "the pin is over, the watchdog decides the mode again")
		}},
		Text: "the pin is over"},
	{ID: "T30j", Region: RegionAuthority, From: []Phase{Paused, Pinned},
		On:     Event{"it has stood for pause.remind", func(t *turn) bool { return t.reminds(Paused) || t.reminds(Pinned) }},
		To:     Stay,
		Effect: Effect{"remind people", (*turn).remind},
		Text:   "people are reminded of a pause or a pin"},
	{ID: "T30k", Region: RegionAuthority, From: []Phase{Auto},
		On:     Event{"the config asks for a dry run", func(t *turn) bool { return t.p.DryRun && !t.standing(DryRun) }},
		To:     DryRun,
		Effect: Effect{"", func(t *turn) { t.order(DryRun, Order{By: byConfig, Reason: "dry_run is set"}) }},
		Text:   "the config asks for a dry run"},
	{ID: "T30l", Region: RegionAuthority, From: []Phase{DryRun},
		On:     Event{"the config no longer asks for it", func(t *turn) bool { return !t.p.DryRun && t.s.Authority.Orders[DryRun].By == byConfig }},
		To:     Auto,
		Effect: Effect{"", func(t *turn) { t.withdraw(DryRun) }},
		Text:   "the config no longer asks for a dry run"},

	{ID: "T31a", Region: RegionAuthority, From: []Phase{Auto},
		On: Event{"a person stopped the collector", func(t *turn) bool { return t.o.Supervisor.State == SupervisorStopped && !t.standing(Standby) }},
		To: Standby,
		Effect: Effect{"", func(t *turn) {
			t.order(Standby, Order{By: "supervisor", Cause: causeStopped, Reason: "the collector was stopped by a person"})
		}},
		Text: "a person stopped the collector: the watchdog stands by"},
	{ID: "T31b", Region: RegionAuthority, From: []Phase{Standby},
		On:     Event{"the collector is active again", (*turn).activeAgain},
		To:     Auto,
		Effect: Effect{"", func(t *turn) { t.withdraw(Standby) }},
		Text:   "the collector was started again"},
	{ID: "T34a", Region: RegionAuthority, From: []Phase{Auto},
		On: Event{"another watchdog holds the lock", func(t *turn) bool { return t.o.Rival != "" && !t.standing(Standby) }},
		To: Standby,
		Effect: Effect{"", func(t *turn) {
			t.order(Standby, Order{By: t.o.Rival, Cause: causeRival, Reason: t.o.Rival + " is in charge of this collector"})
		}},
		Text: "another watchdog is in charge: there is never a fight"},
	{ID: "T34b", Region: RegionAuthority, From: []Phase{Standby},
		On:     Event{"the other watchdog is gone", func(t *turn) bool { return t.o.Rival == "" && t.s.Authority.Orders[Standby].Cause == causeRival }},
		To:     Auto,
		Effect: Effect{"", func(t *turn) { t.withdraw(Standby) }},
		Text:   "the other watchdog is gone"},

	{ID: "T33a", Region: RegionAuthority, From: []Phase{Auto},
		On:     Event{"the coordinator is lost", func(t *turn) bool { return t.uncoordinated() != "" && !t.standing(Held) }},
		To:     Held,
		Effect: Effect{"", func(t *turn) { t.order(Held, Order{By: "watchdog", Reason: t.uncoordinated()}) }},
		Text:   "the coordinator is lost: the mode stays as it is"},
	{ID: "T33b", Region: RegionAuthority, From: []Phase{Held},
		On:     Event{"the coordinator is back with no older decision", func(t *turn) bool { return t.uncoordinated() == "" }},
		To:     Auto,
		Effect: Effect{"", func(t *turn) { t.withdraw(Held) }},
		Text:   "the coordinator is back"},

	{ID: "T32b", Region: RegionAuthority, From: []Phase{HandedOver},
		On: Event{"handed_over.max is over and all is green for handed_over.green", (*turn).greenAgain},
		To: Auto,
		Effect: Effect{"take over again", func(t *turn) {
			t.withdraw(HandedOver)
			t.resolve("handed_over", "all has been well for %s: the watchdog acts again", length(t.p.HandedOver.Green))
		}},
		Text: "nobody acknowledged, but all has been well for long: the watchdog takes over again"},
}

// lateEdges come last, since what the other regions did asks for them.
var lateEdges = []Edge{
	{ID: "T30m", Region: RegionAuthority, From: []Phase{Auto},
		On:     Event{"the mode file was written with a pin", func(t *turn) bool { return t.pinned != nil }},
		To:     Pinned,
		Effect: Effect{"note who, why and until when", func(t *turn) { t.order(Pinned, *t.pinned) }},
		Text:   "a person decided the mode: the watchdog leaves it alone"},
	{ID: "T30n", Region: RegionAuthority, From: []Phase{Pinned},
		On:     Event{"the mode file was written without a pin", func(t *turn) bool { return t.unpinned }},
		To:     Auto,
		Effect: Effect{"", func(t *turn) { delete(t.s.Authority.Orders, Pinned) }},
		Text:   "the pin is gone with the mode file that had it"},
	{ID: "T32a", Region: RegionAuthority, From: []Phase{Auto},
		On:     Event{"another region gives up", func(t *turn) bool { return t.gaveUp != nil && !t.standing(HandedOver) }},
		To:     HandedOver,
		Effect: Effect{"page", (*turn).handOver},
		Text:   "the watchdog's means are used up: it looks on and people take over"},
}

const byConfig = "config"

func (t *turn) handOver() {
	t.order(HandedOver, *t.gaveUp)
	t.note("handed_over", Page, "the watchdog has handed over to people: %s. It does nothing more until `ack`", t.gaveUp.Reason)
}

func (t *turn) doPause() {
	c := t.command
	d := c.For
	if d <= 0 {
		d = t.p.Pause.Default
	}
	t.order(Paused, Order{By: c.By, Reason: c.Reason, Until: t.now.Add(d)})
	t.s.Told["pause"] = t.now
	t.answer = "paused for " + length(d)
}

func (t *turn) resume(p Phase) {
	t.withdraw(p)
	t.answer = fmt.Sprintf("no longer %s; acts are possible in %s", p, length(t.p.Settle))
}

func (t *turn) endDryRun() {
	if t.p.DryRun {
		t.answer = "the dry run goes on, because dry_run is set in the config"
		return
	}
	t.withdraw(DryRun)
	t.answer = "the dry run is over"
}

func (t *turn) doDryRun() {
	t.order(DryRun, Order{By: t.command.By, Reason: t.command.Reason})
	t.answer = "decisions are made and told, and nothing is done"
}

func (t *turn) doAck() {
	m := &t.s.Mode
	m.Flaps, m.FlapAt, m.ReturnedAt, m.DriftAt = 0, 0, 0, 0
	if m.Phase == Fallback {
		m.HoldUntil = min(m.HoldUntil, m.Since.Add(t.p.Recover.MinHold))
	}
	t.s.Liveness.Starts, t.acked = nil, true
	if t.s.Last != nil {
		last := *t.s.Last
		last.Failed = 0
		t.s.Last = &last
	}
	t.answer = "acknowledged: flaps, holds and failures are forgotten"
}

func (t *turn) reminds(p Phase) bool {
	o, ok := t.s.Authority.Orders[p]
	return ok && t.since(o.At) >= t.p.Pause.Remind && !t.within(t.s.Told["remind"], t.p.Pause.Remind)
}

func (t *turn) remind() {
	t.s.Told["remind"] = t.now
	for _, p := range []Phase{Paused, Pinned} {
		if o, ok := t.s.Authority.Orders[p]; ok {
			t.note(string(p), Info, "still %s; %s kept from being done so far", t.describe(p, o), plural(o.Suppressed, "act"))
		}
	}
}

func (t *turn) activeAgain() bool {
	if t.s.Authority.Orders[Standby].Cause != causeStopped {
		return false
	}
	switch t.o.Supervisor.State {
	case SupervisorActive, SupervisorActivating, SupervisorAutoRestart:
		return true
	case SupervisorUnknown:
		return t.o.Reach == ReachOK
	}
	return false
}

// uncoordinated says why the cluster's word cannot be followed; empty when it
// can, or when this box decides alone.
func (t *turn) uncoordinated() string {
	c := t.o.Cluster
	switch {
	case t.p.Scope != ScopeCluster:
		return ""
	case c == nil || !c.Connected:
		return "the coordinator cannot be asked"
	case c.Epoch < t.s.Cluster.AppliedEpoch:
		return fmt.Sprintf("the coordinator went back in time: its epoch is %d, %d is applied here", c.Epoch, t.s.Cluster.AppliedEpoch)
	}
	return ""
}

// greenAgain also keeps since when all is well.
func (t *turn) greenAgain() bool {
	o := t.s.Authority.Orders[HandedOver]
	switch {
	case !t.green():
		o.GreenAt = 0
	case o.GreenAt == 0:
		o.GreenAt = t.now
	}
	t.s.Authority.Orders[HandedOver] = o
	return o.GreenAt != 0 && t.since(o.At) >= t.p.HandedOver.Max && t.since(o.GreenAt) >= t.p.HandedOver.Green
}
