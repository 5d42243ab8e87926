package decide_test

import (
	"slices"
	"testing"
	"time"

	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

func TestReturn_shortRecoveriesNeverReturn(t *testing.T) {
	s := fallenBack(t)
	for range 30 {
		s.kinesis = true
		s.run(20 * time.Second)
		s.kinesis = false
		s.run(time.Minute)
	}
	s.wantStarts(decide.Divert)
}

func TestReturn_oneBadProbeBeginsAnew(t *testing.T) {
	s := fallenBack(t)
	s.run(15 * time.Minute) // the hold is over
	s.kinesis = true
	s.run(4 * time.Minute)
	s.kinesis = false
	s.tick()
	s.kinesis = true
	s.run(4 * time.Minute)
	s.wantStarts(decide.Divert)
	s.run(2 * time.Minute)
	s.wantStarts(decide.Divert, decide.Return)
}

// A prober that hangs leaves its last good word standing for ever.
func TestReturn_stuckProberIsNoEvidence(t *testing.T) {
	s := fallenBack(t)
	s.kinesis = true
	s.run(2 * time.Minute)
	s.probeBroken = true
	s.tweak = nil
	s.probeOK = 10 * time.Minute
	s.run(2 * time.Hour)
	s.wantStarts(decide.Divert)
}

func TestReturn_waitsForTheHold(t *testing.T) {
	s := fallenBack(t)
	at := s.s.Now
	s.kinesis = true
	s.until(time.Hour, "a return", func() bool { return len(s.started) == 2 })
	if held := s.started[1].StartedAt.Sub(at); held < 10*time.Minute || held > 11*time.Minute {
		t.Fatalf("returned after %s, want the hold of 10m", held)
	}
}

func TestReturn_leavesTheLastTokenForADivert(t *testing.T) {
	s := fallenBack(t)
	s.kinesis = true
	s.s.Budget.Tokens, s.s.Budget.RefillAt = 1, s.s.Now
	s.run(19 * time.Minute)
	s.wantStarts(decide.Divert)
	s.wantBlocked("budget")
	s.run(3 * time.Minute)
	s.wantStarts(decide.Divert, decide.Return)
}

func TestHold_doublesPerFlapAndDecays(t *testing.T) {
	s := settled(t)
	s.p.Budget = decide.BudgetPolicy{Tokens: 100, Refill: time.Second, PerHour: 1000, Reserve: 1}
	var holds []time.Duration
	for range 7 {
		s.kinesis = false
		s.until(time.Hour, "fallback", func() bool { return s.s.Mode.Phase == decide.Fallback })
		holds = append(holds, s.s.Mode.HoldUntil.Sub(s.s.Now))
		s.kinesis = true
		s.until(5*time.Hour, "probation", func() bool { return s.s.Mode.Phase == decide.Probation })
	}
	m := time.Minute
	if want := []time.Duration{10 * m, 20 * m, 40 * m, 80 * m, 160 * m, 240 * m, 240 * m}; !slices.Equal(holds, want) {
		t.Fatalf("holds %v, want %v", holds, want)
	}
	s.run(12*time.Hour + 30*time.Minute)
	if s.s.Mode.Flaps != 0 {
		t.Fatalf("%d flaps after twelve clean hours, want none", s.s.Mode.Flaps)
	}
}

// A long outage with a partial recovery in between: one divert, one return.
func TestOutage_withPartialRecovery_isOneDivertAndOneReturn(t *testing.T) {
	s := fallenBack(t)
	s.run(3 * time.Hour)
	for range 60 { // half the shards work: some probes are good
		s.kinesis = !s.kinesis
		s.run(4 * time.Minute)
	}
	s.kinesis = true
	s.run(3 * time.Hour)
	s.wantStarts(decide.Divert, decide.Return)
	if s.noted("outage", decide.Warning) != 1 || s.resolved("outage") != 1 {
		t.Fatal("told more than once")
	}
}

func TestLadder_climbsEachRungOnce(t *testing.T) {
	s := settled(t)
	s.kinesis, s.crashInMode = false, mode.Fallback
	s.until(30*time.Minute, "handed over", func() bool { return s.s.Authority.Phase == decide.HandedOver })
	want := []string{
		"divert/claimed", "divert/flush", "divert/mode_written", "divert/switch/restart", "divert/verify/restart",
		"divert/switch/start", "divert/verify/start", // nothing to signal: it is gone
		"divert/mode_written/roll_back", "divert/switch/roll_back", "divert/verify/roll_back",
	}
	if !slices.Equal(s.done, want) {
		t.Fatalf("did %v\nwant %v", s.done, want)
	}
	if s.noted("handed_over", decide.Page) != 1 {
		t.Fatal("nobody was woken")
	}
	s.wantStarts(decide.Divert)
}

func TestLadder_liveFirstThenRestart(t *testing.T) {
	for name, ignores := range map[string]bool{"works": false, "is ignored": true} {
		t.Run(name, func(t *testing.T) {
			s := settled(t)
			s.p.Restart.Ladder = []decide.Rung{decide.RungLive, decide.RungRestart, decide.RungRollBack}
			s.kinesis, s.ignoresLive = false, ignores
			s.untilMode(15*time.Minute, decide.Fallback)
			if restarted := s.starts == 2; restarted != ignores {
				t.Fatalf("restarted %v, want %v", restarted, ignores)
			}
		})
	}
}

func TestSteps_lateDoubledAndForeignResultsAreDropped(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.until(10*time.Minute, "switching", func() bool { return s.s.Action != nil && s.s.Action.Step == decide.Switch })
	good := *s.result
	for _, r := range []decide.Result{
		{ActionID: good.ActionID, Step: decide.Flush, Outcome: decide.StepFailed},
		{ActionID: "another", Step: decide.Switch, Rung: good.Rung, Outcome: decide.StepFailed},
		{ActionID: good.ActionID, Step: decide.Switch, Rung: decide.RungKill, Outcome: decide.StepFailed},
	} {
		s.result = &r
		s.tick()
		if s.s.Action.Step != decide.Switch || s.s.Action.Rung != good.Rung {
			t.Fatalf("%+v moved the action to %s by %s", r, s.s.Action.Step, s.s.Action.Rung)
		}
	}
	s.result = &good
	s.tick()
	s.result = &good
	s.tick()
	s.untilMode(time.Minute, decide.Fallback)
	s.wantStarts(decide.Divert)
}

// The watchdog dies at every step of a divert, before or after the step was
// done, and comes back: it ends in fallback, with one action and one token.
func TestDeath_atEveryStep_endsInTheSamePlace(t *testing.T) {
	for _, step := range []decide.Step{decide.Claimed, decide.Flush, decide.ModeWritten, decide.Switch, decide.Verify} {
		for name, stepWasDone := range map[string]bool{"before": false, "after": true} {
			t.Run(string(step)+" "+name, func(t *testing.T) {
				s := settled(t)
				s.kinesis = false
				s.until(10*time.Minute, "an action", func() bool { return s.s.Action != nil || len(s.started) > 0 })
				for s.s.Action.Step != step {
					s.mute = !stepWasDone && nextIs(s, step)
					s.tick()
				}
				s.mute = false
				s.died(7 * time.Second)
				s.untilMode(3*time.Minute, decide.Fallback)
				if s.file.Rev != 1 || s.starts != 2 || s.s.Budget.Tokens != s.p.Budget.Tokens-1 {
					t.Fatalf("file rev %d, %d starts, budget %+v; did %v", s.file.Rev, s.starts, s.s.Budget, s.done)
				}
				s.wantStarts(decide.Divert)
			})
		}
	}
}

func nextIs(s *sim, step decide.Step) bool {
	order := []decide.Step{decide.Claimed, decide.Flush, decide.ModeWritten, decide.Switch, decide.Verify}
	i := slices.Index(order, s.s.Action.Step)
	return i+1 < len(order) && order[i+1] == step
}

// Killed right after every restart order, again and again: the budget on disk
// limits the restarts.
func TestDeath_rightAfterEveryOrder_keepsTheBudget(t *testing.T) {
	s := settled(t)
	s.up, s.restartsItself = false, false
	s.restartTakes = 24 * time.Hour
	for range 50 {
		s.until(5*time.Minute, "an order or none for five minutes", func() bool {
			return s.decision.Verb == decide.Start || s.decision.Verb == decide.Continue || s.s.Authority.Phase == decide.HandedOver
		})
		s.died(2 * time.Second)
		s.tick()
		if s.s.Authority.Phase == decide.HandedOver {
			s.say(decide.CommandAck, "", 0) // a person who hopes
		}
	}
	minutes := s.s.Now.Sub(s.started[0].StartedAt)
	if got, most := len(s.started), s.p.Budget.Tokens+int(minutes/s.p.Budget.Refill); got > most {
		t.Fatalf("%d acts in %s, want %d at most", got, minutes, most)
	}
}

func TestAmnesia_looksOnFirstAndHasOneToken(t *testing.T) {
	s := newSim(t)
	s.s = decide.Amnesia(s.p, "the state file is empty")
	s.kinesis = false
	s.events, s.sinceWrite = 1e5, time.Hour
	s.run(55 * time.Second)
	s.wantNoStart()
	s.wantBlocked("startup_grace")
	s.run(time.Minute)
	s.wantStarts(decide.Divert)
	if s.s.Budget.Tokens != 0 {
		t.Fatalf("budget %+v", s.s.Budget)
	}
}

func TestAmnesia_inFallback_staysThereAndHolds(t *testing.T) {
	s := newSim(t)
	s.file = mode.File{Schema: 1, Mode: mode.Fallback, Rev: 7, By: self, Reason: "r"}
	s.runs = mode.Fallback
	s.kinesis = true
	s.run(9 * time.Minute)
	if s.s.Mode.Phase != decide.Fallback {
		t.Fatal(s.explain.Summary)
	}
	s.untilMode(10*time.Minute, decide.Probation)
}

func TestNoState_forbidsActsAndEndsByItself(t *testing.T) {
	s := settled(t)
	s.stateError = "no space left on device"
	s.kinesis = false
	s.run(20 * time.Minute)
	s.wantNoStart()
	s.wantBlocked("no_state")
	s.stateError = ""
	s.untilMode(time.Minute, decide.Fallback)
}

func TestFastProfile_secondsAreEnough(t *testing.T) {
	s := newSim(t)
	sec := time.Second
	s.poll = sec
	s.p = decide.DefaultPolicy()
	s.p.Poll = decide.Poll{Interval: sec, Timeout: 500 * time.Millisecond}
	s.p.StartupGrace, s.p.Settle = 2*sec, 2*sec
	s.p.Flush.Timeout, s.p.Restart.Timeout, s.p.Restart.StopTimeout, s.p.Verify.Hold = 2*sec, 8*sec, 2*sec, 2*sec
	s.p.Recover = decide.RecoverPolicy{For: 3 * sec, EarlyFor: 2 * sec, Stale: 10 * sec, MinHold: 5 * sec, MaxHold: 20 * sec, MaxBacklog: time.Minute, Probation: 3 * sec}
	s.p.Budget.Refill, s.p.Budget.PerHour = sec, 60
	s.p.Rules.LastWriteAge = decide.AgeRule{Threshold: 3 * sec, For: 3 * sec}
	if err := s.p.Validate(); err != nil {
		t.Fatal(err)
	}
	s.restartTakes = sec
	s.run(10 * sec)
	s.kinesis = false
	s.untilMode(30*sec, decide.Fallback)
	s.kinesis = true
	s.untilMode(60*sec, decide.Primary)
	s.wantStarts(decide.Divert, decide.Return)
}
