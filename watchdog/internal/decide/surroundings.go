package decide

import (
	"fmt"
	"time"
)

// Surroundings is what the policy has to fit in with. A value that is not known
// is zero and is not checked.
type Surroundings struct {
	//lint:ignore ST1011 it is systemd's name for the setting
	WatchdogSec        time.Duration // the supervisor's own watchdog
	TimeoutAbort       time.Duration
	TimeoutStop        time.Duration // before the supervisor kills
	TimeoutStart       time.Duration
	UsualStart         time.Duration // how long the collector takes to start; 10s when zero
	StartLimitBurst    int
	StartLimitInterval time.Duration

	Kubernetes       bool
	TerminationGrace time.Duration
	LivenessFor      time.Duration // period times failureThreshold of the liveness probe
	LivenessGrace    time.Duration

	SessionTTL   time.Duration // of the coordinator
	SessionRenew time.Duration
	SlotWait     time.Duration // how long a box may wait for its turn to restart
}

// Finding is a timing that does not fit.
type Finding struct {
	Invariant string // I1 to I10
	Key       string // the YAML key to change
	// Refuse means that the policy would do harm; otherwise it is a warning.
	Refuse bool
	Text   string
}

// Check tells which timings of a valid policy do not fit its surroundings, and
// why they must. I1, I9 and I10 are part of [Policy.Validate].
func (p Policy) Check(s Surroundings) []Finding {
	var found []Finding
	want := func(ok bool, f Finding, format string, args ...any) {
		if !ok {
			f.Text = fmt.Sprintf(format, args...)
			found = append(found, f)
		}
	}
	start := s.UsualStart
	if start <= 0 {
		start = 10 * time.Second
	}
	unreachable := p.Rules.Unreachable.For
	if s.WatchdogSec > 0 && unreachable > 0 {
		inner := s.WatchdogSec + s.TimeoutAbort + start
		want(unreachable >= inner, Finding{Invariant: "I2", Key: "rules.unreachable.for"},
			"is %s: the supervisor's own watchdog needs %s (WatchdogSec + TimeoutAbortSec + a start) and goes first, or two would restart the collector at once", length(unreachable), length(inner))
	}
	if s.LivenessFor > 0 && unreachable > 0 {
		inner := s.LivenessFor + s.LivenessGrace
		want(unreachable >= inner, Finding{Invariant: "I2", Key: "rules.unreachable.for"},
			"is %s: the liveness probe of the pod needs %s and goes first, or two would restart the collector at once", length(unreachable), length(inner))
	}
	for _, limit := range []struct {
		name string
		d    time.Duration
	}{{"TimeoutStopSec", s.TimeoutStop}, {"terminationGracePeriodSeconds", s.TerminationGrace}} {
		stop := p.Flush.Timeout + p.Restart.StopTimeout
		want(limit.d == 0 || stop < limit.d, Finding{Invariant: "I3", Key: "flush.timeout", Refuse: true},
			"flush.timeout and restart.stop_timeout together are %s, which must be less than %s (%s): else the collector is killed while it still flushes", length(stop), limit.name, length(limit.d))
	}
	if s.TimeoutStop > 0 && s.TimeoutStart > 0 {
		need := s.TimeoutStop + s.TimeoutStart + p.Verify.Hold
		want(p.Restart.Timeout >= need, Finding{Invariant: "I4", Key: "restart.timeout"},
			"is %s: TimeoutStopSec, TimeoutStartSec and verify.hold together are %s, so a restart that still goes well would be called failed", length(p.Restart.Timeout), length(need))
	}
	const kubeletReset = 10 * time.Minute
	want(!s.Kubernetes || p.Restart.Ladder[0] == RungLive || p.Recover.MinHold >= kubeletReset, Finding{Invariant: "I5", Key: "recover.min_hold", Refuse: true},
		"is %s: the kubelet forgets a restart after %s only, so a return before that runs into its crash back-off (or put live first in restart.ladder)", length(p.Recover.MinHold), length(kubeletReset))
	want(s.SessionTTL == 0 || s.SessionTTL >= 3*s.SessionRenew, Finding{Invariant: "I6", Key: "session_ttl", Refuse: true},
		"a session of %s renewed every %s is lost by two lost packets: want at least three renewals in it", length(s.SessionTTL), length(s.SessionRenew))
	if s.StartLimitBurst > 0 && s.StartLimitInterval > 0 {
		acts := float64(p.Budget.PerHour) * s.StartLimitInterval.Hours()
		want(acts <= float64(s.StartLimitBurst-2), Finding{Invariant: "I7", Key: "budget.per_hour"},
			"is %d, so %.1f restarts can fall into StartLimitIntervalSec (%s): StartLimitBurst (%d) must leave two for people and crashes", p.Budget.PerHour, acts, length(s.StartLimitInterval), s.StartLimitBurst)
	}
	if full := p.Rules.SecondsToFull; full.Threshold > 0 && full.For > 0 {
		act := 3*p.Poll.Interval + full.For + s.SlotWait + p.Flush.Timeout + start + p.Verify.Hold
		want(full.Threshold >= 3*act, Finding{Invariant: "I8", Key: "rules.seconds_to_full.threshold"},
			"is %s: noticing and diverting takes %s here, and three times that (%s) should be left when it begins", length(full.Threshold), length(act), length(3*act))
	}
	return found
}
