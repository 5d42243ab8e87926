package decide_test

import (
	"slices"
	"testing"
	"time"

	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

// clustered is a settled box in a cluster that says primary.
func clustered(t testing.TB) *sim {
	s := newSim(t)
	s.p.Scope = decide.ScopeCluster
	s.cluster = &decide.Cluster{Connected: true, Mode: mode.Primary, Epoch: 1}
	s.run(2 * time.Minute)
	return s
}

func hungProcess(t testing.TB) *sim {
	s := settled(t)
	s.hung = true
	return s
}

func foreignStart(s *sim) {
	s.starts++
	s.seq, s.accepted = 0, 0
	s.tick()
}

func crashLoop(s *sim) {
	for range 3 {
		foreignStart(s)
		s.tick()
	}
}

// rows has, for every edge of the transition table, a story in which it is taken.
var rows map[string]func(t *testing.T) *sim

func init() {
	rows = map[string]func(t *testing.T) *sim{
		"T1": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis = false
			s.run(5*time.Minute + 25*time.Second)
			s.wantNoStart()
			return s
		},
		"T2": func(t *testing.T) *sim { return fallenBack(t) },
		"T3": func(t *testing.T) *sim {
			s := settled(t)
			s.configured, s.kinesis = false, false
			s.run(10 * time.Minute)
			s.wantNoStart()
			s.wantBlocked("fallback")
			return s
		},
		"T4": func(t *testing.T) *sim {
			s := settled(t)
			s.configured, s.kinesis = false, false
			s.run(10 * time.Minute)
			s.kinesis = true
			s.run(20 * time.Minute)
			if s.resolved("outage") != 1 {
				t.Fatal("the end of the trouble was not told once")
			}
			return s
		},
		"T5": func(t *testing.T) *sim { return fallenBack(t) },
		"T6a": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis = false
			s.until(10*time.Minute, "diverting", func() bool { return s.s.Mode.Phase == decide.Diverting })
			tokens := s.s.Budget.Tokens
			s.mute, s.kinesis, s.result = true, true, nil // the claim takes its time
			s.untilMode(time.Minute, decide.Primary)
			if got := s.s.Budget.Tokens; got != tokens+1 {
				t.Fatalf("tokens %d after the abort, want %d", got, tokens+1)
			}
			if s.file.Mode != mode.Primary {
				t.Fatal("the mode file was written")
			}
			return s
		},
		"T6b": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis, s.conflict = false, decide.Switch
			s.untilMode(10*time.Minute, decide.Fallback)
			return s
		},
		"T8a": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis, s.crashInMode = false, mode.Fallback
			s.until(30*time.Minute, "handed over", func() bool { return s.s.Authority.Phase == decide.HandedOver })
			if s.s.Mode.Phase != decide.Primary || s.runs != mode.Primary || s.file.Mode != mode.Primary || !s.up {
				t.Fatalf("not back in primary: %s, file %s", s.s.Mode.Phase, s.file.Mode)
			}
			return s
		},
		"T8b": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis, s.crashInMode = false, mode.Fallback
			s.until(20*time.Minute, "the mode is written", func() bool { return s.file.Mode == mode.Fallback })
			s.writeErr = "read-only file system"
			s.untilMode(20*time.Minute, decide.Fallback)
			s.wantAuthority(decide.HandedOver)
			return s
		},
		"T9a": func(t *testing.T) *sim {
			s := settled(t)
			s.say(decide.CommandSwitch, mode.Fallback, 0)
			s.untilMode(time.Minute, decide.Fallback)
			return s
		},
		"T9b": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.say(decide.CommandSwitch, mode.Primary, 0)
			s.untilMode(time.Minute, decide.Probation)
			return s
		},
		"T9c": func(t *testing.T) *sim {
			s := settled(t)
			s.say(decide.CommandPin, mode.Primary, 0)
			s.run(time.Minute)
			if !s.file.Pinned || s.starts != 1 {
				t.Fatalf("file %+v after %d starts, want it pinned and no restart", s.file, s.starts)
			}
			s.wantAuthority(decide.Pinned)
			return s
		},
		"T9d": func(t *testing.T) *sim {
			s := settled(t)
			s.say(decide.CommandSwitch, mode.Primary, 0)
			s.run(time.Minute)
			s.wantNoStart()
			return s
		},
		"T9e": func(t *testing.T) *sim {
			s := settled(t)
			s.say(decide.CommandPin, mode.Primary, time.Hour)
			s.run(2 * time.Hour)
			if s.file.Pinned {
				t.Fatal("the pin was not taken off the mode file")
			}
			s.wantAuthority(decide.Auto)
			return s
		},
		"T10": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.kinesis = true
			s.untilMode(time.Hour, decide.Probation)
			return s
		},
		"T10c": func(t *testing.T) *sim {
			s := clustered(t)
			s.kinesis = false
			s.cluster = &decide.Cluster{Connected: true, Mode: mode.Fallback, Epoch: 2}
			s.untilMode(10*time.Minute, decide.Fallback)
			s.kinesis = true
			s.cluster = &decide.Cluster{Connected: true, Mode: mode.Primary, Epoch: 3}
			s.run(10 * time.Minute)
			s.wantBlocked("wave")
			s.cluster.Admitted = true
			s.untilMode(time.Hour, decide.Probation)
			return s
		},
		"T11a": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.s3 = false
			s.run(5 * time.Minute)
			s.kinesis = true
			s.untilMode(4*time.Minute, decide.Probation) // long before the hold is over
			return s
		},
		"T11b": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.s3 = false
			s.run(time.Hour)
			if s.s.Mode.Phase != decide.Fallback || len(s.started) != 1 || s.noted("both_failing", decide.Page) != 1 {
				t.Fatalf("phase %s, %d actions, %d pages", s.s.Mode.Phase, len(s.started), s.noted("both_failing", decide.Page))
			}
			return s
		},
		"T11c": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.s3 = false
			s.run(10 * time.Minute)
			s.s3 = true
			s.run(10 * time.Minute)
			if s.resolved("both_failing") != 1 {
				t.Fatal("its end was not told")
			}
			return s
		},
		"T12": func(t *testing.T) *sim { return rows["T10"](t) },
		"T13a": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.kinesis, s.crashInMode = true, mode.Primary
			hold := s.s.Mode.HoldUntil
			s.until(2*time.Hour, "a flap", func() bool { return s.s.Mode.Flaps == 1 })
			if s.s.Mode.Phase != decide.Fallback || s.runs != mode.Fallback || s.s.Mode.HoldUntil <= hold {
				t.Fatalf("%s, runs %s", s.s.Mode.Phase, s.runs)
			}
			return s
		},
		"T13b": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.kinesis, s.crashInMode = true, mode.Primary
			s.until(time.Hour, "the mode is written", func() bool { return s.file.Mode == mode.Primary })
			s.writeErr = "read-only file system"
			s.untilMode(20*time.Minute, decide.Primary)
			s.wantAuthority(decide.HandedOver)
			return s
		},
		"T13c": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.kinesis = true
			s.until(time.Hour, "returning", func() bool { return s.s.Mode.Phase == decide.Returning })
			s.mute, s.result, s.kinesis = true, nil, false
			s.untilMode(time.Minute, decide.Fallback)
			return s
		},
		"T13d": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.kinesis, s.conflict = true, decide.Switch
			s.untilMode(time.Hour, decide.Primary)
			return s
		},
		"T14": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.kinesis = true
			s.untilMode(time.Hour, decide.Probation)
			s.kinesis = false
			s.untilMode(20*time.Minute, decide.Fallback)
			if s.s.Mode.Flaps != 1 {
				t.Fatalf("flaps %d, want 1", s.s.Mode.Flaps)
			}
			return s
		},
		"T15": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.kinesis = true
			s.untilMode(2*time.Hour, decide.Primary)
			if s.noted("outage", decide.Warning) != 1 || s.resolved("outage") != 1 {
				t.Fatalf("the outage was told %d times, its end %d times", s.noted("outage", decide.Warning), s.resolved("outage"))
			}
			return s
		},
		"T16": func(t *testing.T) *sim {
			s := rows["T14"](t)
			s.kinesis = true
			s.untilMode(3*time.Hour, decide.Primary)
			s.until(3*time.Hour, "no flaps", func() bool { return s.s.Mode.Flaps == 0 })
			return s
		},
		"T17a": func(t *testing.T) *sim {
			s := settled(t)
			s.runs = mode.Fallback
			s.until(3*time.Minute, "it follows again", func() bool { return s.runs == mode.Primary && s.s.Action == nil })
			s.wantStarts(decide.Reconcile)
			return s
		},
		"T17b": func(t *testing.T) *sim {
			s := settled(t)
			s.runs = mode.Fallback
			s.crashInMode = mode.Primary
			s.until(20*time.Minute, "handed over", func() bool { return s.s.Authority.Phase == decide.HandedOver })
			return s
		},
		"T17c": func(t *testing.T) *sim {
			s := rows["T17a"](t)
			s.run(5 * time.Minute)
			s.runs = mode.Fallback
			s.run(3 * time.Minute)
			s.wantAuthority(decide.HandedOver)
			s.wantStarts(decide.Reconcile)
			return s
		},
		"T18a": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.editFile(mode.Primary, false)
			s.tick()
			if s.s.Mode.Phase != decide.Primary || s.decision.Verb != decide.Adopt {
				t.Fatalf("%s, %s", s.s.Mode.Phase, s.decision.Verb)
			}
			return s
		},
		"T18b": func(t *testing.T) *sim {
			s := settled(t)
			s.editFile(mode.Fallback, true)
			s.runs = mode.Fallback
			s.run(time.Hour)
			if s.s.Mode.Phase != decide.Fallback {
				t.Fatal("not adopted")
			}
			s.wantAuthority(decide.Pinned)
			s.wantNoStart()
			return s
		},
		"T19": func(t *testing.T) *sim {
			s := settled(t)
			foreignStart(s)
			s.wantNoStart()
			if s.s.Liveness.Phase != decide.Settling {
				t.Fatal(s.s.Liveness.Phase)
			}
			return s
		},
		"T20": func(t *testing.T) *sim {
			s := hungProcess(t)
			s.tick()
			return s
		},
		"T21": func(t *testing.T) *sim {
			s := hungProcess(t)
			s.run(20 * time.Second)
			s.hung = false
			s.tick()
			s.wantNoStart()
			return s
		},
		"T22": func(t *testing.T) *sim {
			s := hungProcess(t)
			s.until(5*time.Minute, "restarted", func() bool { return s.starts == 2 && s.s.Action == nil })
			s.wantStarts(decide.RestartSame)
			if s.runs != mode.Primary {
				t.Fatal("the mode was changed")
			}
			return s
		},
		"T22b": func(t *testing.T) *sim {
			s := hungProcess(t)
			s.public = decide.PublicOK
			s.run(20 * time.Minute)
			s.wantNoStart()
			s.wantBlocked("witness")
			return s
		},
		"T23": func(t *testing.T) *sim {
			s := settled(t)
			s.up, s.restartsItself = false, false
			s.supervisor = decide.Supervisor{State: decide.SupervisorAutoRestart}
			s.run(10 * time.Minute)
			s.wantNoStart()
			s.wantBlocked("supervisor")
			return s
		},
		"T24": func(t *testing.T) *sim { return rows["T22"](t) },
		"T24b": func(t *testing.T) *sim {
			s := hungProcess(t)
			s.until(5*time.Minute, "restarting", func() bool { return s.s.Action != nil })
			s.mute, s.hung, s.result = true, false, nil
			s.run(time.Minute)
			if s.starts != 1 || s.s.Liveness.Phase != decide.Up {
				t.Fatalf("%d starts, %s", s.starts, s.s.Liveness.Phase)
			}
			return s
		},
		"T25": func(t *testing.T) *sim {
			s := rows["T22"](t)
			s.run(time.Minute)
			return s
		},
		"T26": func(t *testing.T) *sim {
			s := hungProcess(t)
			for _, r := range s.p.Restart.Ladder {
				s.rungs[r] = decide.StepFailed
			}
			s.until(10*time.Minute, "handed over", func() bool { return s.s.Authority.Phase == decide.HandedOver })
			if s.s.Liveness.Phase != decide.Down {
				t.Fatal(s.s.Liveness.Phase)
			}
			return s
		},
		"T27": func(t *testing.T) *sim {
			s := settled(t)
			s.up, s.restartsItself = false, false
			s.supervisor = decide.Supervisor{State: decide.SupervisorFailed, Result: decide.ResultStartLimit}
			s.until(time.Minute, "started", func() bool { return slices.Contains(s.done, "restart_same/switch/start") })
			return s
		},
		"T28": func(t *testing.T) *sim {
			s := settled(t)
			crashLoop(s)
			s.hung = true
			s.run(8 * time.Minute)
			s.wantNoStart()
			if s.s.Liveness.Phase != decide.Down || s.noted("crash_loop", decide.Page) != 1 {
				t.Fatalf("%s, paged %d times", s.s.Liveness.Phase, s.noted("crash_loop", decide.Page))
			}
			return s
		},
		"T28b": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.run(40 * time.Second)
			crashLoop(s)
			s.until(3*time.Minute, "rolled back", func() bool { return s.runs == mode.Primary && s.s.Action == nil })
			s.wantStarts(decide.Divert, decide.Return)
			return s
		},
		"T29": func(t *testing.T) *sim {
			s := settled(t)
			crashLoop(s)
			s.run(20 * time.Minute)
			if s.s.Liveness.Phase != decide.Up {
				t.Fatal(s.s.Liveness.Phase)
			}
			return s
		},
		"T29b": func(t *testing.T) *sim {
			s := rows["T26"](t)
			s.run(20 * time.Minute)
			s.wantStarts(decide.RestartSame)
			s.rungs = nil
			s.say(decide.CommandAck, "", 0)
			s.until(5*time.Minute, "it is restarted", func() bool { return s.starts == 2 && s.s.Action == nil })
			return s
		},
		"T2c": func(t *testing.T) *sim {
			s := clustered(t)
			s.cluster = &decide.Cluster{Connected: true, Mode: mode.Fallback, Epoch: 2, Reason: "5 of 8 boxes"}
			s.untilMode(time.Minute, decide.Fallback)
			if s.s.Cluster.AppliedEpoch != 2 {
				t.Fatalf("epoch %d", s.s.Cluster.AppliedEpoch)
			}
			return s
		},
		"T30a": func(t *testing.T) *sim {
			s := settled(t)
			s.say(decide.CommandPause, "", 0)
			s.tick()
			s.wantAuthority(decide.Paused)
			return s
		},
		"T30b": func(t *testing.T) *sim {
			s := rows["T30a"](t)
			s.say(decide.CommandResume, "", 0)
			s.tick()
			s.wantAuthority(decide.Auto)
			return s
		},
		"T30c": func(t *testing.T) *sim {
			s := rows["T9c"](t)
			s.say(decide.CommandResume, "", 0)
			s.run(time.Minute)
			s.wantAuthority(decide.Auto)
			if s.file.Pinned {
				t.Fatal("still pinned in the file")
			}
			return s
		},
		"T30d": func(t *testing.T) *sim {
			s := rows["T30e"](t)
			s.say(decide.CommandResume, "", 0)
			s.tick()
			s.wantAuthority(decide.Auto)
			return s
		},
		"T30e": func(t *testing.T) *sim {
			s := settled(t)
			s.say(decide.CommandDryRun, "", 0)
			s.tick()
			s.wantAuthority(decide.DryRun)
			return s
		},
		"T30f": func(t *testing.T) *sim {
			s := rows["T8a"](t)
			s.say(decide.CommandAck, "", 0)
			s.tick()
			s.wantAuthority(decide.Auto)
			return s
		},
		"T30g": func(t *testing.T) *sim {
			s := rows["T14"](t)
			s.say(decide.CommandAck, "", 0)
			s.tick()
			if s.s.Mode.Flaps != 0 || s.s.Mode.HoldUntil.Sub(s.s.Mode.Since) > s.p.Recover.MinHold {
				t.Fatalf("flaps %d, hold %s", s.s.Mode.Flaps, s.s.Mode.HoldUntil.Sub(s.s.Mode.Since))
			}
			return s
		},
		"T30h": func(t *testing.T) *sim {
			s := rows["T30a"](t)
			s.run(s.p.Pause.Default + time.Minute)
			s.wantAuthority(decide.Auto)
			return s
		},
		"T30i": func(t *testing.T) *sim { return rows["T9e"](t) },
		"T30j": func(t *testing.T) *sim {
			s := rows["T30a"](t)
			s.run(150 * time.Minute)
			if got := s.noted("paused", decide.Info); got != 2 {
				t.Fatalf("reminded %d times in two and a half hours, want 2", got)
			}
			return s
		},
		"T30k": func(t *testing.T) *sim {
			s := settled(t)
			s.p.DryRun = true
			s.tick()
			s.wantAuthority(decide.DryRun)
			return s
		},
		"T30l": func(t *testing.T) *sim {
			s := rows["T30k"](t)
			s.p.DryRun = false
			s.tick()
			s.wantAuthority(decide.Auto)
			return s
		},
		"T30m": func(t *testing.T) *sim { return rows["T9c"](t) },
		"T30n": func(t *testing.T) *sim {
			s := rows["T9c"](t)
			s.editFile(mode.Primary, false)
			s.tick()
			s.wantAuthority(decide.Auto)
			return s
		},
		"T31a": func(t *testing.T) *sim {
			s := settled(t)
			s.up, s.restartsItself = false, false
			s.supervisor = decide.Supervisor{State: decide.SupervisorStopped}
			s.run(time.Hour)
			s.wantNoStart()
			s.wantAuthority(decide.Standby)
			return s
		},
		"T31b": func(t *testing.T) *sim {
			s := rows["T31a"](t)
			s.supervisor = decide.Supervisor{State: decide.SupervisorActivating}
			s.tick()
			s.wantAuthority(decide.Auto)
			return s
		},
		"T32a": func(t *testing.T) *sim { return rows["T8a"](t) },
		"T32b": func(t *testing.T) *sim {
			s := rows["T8a"](t)
			s.kinesis, s.crashInMode = true, ""
			s.run(5 * time.Hour)
			s.wantAuthority(decide.HandedOver)
			s.run(3 * time.Hour)
			s.wantAuthority(decide.Auto)
			return s
		},
		"T33a": func(t *testing.T) *sim {
			s := clustered(t)
			s.cluster.Connected = false
			s.run(time.Hour)
			s.wantAuthority(decide.Held)
			s.wantNoStart()
			return s
		},
		"T33b": func(t *testing.T) *sim {
			s := rows["T33a"](t)
			s.cluster.Connected = true
			s.run(time.Hour)
			s.wantAuthority(decide.Auto)
			s.wantNoStart()
			return s
		},
		"T34a": func(t *testing.T) *sim {
			s := settled(t)
			s.rival = "watchdog other"
			s.kinesis = false
			s.run(time.Hour)
			s.wantNoStart()
			s.wantAuthority(decide.Standby)
			return s
		},
		"T34b": func(t *testing.T) *sim {
			s := rows["T34a"](t)
			s.rival = ""
			s.tick()
			s.wantAuthority(decide.Auto)
			return s
		},
		"T35a": func(t *testing.T) *sim {
			s := rows["T30e"](t)
			s.kinesis = false
			s.untilMode(10*time.Minute, decide.Fallback)
			s.say(decide.CommandResume, "", 0)
			s.run(10 * time.Second)
			if s.s.Mode.Phase != decide.Primary {
				t.Fatalf("%s after the dry run, want what is real", s.s.Mode.Phase)
			}
			return s
		},
		"T35b": func(t *testing.T) *sim {
			s := fallenBack(t)
			s.say(decide.CommandDryRun, "", 0)
			s.kinesis = true
			s.until(time.Hour, "an imagined return", func() bool { return s.s.Mode.Phase == decide.Probation })
			s.say(decide.CommandResume, "", 0)
			s.run(10 * time.Second)
			if s.s.Mode.Phase != decide.Fallback {
				t.Fatalf("%s after the dry run, want what is real", s.s.Mode.Phase)
			}
			return s
		},

		"A0": func(t *testing.T) *sim { return fallenBack(t) },
		"A1": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis = false
			s.until(10*time.Minute, "switching", func() bool { return s.s.Action != nil && s.s.Action.Step == decide.Switch })
			s.editFile(mode.Primary, true)
			s.tick()
			if s.s.Action != nil || s.decision.Verb != decide.Abort {
				t.Fatal("the action went on over a person's decision")
			}
			s.run(time.Minute)
			if s.file.By != "person bob" {
				t.Fatal("the person's mode file was overwritten")
			}
			return s
		},
		"A2": func(t *testing.T) *sim { return rows["T6a"](t) },
		"A3": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis = false
			s.until(10*time.Minute, "switching", func() bool { return s.s.Action != nil && s.s.Action.Step == decide.Switch })
			s.died(10 * time.Second) // and the restart it ordered goes on
			s.untilMode(time.Minute, decide.Fallback)
			if s.starts != 2 {
				t.Fatalf("%d starts, want the one restart", s.starts-1)
			}
			return s
		},
		"A4": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis, s.mute = false, true
			s.until(10*time.Minute, "diverting", func() bool { return s.s.Action != nil })
			s.mute = false
			s.died(time.Second)
			s.untilMode(time.Minute, decide.Fallback)
			s.wantStarts(decide.Divert)
			return s
		},
		"A5": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis, s.mute = false, true
			s.run(10 * time.Minute)
			if s.file.Rev != 0 || s.taken["A5"] == 0 {
				t.Fatal("went on without a claim")
			}
			return s
		},
		"A6": func(t *testing.T) *sim { return fallenBack(t) },
		"A7": func(t *testing.T) *sim {
			s := settled(t)
			s.p.Flush.Timeout = 0
			s.kinesis = false
			s.untilMode(10*time.Minute, decide.Fallback)
			return s
		},
		"A8": func(t *testing.T) *sim { return rows["T22"](t) },
		"A8w": func(t *testing.T) *sim {
			s := killed(t, decide.RungLive, decide.RungRestart)
			s.until(5*time.Minute, "waiting", func() bool { return s.s.Action != nil && s.s.Action.Step == decide.Verify })
			return s
		},
		"A9": func(t *testing.T) *sim { return fallenBack(t) },
		"A10": func(t *testing.T) *sim {
			s := settled(t)
			s.stalledPart = 2 * time.Minute
			s.until(5*time.Minute, "restarted", func() bool { return s.starts == 2 && s.s.Action == nil })
			s.wantStarts(decide.RestartSame)
			return s
		},
		"A11": func(t *testing.T) *sim { return rows["T9c"](t) },
		"A12": func(t *testing.T) *sim { return fallenBack(t) },
		"A12w": func(t *testing.T) *sim {
			s := killed(t, decide.RungLive, decide.RungRestart)
			s.say(decide.CommandPin, mode.Fallback, 0)
			s.run(time.Minute)
			s.wantAuthority(decide.Pinned)
			return s
		},
		"A13": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis, s.conflict = false, decide.ModeWritten
			s.until(10*time.Minute, "called off", func() bool { return s.taken["A13"] > 0 })
			if s.s.Budget.Tokens != s.p.Budget.Tokens {
				t.Fatal("the token of an act that touched nothing was kept")
			}
			return s
		},
		"A14": func(t *testing.T) *sim {
			s := settled(t)
			s.p.Restart.Ladder = []decide.Rung{decide.RungLive, decide.RungRestart}
			s.kinesis, s.writeErr = false, "read-only file system"
			s.run(10 * time.Minute)
			if !slices.Contains(s.done, "divert/switch/live") {
				t.Fatalf("did %v", s.done)
			}
			return s
		},
		"A15": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis, s.writeErr = false, "read-only file system"
			s.run(10 * time.Minute)
			s.wantAuthority(decide.HandedOver)
			return s
		},
		"A16": func(t *testing.T) *sim { return fallenBack(t) },
		"A17": func(t *testing.T) *sim { return rows["T6b"](t) },
		"A18": func(t *testing.T) *sim {
			s := settled(t)
			s.kinesis = false
			s.rungs[decide.RungRestart] = decide.StepFailed
			s.untilMode(10*time.Minute, decide.Fallback)
			if !slices.Contains(s.done, "divert/switch/term") {
				t.Fatalf("did %v", s.done)
			}
			return s
		},
		"A18w": func(t *testing.T) *sim {
			s := killed(t, decide.RungRestart, decide.RungRollBack)
			s.rungs[decide.RungRestart], s.process = decide.StepFailed, &decide.Process{}
			s.say(decide.CommandSwitch, mode.Fallback, 0)
			s.run(time.Minute)
			return s
		},
		"A19": func(t *testing.T) *sim { return rows["T8a"](t) },
		"A20": func(t *testing.T) *sim { return rows["T26"](t) },
		"A21": func(t *testing.T) *sim { return rows["T8a"](t) },
		"A22": func(t *testing.T) *sim { return fallenBack(t) },
	}
}

func TestEdges_everyRowIsTakenInAStory(t *testing.T) {
	for _, e := range decide.Edges() {
		t.Run(e.ID, func(t *testing.T) {
			story, ok := rows[e.ID]
			if !ok {
				t.Fatalf("no story takes %s: %s", e.ID, e.Text)
			}
			if s := story(t); s.taken[e.ID] == 0 {
				t.Fatalf("the story does not take it; it takes %v\nsummary: %s", takenIDs(s.taken), s.explain.Summary)
			}
		})
	}
}
