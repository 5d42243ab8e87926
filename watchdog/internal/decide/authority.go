package decide

import (
	"fmt"
	"slices"
	"time"

	"spillway/shared/mode"
)

// strength lists the orders from the strongest to the weakest.
var strength = []Phase{HandedOver, Standby, Paused, Pinned, Held, DryRun}

// standing tells whether an order stands. Auto always does: it is what is left
// when nothing else is said.
func (t *turn) standing(p Phase) bool {
	if p == Auto {
		return true
	}
	_, ok := t.s.Authority.Orders[p]
	return ok
}

// order sets a standing order, and keeps what it has counted so far if it only
// changes its terms.
func (t *turn) order(p Phase, o Order) {
	o.At = t.now
	if before, ok := t.s.Authority.Orders[p]; ok {
		o.Suppressed = before.Suppressed
	}
	t.s.Authority.Orders[p] = o
}

// withdraw ends an order. Those that forbade acts leave time to look first.
func (t *turn) withdraw(p Phase) {
	o, ok := t.s.Authority.Orders[p]
	if !ok {
		return
	}
	delete(t.s.Authority.Orders, p)
	if p != DryRun {
		t.s.Authority.SettleAt = t.now
	}
	if o.Suppressed > 0 {
		t.remark("%s ended; it kept %s from being done", p, plural(o.Suppressed, "act"))
	}
}

// filePin takes note of the pin in a mode file that was just written.
func (t *turn) filePin(pinned bool, by, reason string, m mode.Mode, until Moment) {
	t.pinned, t.unpinned = nil, !pinned
	if pinned {
		t.pinned = &Order{By: by, Reason: reason, Mode: m, Until: until}
	}
}

// giveUp asks for the matter to be given to people.
func (t *turn) giveUp(cause, reason string) {
	t.gaveUp = &Order{By: "watchdog", Cause: cause, Reason: reason}
}

// settleAuthority derives the region's phase from the orders that stand.
func (t *turn) settleAuthority() {
	a, phase := &t.s.Authority, Auto
	for _, p := range strength {
		if t.standing(p) {
			phase = p
			break
		}
	}
	if phase != a.Phase {
		a.Phase, a.Since = phase, t.now
	}
}

// forbidden says which of these orders stands, and who gave it; empty when none.
func (t *turn) forbidden(phases ...Phase) string {
	for _, p := range strength {
		o, ok := t.s.Authority.Orders[p]
		if !ok {
			continue
		}
		if slices.Contains(phases, p) {
			return t.describe(p, o)
		}
	}
	return ""
}

// describe puts an order into words.
func (t *turn) describe(p Phase, o Order) string {
	left := ""
	if o.Until != 0 {
		left = fmt.Sprintf(" for another %s", length(max(o.Until.Sub(t.now), 0)))
	}
	switch p {
	case Pinned:
		return fmt.Sprintf("pinned to %s by %s%s: %s", o.Mode, somebody(o.By), left, o.Reason)
	case Paused:
		return fmt.Sprintf("paused by %s%s: %s", somebody(o.By), left, o.Reason)
	case HandedOver:
		return fmt.Sprintf("handed over to people since %s: %s", length(t.since(o.At)), o.Reason)
	case Standby:
		return "standing by: " + o.Reason
	case Held:
		return "the mode is held: " + o.Reason
	case DryRun:
		return fmt.Sprintf("dry run by %s: %s", somebody(o.By), o.Reason)
	}
	return ""
}

// suppressed counts an act that an order kept from being done.
func (t *turn) suppressed() {
	for _, p := range strength {
		if o, ok := t.s.Authority.Orders[p]; ok && p != DryRun {
			o.Suppressed = min(o.Suppressed+1, 1000)
			t.s.Authority.Orders[p] = o
			return
		}
	}
}

// green tells whether there is nothing to worry about.
func (t *turn) green() bool {
	return t.o.Reach == ReachOK && t.s.Liveness.Phase == Up && t.s.Action == nil && !t.s.Mode.BothFail &&
		t.firing(SinkSick) == nil && t.firing(ProcessSick) == nil && !t.rule(ruleDrift).state.Fires
}

// expired tells whether an order's time is over.
func (t *turn) expired(p Phase) bool {
	o, ok := t.s.Authority.Orders[p]
	return ok && o.Until != 0 && t.now >= o.Until
}

// note adds something to be told.
func (t *turn) note(key string, severity Severity, format string, args ...any) {
	t.decision.Notes = append(t.decision.Notes, Note{Key: key, Severity: severity, Text: fmt.Sprintf(format, args...)})
}

// resolve tells that the matter of key is over.
func (t *turn) resolve(key, format string, args ...any) {
	t.decision.Notes = append(t.decision.Notes, Note{Key: key, Severity: Info, Text: fmt.Sprintf(format, args...), Resolved: true})
}

// tell notes the beginning of a matter that [turn.settleMatter] ends.
func (t *turn) tell(key string, severity Severity, format string, args ...any) {
	t.s.Told[key] = t.now
	t.note(key, severity, format, args...)
}

// settleMatter tells that a matter is over, if people were told that it began.
func (t *turn) settleMatter(key, format string, args ...any) {
	if t.s.Told[key] != 0 {
		delete(t.s.Told, key)
		t.resolve(key, format, args...)
	}
}

// again tells whether a matter was not told within every, and remembers it now.
func (t *turn) again(key string, every time.Duration) bool {
	if t.within(t.s.Told[key], every) {
		return false
	}
	t.s.Told[key] = t.now
	return true
}
