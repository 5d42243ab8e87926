package decide_test

import (
	"testing"
	"time"

	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

func TestProcess_oneLostPollNeverActs(t *testing.T) {
	for _, reach := range decide.Reaches() {
		s := settled(t)
		s.reach = reach
		s.tick()
		s.reach = ""
		s.run(10 * time.Minute)
		s.wantNoStart()
		if s.s.Liveness.Phase != decide.Up {
			t.Fatalf("%s: %s", reach, s.s.Liveness.Phase)
		}
	}
}

// Every way of not answering ends in the same place, at nearly the same time.
func TestProcess_everyKindOfSilenceLeadsToTheSameRestart(t *testing.T) {
	var first decide.Moment
	for _, reach := range decide.Reaches() {
		s := settled(t)
		s.reach, s.process = reach, &decide.Process{Known: true, Alive: true, SameStart: true, State: "T", CPUKnown: true}
		s.run(3 * time.Minute)
		switch reach {
		case decide.ReachOK, decide.ReachForeign:
			s.wantNoStart()
			continue
		}
		if len(s.started) == 0 {
			t.Fatalf("%s: not restarted, %v", reach, s.explain.BlockedBy)
		}
		at := s.started[0].StartedAt
		if first == 0 {
			first = at
		}
		if d := at.Sub(first); d > 2*s.poll || d < -2*s.poll {
			t.Fatalf("%s: restarted %s from the others", reach, d)
		}
	}
}

func TestProcess_healthPortFlappingWhilePublicServes_isNeverRestarted(t *testing.T) {
	s := settled(t)
	s.public = decide.PublicOK
	for i := range 120 {
		s.reach = ""
		if i%2 == 0 {
			s.reach = decide.ReachTimeout
		}
		s.tick()
	}
	s.wantNoStart()
}

func TestProcess_healthPortDead_pagesBlindAndStillObeysPeople(t *testing.T) {
	s := settled(t)
	s.reach, s.public = decide.ReachTimeout, decide.PublicOK
	s.run(20 * time.Minute)
	s.wantNoStart()
	if s.noted("rule/blind", decide.Page) != 1 {
		t.Fatal("nobody was told that the watchdog is blind")
	}
	s.say(decide.CommandSwitch, mode.Fallback, 0)
	s.until(5*time.Minute, "the mode file says fallback", func() bool { return s.file.Mode == mode.Fallback })
}

func TestProcess_silentWithoutAnyOtherWitness_isLeftAlone(t *testing.T) {
	s := settled(t)
	s.reach = decide.ReachTimeout
	s.process = &decide.Process{}
	o := func() { // the public port cannot be asked either
		s.live(s.poll)
		s.boot += s.poll
		s.wall = s.wall.Add(s.poll)
		obs := s.observe()
		obs.Public = decide.PublicNotTried
		s.see(obs)
	}
	for range 60 {
		o()
	}
	s.wantNoStart()
	s.wantBlocked("witness")
}

// A process that uses CPU makes progress: overload is not a hang.
func TestProcess_overloaded_isNotRestarted(t *testing.T) {
	s := settled(t)
	s.public = decide.PublicFailed
	s.process = &decide.Process{Known: true, Alive: true, SameStart: true, State: "R", CPUKnown: true, CPUMoved: true}
	for i := range 12 * 30 {
		s.reach = decide.ReachTimeout
		if i%4 == 3 {
			s.reach = "" // answers now and then
		}
		s.tick()
	}
	s.wantNoStart()
}

func TestProcess_spinning_isRestartedAfterThreeTimesTheEvidence(t *testing.T) {
	s := settled(t)
	s.reach, s.public = decide.ReachTimeout, decide.PublicFailed
	s.process = &decide.Process{Known: true, Alive: true, SameStart: true, State: "R", CPUKnown: true, CPUMoved: true}
	s.run(4 * time.Minute)
	s.wantNoStart()
	s.wantBlocked("patience")
	s.run(2 * time.Minute)
	s.wantStarts(decide.RestartSame)
}

func TestProcess_starvedBox_isGivenPatience(t *testing.T) {
	s := settled(t)
	s.hung, s.pressure = true, 80
	s.run(3 * time.Minute)
	s.wantNoStart()
	s.wantBlocked("patience")
}

func TestProcess_watchdogStoppedForTenMinutes_actsOnNothingOld(t *testing.T) {
	for name, prepare := range map[string]func(s *sim){
		"steady":  func(*sim) {},
		"suspect": func(s *sim) { s.hung = true; s.run(30 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			s := settled(t)
			prepare(s)
			s.boot += 10 * time.Minute
			s.wall = s.wall.Add(10 * time.Minute)
			s.tick()
			s.wantNoStart()
			if len(s.explain.Remarks) == 0 {
				t.Fatal("the hole is not remarked")
			}
			s.hung = false
			s.run(5 * time.Minute)
			s.wantNoStart()
		})
	}
}

func TestProcess_restartedByAPerson_isNotCountedAsOurs(t *testing.T) {
	s := settled(t)
	s.supervisor = decide.Supervisor{State: decide.SupervisorActive, InvocationID: "one"}
	s.run(time.Minute)
	s.restart()
	s.supervisor = decide.Supervisor{State: decide.SupervisorActive, InvocationID: "two"}
	s.run(2 * time.Minute)
	s.wantNoStart()
	if got := len(s.s.Liveness.Starts); got != 1 {
		t.Fatalf("%d starts counted, want 1", got)
	}
	if s.s.Budget.Tokens != s.p.Budget.Tokens {
		t.Fatal("it was paid from the budget")
	}
}

// The supervisor restarts it again and again: every attempt begins the settling
// anew, and nothing is ever sent in step with it.
func TestProcess_supervisorActivatingForFiveMinutes_isLeftToIt(t *testing.T) {
	s := settled(t)
	s.up, s.restartsItself = false, false
	for i := range 60 {
		s.supervisor = decide.Supervisor{State: decide.SupervisorActivating}
		if i%2 == 0 {
			s.supervisor.State = decide.SupervisorAutoRestart
		}
		s.tick()
	}
	s.wantNoStart()
	s.wantBlocked("supervisor")
}

func TestProcess_deadWithNobodyToRestartIt_isStarted(t *testing.T) {
	s := settled(t)
	s.up, s.restartsItself = false, false
	s.supervisor = decide.Supervisor{State: decide.SupervisorFailed, Result: "exit-code"}
	s.run(3 * time.Minute)
	s.wantStarts(decide.RestartSame)
	for _, d := range s.done {
		if d == "restart_same/switch/restart" || d == "restart_same/switch/term" {
			t.Fatalf("signalled a dead process: %v", s.done)
		}
	}
}

// Its pid now belongs to somebody else: that is a dead collector.
func TestProcess_pidReused_isDead(t *testing.T) {
	s := settled(t)
	s.up, s.restartsItself = false, false
	s.process = &decide.Process{Known: true, Alive: true, SameStart: false, State: "S", CPUKnown: true, CPUMoved: true}
	s.run(3 * time.Minute)
	s.wantStarts(decide.RestartSame)
}

func TestProcess_startLimit_isResetOnceAnHour(t *testing.T) {
	s := settled(t)
	s.up, s.restartsItself = false, false
	s.supervisor = decide.Supervisor{State: decide.SupervisorFailed, Result: decide.ResultStartLimit}
	s.rungs[decide.RungStart] = decide.StepFailed
	s.run(10 * time.Minute)
	s.say(decide.CommandAck, "", 0)
	s.run(30 * time.Minute)
	s.wantStarts(decide.RestartSame)
	s.run(30 * time.Minute)
	s.wantStarts(decide.RestartSame, decide.RestartSame)
}

func TestProcess_neverAnsweredYet_isGivenTimeToStart(t *testing.T) {
	s := newSim(t)
	s.up, s.restartsItself = false, false
	s.process = &decide.Process{}
	s.run(55 * time.Second)
	s.wantNoStart()
}

// Kinesis and the process fail together: first the process, since a divert that
// nobody can confirm is none.
func TestProcess_sickProcessNeverDiverts(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.run(5*time.Minute + 10*time.Second)
	s.hung = true
	s.until(5*time.Minute, "an action", func() bool { return len(s.started) > 0 })
	s.wantStarts(decide.RestartSame)
}

func TestProcess_supervisorSaysDeadButSomebodyAnswers_isToldNotTouched(t *testing.T) {
	s := settled(t)
	s.supervisor = decide.Supervisor{State: decide.SupervisorFailed, Result: "exit-code"}
	s.run(20 * time.Minute)
	s.wantNoStart()
	if s.noted("rule/foreign", decide.Page) != 1 {
		t.Fatal("nobody was told")
	}
}

func TestProcess_stopAndStartByAPerson_standsByThenWatchesAgain(t *testing.T) {
	s := settled(t)
	s.up, s.restartsItself = false, false
	s.supervisor = decide.Supervisor{State: decide.SupervisorStopped, InvocationID: "one"}
	s.kinesis = false
	s.run(time.Hour)
	s.say(decide.CommandSwitch, mode.Fallback, 0)
	s.run(10 * time.Minute)
	s.wantNoStart()
	s.wantBlocked("standby")
	s.supervisor = decide.Supervisor{State: decide.SupervisorActive, InvocationID: "two"}
	s.restart()
	s.untilMode(2*time.Minute, decide.Fallback) // the order that waited is carried out now
}
