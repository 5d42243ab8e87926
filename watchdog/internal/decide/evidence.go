package decide

import (
	"fmt"
	"time"
)

// sample is what a rule saw in one observation.
type sample struct {
	known  bool // false: this observation says nothing about the matter
	bad    bool // over the threshold
	well   bool // under the threshold times hysteresis: it may clear
	number float64
	limit  float64
	unit   unit
	detail string // which part, what exactly
}

// ruleResult is a rule in this turn.
type ruleResult struct {
	def    *ruleDef
	sample sample
	state  RuleState
	span   time.Duration // evidence needed to fire
	status Status
	warns  bool // for the first time in this episode
	ends   bool // the episode is over
}

// unsureFactor is how much more evidence a sign about the process needs while it
// may just be slow.
const unsureFactor = 3

// gatherEvidence lets every rule look and takes what it saw into account.
//
// Evidence is a leaky bucket of observed seconds: bad ones fill it, good ones
// drain it, and time that nobody observed does neither. On a clean signal that
// is the usual "bad for 30 s"; on a noisy one a blip neither fires nor resets.
func (t *turn) gatherEvidence() {
	t.rules = make([]ruleResult, len(catalogue))
	for i := range catalogue {
		def := &catalogue[i]
		r := ruleResult{def: def, span: def.span(t.p), state: t.s.Rules[def.name]}
		if r.span <= 0 || def.off != nil && def.off(t.p) {
			delete(t.s.Rules, def.name)
			r.status, r.state = Off, RuleState{}
			t.rules[i] = r
			continue
		}
		if !(def.class == ProcessSick && t.stalled) {
			r.sample = def.look(t)
		}
		t.weigh(&r)
		t.rules[i] = r
		t.s.Rules[def.name] = r.state
	}
	t.weighProbe()
}

// weigh turns a sample into evidence and evidence into a status.
func (t *turn) weigh(r *ruleResult) {
	rules, st := t.p.Rules, &r.state
	if r.sample.known {
		st.KnownAt, st.Number = t.now, r.sample.number
		most := r.span
		if r.def.class == ProcessSick {
			most *= unsureFactor
		}
		if r.sample.bad {
			st.Evidence = min(st.Evidence+t.lived, most)
			st.Samples = min(st.Samples+1, 1000)
			st.ZeroAt = 0
		} else {
			st.Evidence = max(0, st.Evidence-drained(t.lived, rules.Drain))
			if st.Evidence == 0 {
				st.Samples = 0
				if st.ZeroAt == 0 {
					st.ZeroAt = t.now
				}
			}
		}
	}
	enough := st.Samples >= rules.MinSamples
	switch {
	case !st.Fires && st.Evidence >= r.span && enough:
		st.Fires, st.Since = true, t.now
	case st.Fires && st.Evidence == 0 && r.sample.known && r.sample.well:
		st.Fires, st.Since = false, t.now
	}
	half := time.Duration(rules.Warn * float64(r.span))
	warning := st.Fires || st.Evidence > 0 && st.Evidence >= half && (enough || st.Samples >= 2)
	if warning && !st.Warned {
		st.Warned, r.warns = true, true
	}
	if st.Warned && !st.Fires && st.ZeroAt != 0 && t.since(st.ZeroAt) >= rules.Quiet {
		st.Warned, r.ends = false, true
	}
	switch {
	case st.KnownAt == 0 || t.since(st.KnownAt) > 3*t.p.Poll.Interval:
		r.status = Unknown
	case st.Fires:
		r.status = Firing
	case warning:
		r.status = Warn
	default:
		r.status = Clear
	}
}

// drained is how much evidence d of good time takes away. It is computed with
// care for a drain so large that it means "all".
func drained(d time.Duration, drain float64) time.Duration {
	const all = 365 * 24 * time.Hour
	return time.Duration(min(float64(d)*drain, float64(all)))
}

// firing returns the first rule of class that fires, in the order of the
// catalogue; nil when none does.
func (t *turn) firing(class Class) *ruleResult {
	for i := range t.rules {
		if r := &t.rules[i]; r.def.class == class && r.state.Fires {
			return r
		}
	}
	return nil
}

func (t *turn) rule(name string) *ruleResult {
	for i := range t.rules {
		if t.rules[i].def.name == name {
			return &t.rules[i]
		}
	}
	return &ruleResult{def: &ruleDef{}, status: Off}
}

// forget empties the evidence about the sink, because another one is in use.
func (t *turn) forget() {
	for i := range t.rules {
		r := &t.rules[i]
		if r.def.class != SinkSick || r.status == Off {
			continue
		}
		if r.state.Warned {
			t.resolve("rule/"+r.def.name, "what %s said was about the sink of before: it starts anew", r.def.name)
		}
		r.state = RuleState{ZeroAt: t.now, KnownAt: r.state.KnownAt, Number: r.state.Number}
		if r.status != Unknown {
			r.status = Clear
		}
		t.s.Rules[r.def.name] = r.state
	}
	t.s.Backlog = nil
}

// weighProbe follows the collector's own probes of the primary. They are real
// batches, and one bad probe starts them over, so what counts is how long they
// have been good, provided that we see them go on.
func (t *turn) weighProbe() {
	probe, r := &t.s.Probe, t.o.Report
	if r == nil {
		return
	}
	if t.s.Mode.Ghost {
		t.imagineProbe()
		return
	}
	seen := r.Kinesis.Probe
	if seen.OKForSeconds == nil || seen.LastOKAt == nil {
		*probe = ProbeState{Level: seen.Level}
		return
	}
	probe.Level = seen.Level
	if at := seen.LastOKAt.Round(0).UTC(); !at.Equal(probe.OKAt) {
		probe.OKAt, probe.SeenAt = at, t.now
	}
	if t.since(probe.SeenAt) > t.p.Recover.Stale {
		probe.Evidence, probe.Samples = 0, 0
		return
	}
	probe.Evidence = seconds(*seen.OKForSeconds)
	probe.Samples = min(probe.Samples+1, 1000)
}

// imagineProbe judges the primary during a dry run, in which the collector never
// left it: it is well while no rule about the sink has evidence and events that
// come in go out.
func (t *turn) imagineProbe() {
	probe := &t.s.Probe
	for _, r := range t.rules {
		if r.def.class == SinkSick && (r.sample.bad || r.state.Evidence > 0) {
			*probe = ProbeState{}
			return
		}
	}
	if t.o.Report.Kinesis.ConsecutiveFailures > 0 {
		*probe = ProbeState{}
		return
	}
	probe.Evidence = min(probe.Evidence+t.lived, 24*time.Hour)
	probe.Samples = min(probe.Samples+1, 1000)
	probe.SeenAt = t.now
}

// recovered tells whether the primary has been good for d.
func (t *turn) recovered(d time.Duration) bool {
	probe := t.s.Probe
	return probe.Evidence >= d && probe.Samples >= t.p.Rules.MinSamples
}

// badFor is the evidence as people see it.
func (r *ruleResult) badFor() string {
	return fmt.Sprintf("bad for %s of %s", length(min(r.state.Evidence, r.span)), length(r.span))
}
