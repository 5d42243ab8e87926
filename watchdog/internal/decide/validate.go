package decide

import (
	"errors"
	"slices"
	"time"

	"spillway/shared/configfile"
)

// Validate checks what can be checked without knowing the surroundings; see
// [Policy.Check] for the rest. The message of an error begins with the YAML key.
func (p Policy) Validate() error {
	var errs []error
	bad := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, configfile.Invalid(key, format, args...))
		}
	}
	bad(p.Scope == ScopeBox || p.Scope == ScopeCluster, "scope", "is %q: want %q or %q", p.Scope, ScopeBox, ScopeCluster)
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"poll.interval", p.Poll.Interval}, {"poll.timeout", p.Poll.Timeout},
		{"restart.timeout", p.Restart.Timeout}, {"restart.stop_timeout", p.Restart.StopTimeout},
		{"recover.for", p.Recover.For}, {"recover.early_for", p.Recover.EarlyFor}, {"recover.stale", p.Recover.Stale},
		{"recover.min_hold", p.Recover.MinHold}, {"flap.decay", p.Flap.Decay}, {"budget.refill", p.Budget.Refill},
		{"pause.default", p.Pause.Default}, {"pause.remind", p.Pause.Remind}, {"crash_loop.window", p.CrashLoop.Window},
	} {
		bad(d.value > 0, d.key, "is %s: it must be longer than 0", length(d.value))
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"startup_grace", p.StartupGrace}, {"settle", p.Settle}, {"patience", p.Patience}, {"flush.timeout", p.Flush.Timeout},
		{"verify.hold", p.Verify.Hold}, {"recover.max_backlog", p.Recover.MaxBacklog}, {"recover.probation", p.Recover.Probation},
		{"flap.window", p.Flap.Window}, {"handed_over.max", p.HandedOver.Max}, {"handed_over.green", p.HandedOver.Green},
		{"escape.seconds_to_full", p.Escape.SecondsToFull},
	} {
		bad(d.value >= 0, d.key, "is %s: it cannot be negative", length(d.value))
	}
	bad(p.Poll.Timeout < p.Poll.Interval, "poll.timeout", "is %s, which must be less than poll.interval (%s): a poll has to end before the next begins",
		length(p.Poll.Timeout), length(p.Poll.Interval))
	bad(p.Recover.MaxHold >= p.Recover.MinHold, "recover.max_hold", "is %s, less than recover.min_hold (%s)", length(p.Recover.MaxHold), length(p.Recover.MinHold))
	bad(p.Recover.For < p.Recover.MinHold, "recover.for", "is %s, which must be less than recover.min_hold (%s): else the hold, and with it the doubling per flap, means nothing",
		length(p.Recover.For), length(p.Recover.MinHold))
	bad(p.Recover.EarlyFor <= p.Recover.For, "recover.early_for", "is %s, more than recover.for (%s)", length(p.Recover.EarlyFor), length(p.Recover.For))
	bad(p.Budget.Tokens >= 1, "budget.tokens", "is %d: without a token nothing could ever be done (use dry_run for that)", p.Budget.Tokens)
	bad(p.Budget.PerHour >= 1, "budget.per_hour", "is %d: want at least 1", p.Budget.PerHour)
	bad(p.Budget.Reserve >= 0 && p.Budget.Reserve < max(p.Budget.Tokens, 1), "budget.reserve", "is %d of %d tokens: a return could never be paid", p.Budget.Reserve, p.Budget.Tokens)
	bad(p.CrashLoop.Starts >= 2, "crash_loop.starts", "is %d: a single start is no loop, want at least 2", p.CrashLoop.Starts)
	bad(p.Escape.Percent >= 0 && p.Escape.Percent <= 100, "escape.percent", "is %v: want 0 to 100", p.Escape.Percent)
	errs = append(errs, p.validateLadder(), configfile.Under("rules", p.Rules.Validate()))
	return errors.Join(errs...)
}

func (p Policy) validateLadder() error {
	known := []Rung{RungLive, RungRestart, RungTerm, RungKill, RungStart, RungRollBack}
	ladder := p.Restart.Ladder
	if len(ladder) == 0 {
		return configfile.Invalid("restart.ladder", "is empty: want at least one of %v", known)
	}
	var errs []error
	for i, r := range ladder {
		switch {
		case !slices.Contains(known, r):
			errs = append(errs, configfile.Invalid("restart.ladder", "has %q: want only %v", r, known))
		case slices.Index(ladder, r) != i:
			errs = append(errs, configfile.Invalid("restart.ladder", "has %q twice: each rung is tried once", r))
		}
	}
	if i := slices.Index(ladder, RungRollBack); i >= 0 && i != len(ladder)-1 {
		errs = append(errs, configfile.Invalid("restart.ladder", "has something after %q, which ends an action", RungRollBack))
	}
	return errors.Join(errs...)
}

// Validate checks the rules. Keys are relative to rules.
func (r Rules) Validate() error {
	var errs []error
	bad := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, configfile.Invalid(key, format, args...))
		}
	}
	bad(r.Hysteresis > 0 && r.Hysteresis < 1, "hysteresis", "is %v: a rule must clear below its threshold, want more than 0 and less than 1", r.Hysteresis)
	bad(r.Warn > 0 && r.Warn < 1, "warn", "is %v: people are warned before a rule fires, want more than 0 and less than 1", r.Warn)
	bad(r.Drain > 0, "drain", "is %v: evidence would never leave, want more than 0", r.Drain)
	bad(r.MinSamples >= 1, "min_samples", "is %d: want at least 1", r.MinSamples)
	bad(r.Quiet >= 0, "quiet", "is %s: it cannot be negative", length(r.Quiet))
	bad(r.BacklogBytes.Percent >= 0 && r.BacklogBytes.Percent <= 100, "backlog_bytes.percent", "is %v: want 0 to 100", r.BacklogBytes.Percent)
	bad(r.BacklogBytes.Bytes >= 0, "backlog_bytes.bytes", "is %d: it cannot be negative", r.BacklogBytes.Bytes)
	bad(r.BacklogEvents.Threshold >= 0, "backlog_events.threshold", "is %d: it cannot be negative", r.BacklogEvents.Threshold)
	g := r.SecondsToFull
	bad(g.FloorPercent >= 0 && g.FloorPercent <= 100, "seconds_to_full.floor_percent", "is %v: want 0 to 100", g.FloorPercent)
	if g.Threshold > 0 {
		bad(g.Short > 0, "seconds_to_full.short", "is %s: it must be longer than 0", length(g.Short))
		bad(g.Long > g.Short, "seconds_to_full.long", "is %s, which must be more than short (%s): the two slopes check each other", length(g.Long), length(g.Short))
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"last_write_age.threshold", r.LastWriteAge.Threshold}, {"last_write_age.for", r.LastWriteAge.For},
		{"oldest_event_age.threshold", r.OldestEventAge.Threshold}, {"oldest_event_age.for", r.OldestEventAge.For},
		{"backlog_bytes.for", r.BacklogBytes.For}, {"backlog_events.for", r.BacklogEvents.For},
		{"seconds_to_full.threshold", g.Threshold}, {"seconds_to_full.for", g.For},
		{"refusing.for", r.Refusing.For}, {"unreachable.for", r.Unreachable.For},
		{"stalled.threshold", r.Stalled.Threshold}, {"stalled.for", r.Stalled.For},
		{"slow.threshold", r.Slow.Threshold}, {"slow.for", r.Slow.For},
		{"blind.for", r.Blind.For}, {"foreign.for", r.Foreign.For}, {"inconsistent.for", r.Inconsistent.For},
		{"drift.for", r.Drift.For}, {"fallback_not_ready.for", r.FallbackNotReady.For},
	} {
		bad(d.value >= 0, d.key, "is %s: it cannot be negative (0 switches the rule off)", length(d.value))
	}
	return errors.Join(errs...)
}
