package decide

import (
	"fmt"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
)

// Rules about the sink in use. They look at measurements, never at labels, and
// at nothing while the report contradicts itself.

// believable returns the report, nil when there is none that can be used. While
// the disk hangs nothing moves, which says nothing about the sink.
func (t *turn) believable() *healthapi.Report {
	if t.o.Report == nil || t.conflict != "" || t.diskHangs() {
		return nil
	}
	return t.o.Report
}

// draining tells whether the backlog will be gone soon: then how much or how old
// it is does not matter, since diverting would not get it out sooner.
func (t *turn) draining(r *healthapi.Report) bool {
	soon := t.p.Rules.OldestEventAge.Threshold
	if soon <= 0 {
		soon = t.p.Recover.MinHold
	}
	return r.Drain.ETASeconds != nil && seconds(*r.Drain.ETASeconds) <= soon
}

// lookLastWrite measures for how long events have waited in vain: how long ago
// the sink took something, or how long the oldest event waits if that is less,
// so that the first event after a quiet night is no alarm.
func lookLastWrite(t *turn) sample {
	r := t.believable()
	if r == nil {
		return sample{}
	}
	limit := t.p.Rules.LastWriteAge.Threshold.Seconds()
	if r.Backlog.Events == 0 {
		return t.over(0, limit, unitSeconds)
	}
	age := r.Kinesis.LastWriteAgeSeconds
	onFallback := r.Mode == string(mode.Fallback)
	if onFallback {
		age = r.Sink.LastWriteAgeSeconds
		if t.s.Mode.Phase != Fallback {
			return sample{} // still on the way there
		}
	}
	number, known := 0.0, false
	for _, f := range []*float64{age, r.Backlog.OldestAgeSeconds} {
		if f != nil && (!known || *f < number) {
			number, known = *f, true
		}
	}
	if !known {
		return sample{}
	}
	if onFallback {
		// What waited before the fallback was there is not its fault.
		number = min(number, t.since(t.s.Mode.Since).Seconds())
	}
	return t.over(number, limit, unitSeconds)
}

func sayLastWrite(t *turn, r *ruleResult) string {
	waiting := "events wait"
	if t.o.Report != nil {
		waiting = count(t.o.Report.Backlog.Events) + " events wait"
	}
	return fmt.Sprintf("%s has taken nothing for %s while %s", t.sink(), length(seconds(r.state.Number)), waiting)
}

// sink names the destination in use.
func (t *turn) sink() string {
	if r := t.o.Report; r != nil && r.Mode == string(mode.Fallback) {
		if r.Sink.Target != "" {
			return "the fallback " + r.Sink.Target
		}
		return "the fallback"
	}
	return "Kinesis"
}

func lookOldest(t *turn) sample {
	r := t.believable()
	if r == nil {
		return sample{}
	}
	age := 0.0
	if r.Backlog.OldestAgeSeconds != nil && r.Backlog.Events > 0 {
		age = *r.Backlog.OldestAgeSeconds
	}
	return t.excuse(r, t.over(age, t.p.Rules.OldestEventAge.Threshold.Seconds(), unitSeconds))
}

// excuse takes the blame from a backlog that drains.
func (t *turn) excuse(r *healthapi.Report, s sample) sample {
	if s.bad && t.draining(r) {
		s.bad, s.well, s.detail = false, true, fmt.Sprintf("draining, gone in %s", length(seconds(*r.Drain.ETASeconds)))
	}
	return s
}

func sayOldest(_ *turn, r *ruleResult) string {
	return fmt.Sprintf("the oldest event waits for %s and the backlog does not drain", length(seconds(r.state.Number)))
}

// capacity is how many bytes the spool may hold in all.
func capacity(b healthapi.Backlog) int64 {
	if b.LimitBytes > 0 {
		return b.LimitBytes
	}
	return b.Bytes + b.DiskFreeBytes
}

// usedPercent is how full the spool is.
func usedPercent(b healthapi.Backlog) float64 {
	if c := capacity(b); c > 0 {
		return 100 * float64(b.Bytes) / float64(c)
	}
	return 0
}

func lookBacklogBytes(t *turn) sample {
	r := t.believable()
	if r == nil {
		return sample{}
	}
	rule := t.p.Rules.BacklogBytes
	share := t.over(usedPercent(r.Backlog), rule.Percent, unitPercent)
	absolute := t.over(float64(r.Backlog.Bytes), float64(rule.Bytes), unitBytes)
	switch {
	case rule.Bytes <= 0:
		return t.excuse(r, share)
	case rule.Percent <= 0:
		return t.excuse(r, absolute)
	case absolute.number*share.limit > share.number*absolute.limit: // nearer to its threshold
		return t.excuse(r, absolute)
	}
	return t.excuse(r, share)
}

func sayBacklogBytes(_ *turn, r *ruleResult) string {
	if r.sample.unit == unitBytes {
		return fmt.Sprintf("%s wait on disk", size(int64(r.state.Number)))
	}
	return "the spool is " + percent(r.state.Number) + " full"
}

func lookBacklogEvents(t *turn) sample {
	r := t.believable()
	if r == nil {
		return sample{}
	}
	return t.excuse(r, t.over(float64(r.Backlog.Events), float64(t.p.Rules.BacklogEvents.Threshold), unitEvents))
}

func sayBacklogEvents(_ *turn, r *ruleResult) string {
	return fmt.Sprintf("%s events wait on disk", count(int64(r.state.Number)))
}

// lookGrowth measures for how long the spool has room. Two slopes must agree: a
// minute to be quick, five to be sure. Only a spool over the floor is judged.
func lookGrowth(t *turn) sample {
	r := t.believable()
	if r == nil {
		return sample{}
	}
	rule := t.p.Rules.SecondsToFull
	t.s.Backlog = remember(t.s.Backlog, t.level(r.Backlog), rule.Long)
	limit := rule.Threshold.Seconds()
	never := sample{known: true, well: true, limit: limit, unit: unitSeconds, number: endless}
	if usedPercent(r.Backlog) < rule.FloorPercent {
		return never
	}
	short, okShort := slope(t.s.Backlog, rule.Short)
	long, okLong := slope(t.s.Backlog, rule.Long)
	if !okShort || !okLong {
		return sample{}
	}
	growth := min(short, long)
	if growth <= 0 {
		return never
	}
	left := min(float64(room(r.Backlog))/growth, endless)
	return sample{known: true, bad: left < limit, well: left >= limit/t.p.Rules.Hysteresis, number: left, limit: limit, unit: unitSeconds}
}

// endless stands for a spool that does not fill, in seconds: more than any
// threshold, and a number that JSON can hold.
const endless = float64(365 * 24 * time.Hour / time.Second)

func sayGrowth(t *turn, r *ruleResult) string {
	share := ""
	if t.o.Report != nil {
		share = ", which is " + percent(usedPercent(t.o.Report.Backlog)) + " full,"
	}
	return fmt.Sprintf("at the present growth the spool%s has no room left in %s", share, length(seconds(r.state.Number)))
}

func lookRefusing(t *turn) sample {
	r := t.believable()
	if r == nil || r.State == healthapi.StateStarting || r.State == healthapi.StateStopping {
		return sample{}
	}
	return plain(r.State == healthapi.StateRefusing || !r.Intake.Accepting, r.Intake.Reason)
}

func sayRefusing(_ *turn, r *ruleResult) string {
	if r.sample.detail != "" {
		return "trackers get 503: " + r.sample.detail
	}
	return "trackers get 503"
}
