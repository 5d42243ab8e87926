package decide

import (
	"fmt"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
)

// Rules about the process, and those that nobody can act on.

// silent tells whether the collector was asked and did not answer.
func (t *turn) silent() bool { return t.o.Reach != ReachOK && t.o.Reach != ReachForeign }

// switching tells whether we are just restarting it, so that silence is normal.
func (t *turn) switching() bool {
	a := t.s.Action
	return a != nil && !a.Ghost && (a.Step == Switch || a.Step == Verify)
}

func lookUnreachable(t *turn) sample {
	if t.o.Reach == ReachForeign || t.switching() || t.o.Supervisor.State == SupervisorStopped {
		return sample{}
	}
	s := plain(t.silent(), string(t.o.Reach))
	s.unit = unitSeconds
	if s.bad {
		s.number = t.since(max(t.s.Seen.At, t.s.Begun.RunAt)).Seconds()
	}
	return s
}

func sayUnreachable(t *turn, r *ruleResult) string {
	return fmt.Sprintf("the collector has not answered for %s (%s)", length(seconds(r.state.Number)), t.how())
}

// how tells how the poll ended.
func (t *turn) how() string {
	if t.o.Detail != "" {
		return t.o.Detail
	}
	return string(t.o.Reach)
}

func lookStalled(t *turn) sample {
	r := t.o.Report
	if r == nil || t.switching() || t.diskHangs() || r.State == healthapi.StateStarting || r.State == healthapi.StateStopping {
		return sample{}
	}
	name, age := "", 0.0
	for part, p := range r.Parts {
		if p.BeatAgeSeconds > age || p.BeatAgeSeconds == age && part < name {
			name, age = part, p.BeatAgeSeconds
		}
	}
	s := t.over(age, t.p.Rules.Stalled.Threshold.Seconds(), unitSeconds)
	s.detail = name
	return s
}

func sayStalled(_ *turn, r *ruleResult) string {
	return fmt.Sprintf("the collector answers, but its part %q has made no progress for %s", r.sample.detail, length(seconds(r.state.Number)))
}

// lookDisk is bad while the collector refuses because its disk hangs.
func lookDisk(t *turn) sample {
	if t.o.Report == nil {
		return sample{}
	}
	return plain(t.diskHangs(), t.o.Report.Intake.Reason)
}

func sayDisk(*turn, *ruleResult) string {
	return "trackers get 503, because the disk of the spool does not answer: neither another sink nor a restart mends a disk"
}

func (t *turn) diskHangs() bool {
	return t.o.Report != nil && t.o.Report.Intake.Reason == healthapi.ReasonDiskHangs
}

func lookBlind(t *turn) sample {
	if t.switching() {
		return sample{}
	}
	return plain(t.silent() && t.o.Public == PublicOK, t.how())
}

func sayBlind(_ *turn, r *ruleResult) string {
	return "the health report cannot be had (" + r.sample.detail + ") but trackers are served: the watchdog is blind and will not touch a collector that works"
}

// lookForeign is bad while somebody else answers in the collector's place.
func lookForeign(t *turn) sample {
	s, r := t.o.Supervisor, t.o.Report
	switch {
	case t.o.Reach == ReachForeign:
		return plain(true, t.how())
	case r == nil:
		return sample{}
	case s.State == SupervisorFailed || s.State == SupervisorStopped:
		return plain(true, fmt.Sprintf("the supervisor says %s, but pid %d answers", s.State, r.PID))
	}
	return plain(false, "")
}

func sayForeign(_ *turn, r *ruleResult) string {
	return "somebody else answers in the collector's place (" + r.sample.detail + ")"
}

func lookInconsistent(t *turn) sample {
	if t.o.Report == nil {
		return sample{}
	}
	return plain(t.conflict != "", t.conflict)
}

func sayInconsistent(_ *turn, r *ruleResult) string {
	return "the health report contradicts itself (" + r.sample.detail + "): rules about the sink do not read it"
}

func lookSlow(t *turn) sample {
	if t.o.Reach != ReachOK {
		return sample{}
	}
	return t.over(t.o.Latency.Seconds(), t.p.Rules.Slow.Threshold.Seconds(), unitSeconds)
}

func saySlow(_ *turn, r *ruleResult) string {
	return fmt.Sprintf("the health report takes %s", length(seconds(r.state.Number)))
}

// lookDrift is bad while the collector runs something else than the mode file
// says, and nobody is about to change that.
func lookDrift(t *turn) sample {
	r := t.o.Report
	if r == nil || t.s.Action != nil || t.o.ModeFile.Err != "" || r.State == healthapi.StateStopping {
		return sample{}
	}
	file := t.o.ModeFile.File.Mode
	const still = 15 * time.Second
	settled := min(t.p.Rules.Drift.For, still)
	drifts := mode.Mode(r.Mode) != file
	if drifts && t.within(t.s.Mode.FileAt, settled) {
		return sample{} // give it time to follow
	}
	return plain(drifts, fmt.Sprintf("it runs %s, the mode file says %s", r.Mode, file))
}

func sayDrift(t *turn, r *ruleResult) string {
	said := "the collector does not follow the mode file: " + r.sample.detail
	if t.o.Report != nil && t.o.Report.ModeFileError != "" {
		said += "; it says: " + t.o.Report.ModeFileError
	}
	return said
}

func lookFallbackReady(t *turn) sample {
	r := t.o.Report
	if r == nil || r.Mode == string(mode.Fallback) || r.State == healthapi.StateStarting {
		return sample{}
	}
	why := fallbackTrouble(r.Fallback)
	return plain(why != "", why)
}

// fallbackTrouble says why the fallback would not work; empty when it would or
// when nobody has tried yet.
func fallbackTrouble(f healthapi.Fallback) string {
	switch {
	case !f.Configured:
		return "no fallback is configured"
	case !f.Valid:
		return "the fallback config is not valid: " + f.LastError
	case !f.Ready && f.LastCheckAt != nil:
		return "the fallback does not work: " + f.LastError
	}
	return ""
}

func sayFallbackReady(_ *turn, r *ruleResult) string {
	return r.sample.detail + ": if Kinesis fails now, there is nowhere to divert to"
}
