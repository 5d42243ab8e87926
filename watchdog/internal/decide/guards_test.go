package decide_test

import (
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

func TestGuardFresh_afterAHoleThreeLooksComeFirst(t *testing.T) {
	s := settled(t)
	s.up, s.restartsItself = false, false
	s.until(2*time.Minute, "nearly fires", func() bool { return s.rule("unreachable").Evidence >= 85*time.Second })
	s.boot += 5 * time.Minute
	s.wall = s.wall.Add(5 * time.Minute)
	s.tick() // dropped
	s.tick()
	s.tick()
	s.wantNoStart()
	s.wantBlocked("fresh")
	s.tick()
	s.wantStarts(decide.RestartSame)
}

func TestGuardContact_watchdogFirstCollectorSecond(t *testing.T) {
	s := settled(t)
	s.p.Rules.Unreachable.For = 20 * time.Second
	s.up, s.restartsItself = false, false
	s.died(time.Hour)
	s.run(50 * time.Second)
	s.wantNoStart()
	s.wantBlocked("first_contact")
	s.run(20 * time.Second)
	s.wantStarts(decide.RestartSame)
}

func TestGuardWell_noReturnWhileARuleFires(t *testing.T) {
	s := fallenBack(t)
	s.kinesis = true
	s.tweak = func(r *healthapi.Report) {
		r.Backlog.Events, r.Backlog.OldestAgeSeconds, r.Drain.ETASeconds = 1000, new(700.0), nil
		r.Sink.LastWriteAgeSeconds = new(1.0)
	}
	s.run(time.Hour)
	s.wantStarts(decide.Divert)
	s.wantBlocked("rules")
}

func TestGuardBacklog_fallbackFirstTakesWhatWaits(t *testing.T) {
	s := fallenBack(t)
	s.kinesis = true
	s.tweak = func(r *healthapi.Report) {
		r.Backlog.Events, r.Backlog.OldestAgeSeconds = 1e6, new(400.0) // no rule fires yet
		r.Sink.LastWriteAgeSeconds = new(1.0)
	}
	s.run(time.Hour)
	s.wantStarts(decide.Divert)
	s.wantBlocked("backlog")
	s.tweak = nil
	s.untilMode(5*time.Minute, decide.Probation)
}

func TestGuardClusterPause_isRespected(t *testing.T) {
	s := clustered(t)
	s.cluster = &decide.Cluster{Connected: true, Mode: mode.Fallback, Epoch: 2, Paused: true}
	s.run(10 * time.Minute)
	s.wantNoStart()
	s.wantBlocked("cluster_pause")
}

func TestGuardReal_dryRunDoesNotImagineAReconcile(t *testing.T) {
	s := newSim(t)
	s.p.DryRun = true
	s.run(2 * time.Minute)
	s.runs = mode.Fallback
	s.run(10 * time.Minute)
	if len(s.would) > 0 {
		t.Fatalf("imagined %s", s.would[0].Reason)
	}
	s.wantAuthority(decide.DryRun)
}

func TestBudget_hasACeilingPerHour(t *testing.T) {
	s := settled(t)
	s.p.Budget = decide.BudgetPolicy{Tokens: 100, Refill: time.Second, PerHour: 4, Reserve: 1}
	s.p.CrashLoop.Starts = 1000
	for range 40 {
		s.hung = true
		s.run(2*time.Minute + 30*time.Second)
	}
	hour := s.started[0].StartedAt.Add(time.Hour)
	first := 0
	for _, a := range s.started {
		if a.StartedAt < hour {
			first++
		}
	}
	if first != 4 {
		t.Fatalf("%d acts within an hour, want 4", first)
	}
}

func TestEvidence_aHoleCountsAsTwoPollsAtMost(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.until(10*time.Minute, "a first bad sample", func() bool { return s.rule("last_write_age").Evidence > 0 })
	before := s.rule("last_write_age").Evidence
	s.boot += time.Hour
	s.wall = s.wall.Add(time.Hour)
	s.tick()
	if got := s.rule("last_write_age").Evidence - before; got > 2*s.poll {
		t.Fatalf("an hour that nobody saw counts as %s", got)
	}
}

func TestEvidence_timeAwayCountsAsNone(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.until(10*time.Minute, "a first bad sample", func() bool { return s.rule("last_write_age").Evidence > 0 })
	before := s.rule("last_write_age").Evidence
	s.died(9 * time.Second)
	s.tick()
	if got := s.rule("last_write_age").Evidence; got != before {
		t.Fatalf("evidence %s after the absence, want %s", got, before)
	}
}

func TestEvidence_timeAloneIsNotEnough(t *testing.T) {
	s := settled(t)
	s.p.Rules.Refusing.For = time.Second
	s.tweak = func(r *healthapi.Report) { r.State, r.Intake.Accepting = healthapi.StateRefusing, false }
	s.tick()
	s.tick()
	s.wantNoStart()
	s.tick()
	s.wantStarts(decide.Divert)
}

func TestStarts_oursAreNotCountedAsForeign(t *testing.T) {
	s := fallenBack(t)
	if got := len(s.s.Liveness.Starts); got != 0 || s.s.Liveness.StartedAt == 0 {
		t.Fatalf("%d foreign starts after our own", got)
	}
}

// The first objects of the fallback take a while, and the backlog of the outage
// is old: neither is the fallback's fault.
func TestBothFailing_isNotCalledRightAfterADivert(t *testing.T) {
	s := settled(t)
	s.kinesis, s.s3 = false, false
	s.untilMode(15*time.Minute, decide.Fallback)
	s.run(4 * time.Minute)
	if s.noted("both_failing", decide.Page) != 0 {
		t.Fatal("called failing before it had its time")
	}
	s.s3 = true
	s.run(30 * time.Minute)
	if s.noted("both_failing", decide.Page) != 0 {
		t.Fatal("called failing though it works")
	}
}

func TestEvidence_isForgottenAfterALongAbsence(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.until(10*time.Minute, "nearly fires", func() bool { return s.rule("last_write_age").Evidence >= 25*time.Second })
	s.died(2 * time.Hour)
	s.tick()
	if got := s.rule("last_write_age").Evidence; got != 0 {
		t.Fatalf("evidence %s is two hours old", got)
	}
}

func TestVerify_holds(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	var seen decide.Moment
	s.until(15*time.Minute, "fallback", func() bool {
		if seen == 0 && s.runs == mode.Fallback && s.up {
			seen = s.s.Now
		}
		return s.s.Mode.Phase == decide.Fallback
	})
	if held := s.s.Mode.Since.Sub(seen); held < s.p.Verify.Hold {
		t.Fatalf("believed after %s, want %s", held, s.p.Verify.Hold)
	}
}

// A restart that reports success and left the old process in place is no restart.
func TestVerify_theOldProcessIsNoProofOfARestart(t *testing.T) {
	s := settled(t)
	s.stalledPart = 2 * time.Minute
	s.restartTakes = 24 * time.Hour // nothing the sim does brings a new one
	s.until(5*time.Minute, "the order", func() bool { return s.s.Action != nil && s.s.Action.Step == decide.Switch })
	s.up, s.startingFor = true, 0
	s.until(5*time.Minute, "the next rung", func() bool {
		return s.s.Action != nil && s.s.Action.Rung == decide.RungTerm
	})
}

// A disk that hangs is no want of room: neither a divert nor a restart mends it,
// and nothing that did not move meanwhile is held against sink or process.
func TestDisk_thatHangs_isToldAndNothingIsDone(t *testing.T) {
	hang := func(r *healthapi.Report) {
		r.State, r.Intake.Accepting, r.Intake.Reason = healthapi.StateRefusing, false, healthapi.ReasonDiskHangs
		r.Parts["delivery"] = healthapi.Part{Alive: true, BeatAgeSeconds: 600} // it reads from that disk
		r.Kinesis.LastWriteAgeSeconds, r.Sink.LastWriteAgeSeconds = new(600.0), new(600.0)
		r.Backlog.Events, r.Backlog.OldestAgeSeconds, r.Drain.ETASeconds = 1000, new(600.0), nil
	}
	told := func(t *testing.T, s *sim) {
		t.Helper()
		if n := s.noted("rule/disk", decide.Page); n != 1 {
			t.Errorf("people were woken %d times", n)
		}
	}
	t.Run("primary", func(t *testing.T) {
		s := settled(t)
		s.tweak = hang
		s.run(20 * time.Minute)
		told(t, s)
		s.tweak = nil
		s.run(20 * time.Minute)
		s.wantNoStart()
		if s.resolved("rule/disk") != 1 {
			t.Error("its end was not told")
		}
	})
	t.Run("fallback", func(t *testing.T) {
		s := fallenBack(t)
		s.kinesis = true
		s.tweak = func(r *healthapi.Report) {
			hang(r)
			r.Kinesis.Probe = healthapi.Probe{Level: 1, LastOKAt: new(s.wall), OKForSeconds: new(900.0)}
		}
		s.run(time.Hour)
		s.wantStarts(decide.Divert)
		s.wantBlocked("disk")
		told(t, s)
	})
	t.Run("after the sink had failed", func(t *testing.T) {
		s := settled(t)
		s.kinesis = false
		s.until(10*time.Minute, "nearly fires", func() bool { return s.rule("last_write_age").Evidence >= 25*time.Second })
		s.say(decide.CommandPause, "", time.Minute)
		s.run(30 * time.Second)
		s.tweak = hang
		s.run(20 * time.Minute)
		s.wantNoStart()
		s.wantBlocked("disk")
	})
	t.Run("a person orders all the same", func(t *testing.T) {
		s := settled(t)
		s.tweak = hang
		s.say(decide.CommandSwitch, mode.Fallback, 0)
		s.untilMode(2*time.Minute, decide.Fallback)
	})
}
