package decide

import (
	"fmt"
	"time"
)

// ruleDef is one rule: what it looks at and how it is put into words.
type ruleDef struct {
	name  string
	class Class
	span  func(Policy) time.Duration // evidence needed; 0 switches the rule off
	off   func(Policy) bool          // another way of being switched off; may be nil
	look  func(*turn) sample
	// say puts a bad sample into words, as the beginning of a sentence.
	say func(*turn, *ruleResult) string
	// page: people are woken when it fires, since nobody else will act.
	page bool
}

// Names of rules that edges ask for.
const (
	ruleLastWrite    = "last_write_age"
	ruleRefusing     = "refusing"
	ruleUnreachable  = "unreachable"
	ruleStalled      = "stalled"
	ruleInconsistent = "inconsistent"
	ruleDrift        = "drift"
)

// catalogue lists the rules in the order in which they explain an act. It is
// filled in init, because the rules look at turns and turns at the rules.
var catalogue []ruleDef

func init() {
	catalogue = []ruleDef{
		{name: ruleRefusing, class: SinkSick, look: lookRefusing, say: sayRefusing,
			span: func(p Policy) time.Duration { return p.Rules.Refusing.For }},
		{name: ruleLastWrite, class: SinkSick, look: lookLastWrite, say: sayLastWrite,
			span: func(p Policy) time.Duration { return p.Rules.LastWriteAge.For },
			off:  func(p Policy) bool { return p.Rules.LastWriteAge.Threshold <= 0 }},
		{name: "oldest_event_age", class: SinkSick, look: lookOldest, say: sayOldest,
			span: func(p Policy) time.Duration { return p.Rules.OldestEventAge.For },
			off:  func(p Policy) bool { return p.Rules.OldestEventAge.Threshold <= 0 }},
		{name: "backlog_bytes", class: SinkSick, look: lookBacklogBytes, say: sayBacklogBytes,
			span: func(p Policy) time.Duration { return p.Rules.BacklogBytes.For },
			off:  func(p Policy) bool { return p.Rules.BacklogBytes.Percent <= 0 && p.Rules.BacklogBytes.Bytes <= 0 }},
		{name: "backlog_events", class: SinkSick, look: lookBacklogEvents, say: sayBacklogEvents,
			span: func(p Policy) time.Duration { return p.Rules.BacklogEvents.For },
			off:  func(p Policy) bool { return p.Rules.BacklogEvents.Threshold <= 0 }},
		{name: "seconds_to_full", class: SinkSick, look: lookGrowth, say: sayGrowth,
			span: func(p Policy) time.Duration { return p.Rules.SecondsToFull.For },
			off:  func(p Policy) bool { return p.Rules.SecondsToFull.Threshold <= 0 }},

		{name: ruleUnreachable, class: ProcessSick, look: lookUnreachable, say: sayUnreachable,
			span: func(p Policy) time.Duration { return p.Rules.Unreachable.For }},
		{name: ruleStalled, class: ProcessSick, look: lookStalled, say: sayStalled,
			span: func(p Policy) time.Duration { return p.Rules.Stalled.For },
			off:  func(p Policy) bool { return p.Rules.Stalled.Threshold <= 0 }},

		{name: "disk", class: Unsure, look: lookDisk, say: sayDisk, page: true,
			span: func(p Policy) time.Duration { return p.Rules.Refusing.For }},
		{name: "blind", class: Unsure, look: lookBlind, say: sayBlind, page: true,
			span: func(p Policy) time.Duration { return p.Rules.Blind.For }},
		{name: "foreign", class: Unsure, look: lookForeign, say: sayForeign, page: true,
			span: func(p Policy) time.Duration { return p.Rules.Foreign.For }},
		{name: ruleInconsistent, class: Unsure, look: lookInconsistent, say: sayInconsistent, page: true,
			span: func(p Policy) time.Duration { return p.Rules.Inconsistent.For }},
		{name: "slow", class: Unsure, look: lookSlow, say: saySlow,
			span: func(p Policy) time.Duration { return p.Rules.Slow.For },
			off:  func(p Policy) bool { return p.Rules.Slow.Threshold <= 0 }},
		{name: ruleDrift, class: Unsure, look: lookDrift, say: sayDrift,
			span: func(p Policy) time.Duration { return p.Rules.Drift.For }},
		{name: "fallback_not_ready", class: Unsure, look: lookFallbackReady, say: sayFallbackReady,
			span: func(p Policy) time.Duration { return p.Rules.FallbackNotReady.For }},
	}
}

// ruleByName returns the rule called name, nil when there is none.
func ruleByName(name string) *ruleDef {
	for i := range catalogue {
		if catalogue[i].name == name {
			return &catalogue[i]
		}
	}
	return nil
}

// RuleNames lists the rules, in the order of the explanation.
func RuleNames() []string {
	names := make([]string, len(catalogue))
	for i := range catalogue {
		names[i] = catalogue[i].name
	}
	return names
}

// over samples a number that should stay under limit.
func (t *turn) over(number, limit float64, u unit) sample {
	return sample{
		known: true, bad: number > limit, well: number <= limit*t.p.Rules.Hysteresis,
		number: number, limit: limit, unit: u,
	}
}

// plain samples a condition.
func plain(bad bool, detail string) sample {
	number := 0.0
	if bad {
		number = 1
	}
	return sample{known: true, bad: bad, well: !bad, number: number, limit: 0, unit: unitFlag, detail: detail}
}

// unit is what a rule's number counts.
type unit int

const (
	unitFlag unit = iota
	unitSeconds
	unitBytes
	unitPercent
	unitEvents
)

// text writes n for people.
func (u unit) text(n float64) string {
	switch u {
	case unitSeconds:
		return length(seconds(n))
	case unitBytes:
		return size(int64(n))
	case unitPercent:
		return percent(n)
	case unitEvents:
		return count(int64(n)) + " events"
	}
	if n > 0 {
		return "yes"
	}
	return "no"
}

// sentence says what the rule saw, against what, and for how long.
func (t *turn) sentence(r *ruleResult) string {
	said := r.def.say(t, r)
	if r.sample.limit == 0 {
		return fmt.Sprintf("%s (%s)", said, r.badFor())
	}
	return fmt.Sprintf("%s (threshold %s, %s)", said, r.sample.unit.text(r.sample.limit), r.badFor())
}
