package decide_test

import (
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

func TestPause_nothingIsDoneAndNothingIsForgotten(t *testing.T) {
	s := settled(t)
	s.say(decide.CommandPause, "", 2*time.Hour)
	s.kinesis = false
	s.run(30 * time.Minute)
	s.wantNoStart()
	s.wantBlocked("authority")
	if got := s.s.Authority.Orders[decide.Paused].Suppressed; got != 1 {
		t.Fatalf("%d suppressed acts counted, want 1", got)
	}
	s.say(decide.CommandResume, "", 0)
	s.run(20 * time.Second) // first it looks
	s.wantNoStart()
	s.run(time.Minute)
	s.wantStarts(decide.Divert)
}

func TestPause_stoppedCollectorStaysStopped(t *testing.T) {
	s := settled(t)
	s.say(decide.CommandPause, "", 0)
	s.up, s.restartsItself = false, false
	s.run(time.Hour)
	s.wantNoStart()
}

func TestPause_survivesAReboot(t *testing.T) {
	s := settled(t)
	s.say(decide.CommandPause, "", 3*time.Hour)
	s.tick()
	s.bootID, s.boot = "kernel-2", 20*time.Second
	s.wall = s.wall.Add(10 * time.Minute)
	s.firstOfRun = true
	s.kinesis = false
	s.run(2 * time.Hour)
	s.wantAuthority(decide.Paused)
	s.wantNoStart()
	s.run(time.Hour)
	s.wantAuthority(decide.Auto)
}

func TestPause_inTheMiddleOfASwitch_letsItEnd(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.until(10*time.Minute, "switching", func() bool { return s.s.Action != nil && s.s.Action.Step == decide.Switch })
	s.say(decide.CommandPause, "", 0)
	s.untilMode(time.Minute, decide.Fallback)
	s.wantAuthority(decide.Paused)
}

func TestPause_beforeAnythingIsWritten_endsTheAction(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.until(10*time.Minute, "claimed", func() bool { return s.s.Action != nil })
	s.say(decide.CommandPause, "", 0)
	s.run(10 * time.Minute)
	if s.file.Rev != 0 || s.s.Mode.Phase != decide.Primary || s.s.Budget.Tokens != s.p.Budget.Tokens {
		t.Fatalf("%s, file %+v, budget %+v", s.explain.Summary, s.file, s.s.Budget)
	}
}

func TestPinned_liveness_isStillRestarted(t *testing.T) {
	s := settled(t)
	s.say(decide.CommandPin, mode.Primary, 0)
	s.run(time.Minute)
	s.kinesis = false
	s.run(20 * time.Minute)
	s.wantBlocked("authority")
	s.hung = true
	s.until(5*time.Minute, "restarted", func() bool { return s.starts == 2 })
	if s.runs != mode.Primary {
		t.Fatal("the pin was not respected")
	}
}

func TestSwitch_midAction_theOrderWins(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.until(10*time.Minute, "flushing", func() bool { return s.s.Action != nil && s.s.Action.Step == decide.Flush })
	s.say(decide.CommandPin, mode.Primary, 0)
	s.until(2*time.Minute, "pinned", func() bool { return s.file.Pinned })
	if s.file.Mode != mode.Primary || s.file.By != "person alice" {
		t.Fatalf("file %+v", s.file)
	}
	s.run(time.Hour)
	if s.s.Mode.Phase != decide.Primary {
		t.Fatal(s.explain.Summary)
	}
}

func TestSwitch_asksNoRuleHoldOrBudget(t *testing.T) {
	s := settled(t)
	s.s.Budget.Tokens = 0
	s.say(decide.CommandSwitch, mode.Fallback, 0)
	s.untilMode(2*time.Minute, decide.Fallback)
	s.say(decide.CommandSwitch, mode.Primary, 0)
	s.untilMode(2*time.Minute, decide.Probation)
	if s.s.Mode.Flaps != 0 {
		t.Fatal("a planned there and back counts as a flap")
	}
}

func TestSwitch_whileHandedOver_isObeyed(t *testing.T) {
	s := rows["T8a"](t)
	s.crashInMode = ""
	s.say(decide.CommandSwitch, mode.Fallback, 0)
	s.untilMode(5*time.Minute, decide.Fallback)
	s.wantAuthority(decide.HandedOver)
}

// The state says fallback, but the collector really runs primary: an order for
// fallback is no "already there".
func TestSwitch_toWhereTheStateIsButTheCollectorIsNot_isDone(t *testing.T) {
	s := fallenBack(t)
	s.say(decide.CommandPause, "", 0)
	s.runs = mode.Primary
	s.run(time.Minute)
	s.say(decide.CommandSwitch, mode.Fallback, 0)
	s.until(2*time.Minute, "it runs fallback", func() bool { return s.runs == mode.Fallback && s.s.Action == nil })
}

func TestCommands_withoutNameReasonOrSense_areRefused(t *testing.T) {
	for name, c := range map[string]decide.Command{
		"nobody":      {ID: "x", Kind: decide.CommandPause, Reason: "r"},
		"no reason":   {ID: "x", Kind: decide.CommandPause, By: "alice"},
		"unknown":     {ID: "x", Kind: "dance", By: "alice", Reason: "r"},
		"no mode":     {ID: "x", Kind: decide.CommandSwitch, By: "alice", Reason: "r"},
		"bad mode":    {ID: "x", Kind: decide.CommandPin, Mode: "s3", By: "alice", Reason: "r"},
		"in the past": {ID: "x", Kind: decide.CommandPause, For: -1, By: "alice", Reason: "r"},
	} {
		t.Run(name, func(t *testing.T) {
			s := settled(t)
			before := s.s.Authority
			s.commands = []decide.Command{c}
			s.tick()
			if s.noted("command/x", decide.Warning) != 1 || s.s.Authority.Phase != before.Phase || s.s.Pending != nil {
				t.Fatalf("not refused: %v", s.notes)
			}
		})
	}
}

// A dry run decides what a real run decides, at nearly the same time, and
// touches nothing.
func TestDryRun_decidesAsTheRealRunAndTouchesNothing(t *testing.T) {
	outage := func(s *sim) []decide.Action {
		s.run(5 * time.Minute)
		s.kinesis = false
		s.run(20 * time.Minute)
		s.kinesis = true
		s.run(2 * time.Hour)
		if s.p.DryRun {
			return s.would
		}
		return s.started
	}
	dry := newSim(t)
	dry.p.DryRun = true
	imagined, real := outage(dry), outage(newSim(t))
	if len(dry.done) != 0 || len(dry.started) != 0 || dry.file.Rev != 0 || dry.starts != 1 {
		t.Fatalf("the dry run did %v", dry.done)
	}
	if len(imagined) != 2 || len(real) != 2 || imagined[0].Kind != decide.Divert || imagined[1].Kind != decide.Return {
		t.Fatalf("imagined %v, really %v", imagined, real)
	}
	if d := imagined[0].StartedAt.Sub(real[0].StartedAt); d > dry.poll || d < -dry.poll {
		t.Fatalf("the divert was imagined %s from the real one", d)
	}
	if d := imagined[1].StartedAt.Sub(real[1].StartedAt); d > time.Minute || d < -time.Minute {
		t.Fatalf("the return was imagined %s from the real one", d)
	}
}

func TestModeFile_unreadable_changesNothing(t *testing.T) {
	s := fallenBack(t)
	s.fileErr = "it is empty"
	file := s.file
	s.file = mode.File{Schema: 1, Mode: mode.Primary}
	s.run(5 * time.Minute)
	if s.s.Mode.Phase != decide.Fallback {
		t.Fatal("an unreadable file was taken for a decision")
	}
	s.file, s.fileErr = file, ""
	s.run(time.Minute)
	if s.s.Mode.Phase != decide.Fallback {
		t.Fatal(s.explain.Summary)
	}
}

// A person's write and the collector's own rewrite of ours are told apart.
func TestModeFile_rewrittenToSayTheSame_isNobodysDecision(t *testing.T) {
	s := fallenBack(t)
	s.file.Rev++
	s.file.By = "collector"
	s.tick()
	if s.decision.Verb == decide.Adopt || s.taken["T18b"] > 0 {
		t.Fatal("adopted what was already so")
	}
	s.kinesis = true
	s.untilMode(time.Hour, decide.Probation) // and the revision is known for the next write
}

func TestReasons_areSentencesOfTheField(t *testing.T) {
	s := fallenBack(t)
	want := "Kinesis has taken nothing for 5m30s while 33,000 events wait (threshold 5m, bad for 30s of 30s): diverting to the fallback"
	if got := s.started[0].Reason; got != want {
		t.Fatalf("reason\n%s\nwant\n%s", got, want)
	}
	if got := s.file.Reason; got != want {
		t.Fatalf("the mode file says %q", got)
	}
}

func TestFallbackNotReady_isKnownBeforeItIsNeededAndUsedOnlyAsTheLastResort(t *testing.T) {
	s := settled(t)
	s.s3Ready = false
	s.run(time.Minute)
	if s.noted("rule/fallback_not_ready", decide.Warning) != 1 {
		t.Fatal("nobody was warned on a quiet day")
	}
	s.kinesis, s.limitBytes = false, 100_000_000
	s.run(12 * time.Minute)
	s.wantNoStart()
	s.wantBlocked("fallback")
	s.untilMode(20*time.Minute, decide.Fallback) // the spool is full: nothing to lose
}

func TestCluster_firingBoxAloneWaitsForTheOthers(t *testing.T) {
	s := clustered(t)
	s.kinesis = false
	s.run(30 * time.Minute)
	s.wantNoStart()
	s.wantBlocked("scope")
}

func TestCluster_lostCoordinatorChangesNothing_nearlyFullBoxEscapes(t *testing.T) {
	s := clustered(t)
	s.cluster.Connected = false
	s.kinesis = false
	s.run(30 * time.Minute)
	s.wantNoStart()
	s.wantBlocked("authority")
	s.limitBytes = int64(s.events * eventBytes * 1.08)
	s.until(5*time.Minute, "it escapes", func() bool { return len(s.started) == 1 })
}

func TestCluster_noDecisionOrAnOldOneIsNoReason(t *testing.T) {
	s := clustered(t)
	s.cluster = &decide.Cluster{Connected: true} // the key is absent
	s.run(10 * time.Minute)
	s.cluster = &decide.Cluster{Connected: true, Mode: mode.Fallback, Epoch: 0}
	s.run(10 * time.Minute)
	s.wantNoStart()
	s.wantAuthority(decide.Held)
}

func TestCluster_lost_restartsKeepTheLastToken(t *testing.T) {
	s := clustered(t)
	s.cluster.Connected = false
	s.run(time.Minute)
	s.s.Budget.Tokens = 1
	s.hung = true
	s.run(5 * time.Minute)
	s.wantNoStart()
	s.wantBlocked("budget")
}

func TestStopping_collectorIsLeftToStop(t *testing.T) {
	s := settled(t)
	s.tweak = func(r *healthapi.Report) { r.State = healthapi.StateStopping; r.Intake.Accepting = false }
	s.run(5 * time.Minute)
	s.wantNoStart()
}

func TestCluster_lost_doesNotForbidToLeaveAFallbackThatFails(t *testing.T) {
	s := clustered(t)
	s.kinesis = false
	s.cluster = &decide.Cluster{Connected: true, Mode: mode.Fallback, Epoch: 2}
	s.untilMode(10*time.Minute, decide.Fallback)
	s.cluster.Connected, s.s3, s.kinesis = false, false, true
	s.untilMode(10*time.Minute, decide.Probation)
	s.cluster.Connected = true
	s.run(time.Hour)
	s.wantStarts(decide.Divert, decide.Return) // the old decision does not call it back
}
