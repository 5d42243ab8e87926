package decide

import (
	"fmt"
	"time"
)

// freshEnough is how many observations in a row are wanted after the watchdog
// itself did not run, and half of what a start without memory waits for.
const freshEnough = 3

// stepWorthTelling is a difference between the clocks that is no drift any more.
const stepWorthTelling = 2 * time.Second

// tellTime moves the state's time axis on by what the boot clock says, and finds
// out how much of it counts as seen.
func (t *turn) tellTime() {
	s, clock := &t.s, t.o.Clock
	clock.Wall = clock.Wall.Round(0).UTC() // as it comes back from a file
	first := s.Begun.Samples == 0
	dt := time.Duration(0)
	if !first {
		dt = t.passed(s.Clock, clock)
	}
	s.Clock = clock
	s.Now = s.Now.Add(dt)
	t.now = s.Now
	s.Begun.Samples = min(s.Begun.Samples+1, 1000)
	if t.o.FirstOfRun || first {
		s.Begun.RunAt = t.now
	}
	expected := max(t.o.Expected, t.p.Poll.Interval)
	t.lived = min(dt, 2*expected)
	t.stalled = !first && !t.o.FirstOfRun && dt > 3*expected
	switch {
	case t.o.FirstOfRun:
		t.lived = 0 // nobody looked
		t.returned(dt)
		s.Seen.FreshCount = freshEnough // having been away is no sign of a starved box
	case t.stalled:
		s.Seen.StalledAt, s.Seen.FreshCount = t.now, 0
		t.remark("this watchdog was not running for %s: nothing is concluded about the process until %d fresh observations",
			length(dt), freshEnough)
	default:
		s.Seen.FreshCount = min(s.Seen.FreshCount+1, freshEnough)
	}
}

// passed is how much time there is between two readings of the clock.
func (t *turn) passed(from, to Clock) time.Duration {
	wall := to.Wall.Sub(from.Wall)
	if from.BootID == to.BootID {
		boot := to.SinceBoot - from.SinceBoot
		if step := wall - boot; step > stepWorthTelling || step < -stepWorthTelling {
			t.remark("the wall clock stepped by %s: no rule is moved by it", signed(step))
		}
		return max(boot, 0)
	}
	if wall < 0 {
		t.remark("the box was booted and its wall clock is %s behind: taking the time away as none", length(-wall))
		return 0
	}
	t.remark("the box was booted; by the wall clock %s have passed", length(wall))
	return wall
}

// returned handles the first observation of a run: evidence of before counts if
// we were away not much longer than it takes to gather it.
func (t *turn) returned(away time.Duration) {
	for name, r := range t.s.Rules {
		if def := ruleByName(name); def != nil && away > 2*def.span(t.p) && !r.Fires {
			t.s.Rules[name] = RuleState{Warned: r.Warned, ZeroAt: t.now}
		}
	}
	if away > 2*t.p.Recover.For {
		t.s.Probe = ProbeState{}
	}
}

// starved tells whether the box is short of CPU, or the watchdog itself lately
// was. Then the collector is, too, and killing it would make it worse.
func (t *turn) starved() bool {
	const recently = 5 * time.Minute
	return t.o.CPUPressure > 60 || t.s.Seen.StalledAt != 0 && t.since(t.s.Seen.StalledAt) < recently
}

func (t *turn) since(m Moment) time.Duration { return t.now.Sub(m) }

// within tells whether m exists and is less than d ago.
func (t *turn) within(m Moment, d time.Duration) bool { return m != 0 && t.since(m) < d }

func (t *turn) remark(format string, args ...any) {
	t.explain.Remarks = append(t.explain.Remarks, fmt.Sprintf(format, args...))
}
