package decide_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

// killed is a box whose collector was killed and whose supervisor takes its time.
// The way to restart cannot start anything, as it is with a signal.
func killed(t testing.TB, ladder ...decide.Rung) *sim {
	s := settled(t)
	if len(ladder) > 0 {
		s.p.Restart.Ladder = ladder
	}
	s.rungs[decide.RungStart] = decide.StepSkipped
	s.up, s.startingFor = false, 0
	return s
}

func wantOrderKept(t *testing.T, s *sim) {
	t.Helper()
	if s.file.Mode != mode.Fallback || s.file.Rev != 1 || s.file.By != "person alice" {
		t.Fatalf("the mode file says %+v, want the order and nothing after it; did %v", s.file, s.done)
	}
	for _, done := range s.done {
		if strings.HasSuffix(done, string(decide.RungRollBack)) {
			t.Fatalf("did %v", s.done)
		}
	}
}

func TestSwitch_ofADeadCollector_waitsForItsSupervisor(t *testing.T) {
	for name, ladder := range map[string][]decide.Rung{
		"default":          nil,
		"no start":         {decide.RungLive, decide.RungRestart},
		"only a roll back": {decide.RungLive, decide.RungRestart, decide.RungRollBack},
	} {
		t.Run(name, func(t *testing.T) {
			s := killed(t, ladder...)
			s.say(decide.CommandSwitch, mode.Fallback, 0)
			s.run(20 * time.Second)
			s.startingFor = 4 * time.Second
			s.untilMode(2*time.Minute, decide.Fallback)
			s.wantAuthority(decide.Auto)
			wantOrderKept(t, s)
			if s.runs != mode.Fallback || s.starts != 2 {
				t.Fatalf("runs %s after %d starts; did %v", s.runs, s.starts, s.done)
			}
		})
	}
}

// Where the pid means nothing the gentle rungs are tried, and cannot be used.
func TestSwitch_ofACollectorOfAnotherPidNamespace_waitsForItsSupervisor(t *testing.T) {
	s := killed(t, decide.RungLive, decide.RungRestart, decide.RungRollBack)
	s.rungs[decide.RungRestart] = decide.StepFailed
	s.process = &decide.Process{}
	s.say(decide.CommandSwitch, mode.Fallback, 0)
	s.run(20 * time.Second)
	s.startingFor = 4 * time.Second
	s.untilMode(2*time.Minute, decide.Fallback)
	wantOrderKept(t, s)
}

func TestSwitch_ofACollectorThatNeverComes_isHandedOverAsOrdered(t *testing.T) {
	s := killed(t)
	s.say(decide.CommandSwitch, mode.Fallback, 0)
	s.until(5*time.Minute, "handed over", func() bool { return s.s.Authority.Phase == decide.HandedOver })
	wantOrderKept(t, s)
	if why := s.s.Authority.Orders[decide.HandedOver].Reason; !strings.Contains(why, "not rolled back") {
		t.Fatalf("the reason is %q", why)
	}
	s.run(time.Hour)
	wantOrderKept(t, s)
}

func TestSwitch_toAModeThatRanAndFailed_isRolledBackInTheWatchdogsName(t *testing.T) {
	s := settled(t)
	s.tweak = func(r *healthapi.Report) {
		if r.Mode == string(mode.Fallback) {
			r.State = healthapi.StateStarting // and gets no further
		}
	}
	s.say(decide.CommandPin, mode.Fallback, 0)
	s.until(10*time.Minute, "handed over", func() bool { return s.s.Authority.Phase == decide.HandedOver })
	if s.file.Mode != mode.Primary || s.file.By != self || s.file.Pinned || !strings.Contains(s.file.Reason, "person alice") {
		t.Fatalf("the mode file says %+v", s.file)
	}
}

// The supervisor saw the new mode fail to start, which is evidence too; that it
// had trouble with the process of before is none.
func TestSwitch_toAModeThatDoesNotStart(t *testing.T) {
	for invocation, want := range map[string]mode.Mode{"i2": mode.Primary, "i1": mode.Fallback} {
		t.Run(invocation, func(t *testing.T) {
			s := settled(t)
			s.supervisor = decide.Supervisor{State: decide.SupervisorActive, InvocationID: "i1"}
			s.tick()
			s.crashInMode = mode.Fallback
			s.say(decide.CommandSwitch, mode.Fallback, 0)
			s.until(time.Minute, "switching", func() bool { return slices.Contains(s.done, "divert/switch/restart") })
			s.supervisor = decide.Supervisor{State: decide.SupervisorAutoRestart, InvocationID: invocation}
			s.until(10*time.Minute, "handed over", func() bool { return s.s.Authority.Phase == decide.HandedOver })
			if s.file.Mode != want {
				t.Fatalf("the mode file says %+v, want %s", s.file, want)
			}
		})
	}
}

// A collector that comes just before the deadline is given the time to be seen.
func TestVerify_atTheDeadlineOfOneThatWorks_looksOn(t *testing.T) {
	s := killed(t)
	s.say(decide.CommandSwitch, mode.Fallback, 0)
	s.until(time.Minute, "verifying", func() bool { return s.s.Action != nil && s.s.Action.Step == decide.Verify })
	s.until(2*time.Minute, "near the deadline", func() bool { return s.s.Action.DeadlineAt.Sub(s.s.Now) <= 2*s.poll })
	s.startingFor = time.Second
	s.untilMode(time.Minute, decide.Fallback)
	s.wantAuthority(decide.Auto)
	wantOrderKept(t, s)
}

// A sick process with no means against it waits for its supervisor, too.
func TestRestart_ofADeadCollectorWithNoMeans_waitsForItsSupervisor(t *testing.T) {
	s := killed(t, decide.RungLive, decide.RungRestart)
	s.until(5*time.Minute, "restarting", func() bool { return s.s.Action != nil && s.s.Action.Step == decide.Verify })
	s.startingFor = 4 * time.Second
	s.until(time.Minute, "it is back", func() bool { return s.s.Action == nil })
	s.wantAuthority(decide.Auto)
}

// While the mode file does not say the target, ending the collector would bring
// it back in the mode it has: only a live switch can help.
func TestDivert_whenTheModeFileCannotBeWritten_endsNoCollector(t *testing.T) {
	s := settled(t)
	s.p.Restart.Ladder = []decide.Rung{decide.RungLive, decide.RungRestart, decide.RungTerm, decide.RungKill, decide.RungStart, decide.RungRollBack}
	s.rungs[decide.RungLive] = decide.StepFailed
	s.kinesis, s.writeErr = false, "no space left on device"
	s.until(15*time.Minute, "handed over", func() bool { return s.s.Authority.Phase == decide.HandedOver })
	s.run(time.Hour)
	if want := []string{"divert/claimed", "divert/flush", "divert/mode_written", "divert/switch/live"}; !slices.Equal(s.done, want) || s.starts != 1 {
		t.Fatalf("did %v, %d starts", s.done, s.starts)
	}
	why := s.s.Authority.Orders[decide.HandedOver].Reason
	for _, part := range []string{"no space left on device", "live: it does not work"} {
		if !strings.Contains(why, part) {
			t.Errorf("the reason is %q, want it to tell %q", why, part)
		}
	}
}

// dying is a box whose collector was killed while a thread of it hung on its disk.
func dying(t testing.TB) *sim {
	s := settled(t)
	s.hung = true
	s.process = &decide.Process{Known: true, Alive: true, SameStart: true, State: "Z", CPUKnown: true, Dying: true}
	return s
}

func TestProcess_dying_isToldAndNothingIsStartedBesideIt(t *testing.T) {
	for name, supervisor := range map[string]decide.Supervisor{
		"nobody supervises": {},
		"given up":          {State: decide.SupervisorFailed, Result: "timeout"},
		"start limit":       {State: decide.SupervisorFailed, Result: decide.ResultStartLimit},
	} {
		t.Run(name, func(t *testing.T) {
			s := dying(t)
			s.supervisor = supervisor
			s.run(20 * time.Minute)
			s.wantNoStart()
			s.wantBlocked("dying")
			if n := s.noted("process", decide.Page); n != 1 {
				t.Errorf("paged %d times", n)
			}
		})
	}
}

func TestSwitch_ofADyingCollector_waitsForItsEnd(t *testing.T) {
	s := dying(t)
	s.say(decide.CommandSwitch, mode.Fallback, 0)
	s.run(30 * time.Second)
	if want := []string{"divert/claimed", "divert/mode_written", "divert/verify"}; !slices.Equal(s.done, want) {
		t.Fatalf("did %v, want %v", s.done, want)
	}
	s.process, s.up, s.startingFor = nil, false, 4*time.Second
	s.untilMode(2*time.Minute, decide.Fallback)
	wantOrderKept(t, s)
}

func TestDivert_killedAndDying_isHandedOverWithThatReason(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.rungs[decide.RungRestart] = decide.StepFailed
	s.until(10*time.Minute, "switching", func() bool { return slices.Contains(s.done, "divert/switch/restart") })
	s.hung, s.process = true, dying(t).process
	s.until(5*time.Minute, "handed over", func() bool { return s.s.Authority.Phase == decide.HandedOver })
	if why := s.s.Authority.Orders[decide.HandedOver].Reason; !strings.Contains(why, "hangs in the kernel") {
		t.Errorf("the reason is %q", why)
	}
	if slices.Contains(s.done, "divert/switch/start") || s.file.Mode != mode.Fallback {
		t.Errorf("did %v; the mode file says %+v", s.done, s.file)
	}
}
