package decide_test

import (
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

// rule returns what is said of a rule.
func (s *sim) rule(name string) decide.RuleView {
	s.t.Helper()
	for _, r := range s.explain.Rules {
		if r.Name == name {
			return r
		}
	}
	s.t.Fatalf("no rule %s", name)
	return decide.RuleView{}
}

func (s *sim) wantStatus(name string, want decide.Status) {
	s.t.Helper()
	if r := s.rule(name); r.Status != want {
		s.t.Fatalf("%s is %s (%s, value %s), want %s", name, r.Status, r.Text, r.Value, want)
	}
}

func TestRules_eachFiresOnItsOwnSickness(t *testing.T) {
	for name, tc := range map[string]struct {
		sicken func(s *sim)
		within time.Duration
		acts   bool
	}{
		"refusing":       {func(s *sim) { s.limitBytes = 1 << 20; s.kinesis = false }, 2 * time.Minute, true},
		"last_write_age": {func(s *sim) { s.kinesis = false }, 6 * time.Minute, true},
		"oldest_event_age": {func(s *sim) {
			s.tweak = func(r *healthapi.Report) { r.Backlog.Events, r.Backlog.OldestAgeSeconds = 5, new(700.0) }
		}, time.Minute, true},
		"backlog_bytes": {func(s *sim) {
			s.tweak = func(r *healthapi.Report) { r.Backlog.Events, r.Backlog.Bytes = 5, r.Backlog.LimitBytes/2+1 }
		}, time.Minute, true},
		"backlog_events": {func(s *sim) {
			s.p.Rules.BacklogEvents.Threshold = 10
			s.tweak = func(r *healthapi.Report) { r.Backlog.Events = 11 }
		}, time.Minute, true},
		"seconds_to_full": {func(s *sim) { s.kinesis, s.limitBytes = false, 60_000_000 }, 6 * time.Minute, true},
		"unreachable":     {func(s *sim) { s.hung = true }, 2 * time.Minute, true},
		"stalled":         {func(s *sim) { s.stalledPart = 61 * time.Second }, time.Minute, true},
		"blind":           {func(s *sim) { s.reach, s.public = decide.ReachTimeout, decide.PublicOK }, 6 * time.Minute, false},
		"foreign":         {func(s *sim) { s.reach = decide.ReachForeign }, time.Minute, false},
		"inconsistent":    {func(s *sim) { s.tweak = func(r *healthapi.Report) { r.Backlog.Events = -1 } }, time.Minute, false},
		"slow": {func(s *sim) {
			s.tweak = func(*healthapi.Report) {}
			s.p.Rules.Slow.Threshold = time.Millisecond
		}, 2 * time.Minute, false},
		"fallback_not_ready": {func(s *sim) { s.s3Ready = false }, time.Minute, false},
		"drift":              {func(s *sim) { s.runs = mode.Fallback }, time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := settled(t)
			if got := s.rule(name).Status; got != decide.Clear && got != decide.Off {
				t.Fatalf("%s on a quiet day", got)
			}
			tc.sicken(s)
			fired := false
			s.until(tc.within, name+" fires", func() bool {
				fired = fired || s.rule(name).Status == decide.Firing
				return fired
			})
			s.run(time.Minute)
			if acted := len(s.started) > 0; acted != tc.acts {
				t.Fatalf("acted %v, want %v; %s; blocked %v", acted, tc.acts, s.explain.Summary, s.explain.BlockedBy)
			}
			if tc.acts {
				a := s.started[0]
				if a.Rule == "" || a.Value == "" || a.Threshold == "" || a.Reason == "" {
					t.Fatalf("an act that cannot say why: %+v", a)
				}
			}
		})
	}
	for _, name := range decide.RuleNames() {
		s := settled(t)
		s.rule(name)
	}
}

func TestRules_switchedOffByZero(t *testing.T) {
	s := settled(t)
	s.p.Rules.LastWriteAge.Threshold = 0
	s.p.Rules.SecondsToFull.Threshold = 0
	s.p.Rules.OldestEventAge.For = 0
	s.kinesis = false
	s.run(time.Hour)
	s.wantStatus("last_write_age", decide.Off)
	s.wantNoStart()
}

func TestRules_idleCollectorNeverFires(t *testing.T) {
	s := settled(t)
	s.rate, s.events = 0, 0
	s.run(12 * time.Hour)
	s.wantNoStart()
	s.wantStatus("last_write_age", decide.Clear)

	// The first event after a quiet night, to a Kinesis that takes it.
	s.tweak = func(r *healthapi.Report) {
		r.Backlog.Events, r.Backlog.OldestAgeSeconds = 1, new(0.2)
	}
	s.run(time.Minute)
	s.wantNoStart()
}

func TestRules_backlogThatDrainsIsNoReason(t *testing.T) {
	s := settled(t)
	s.tweak = func(r *healthapi.Report) {
		r.Backlog.Events, r.Backlog.Bytes, r.Backlog.OldestAgeSeconds = 1e6, r.Backlog.LimitBytes*6/10, new(1200.0)
		r.Drain.ETASeconds = new(180.0)
	}
	s.run(5 * time.Minute)
	s.wantNoStart()
	s.wantStatus("oldest_event_age", decide.Clear)
}

func TestRules_sawToothOfFlushesIsNoGrowth(t *testing.T) {
	s := settled(t)
	step := 0
	s.tweak = func(r *healthapi.Report) {
		step++
		r.Backlog.Events = 10
		r.Backlog.Bytes = r.Backlog.LimitBytes/5 + int64(step%6)*r.Backlog.LimitBytes/100
	}
	s.run(15 * time.Minute)
	s.wantNoStart()
}

// An answer 70 % bad fires, one 30 % bad does not (a count of consecutive
// failures would see neither).
func TestEvidence_leaksInsteadOfForgetting(t *testing.T) {
	for name, tc := range map[string]struct {
		bad   int // of ten
		fires bool
	}{"7 of 10": {7, true}, "3 of 10": {3, false}, "5 of 10": {5, false}} {
		t.Run(name, func(t *testing.T) {
			s := settled(t)
			i := 0
			s.tweak = func(r *healthapi.Report) {
				i++
				if i*7%10 < tc.bad {
					r.State, r.Intake.Accepting = healthapi.StateRefusing, false
				}
			}
			fired := false
			for range 60 {
				s.tick()
				fired = fired || s.rule("refusing").Status == decide.Firing
			}
			if fired != tc.fires {
				t.Fatalf("fired %v, want %v", fired, tc.fires)
			}
		})
	}
}

func TestEvidence_unobservedTimeNeitherFillsNorDrains(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.until(10*time.Minute, "half the evidence", func() bool { return s.rule("last_write_age").Evidence >= 15*time.Second })
	before := s.rule("last_write_age").Evidence
	s.reach, s.public = decide.ReachTimeout, decide.PublicOK
	s.run(time.Minute)
	if got := s.rule("last_write_age"); got.Evidence != before || got.Status != decide.Unknown {
		t.Fatalf("%s is %s with %s, want it unknown with %s as before", got.Name, got.Status, got.Evidence, before)
	}
	s.reach = ""
	s.until(20*time.Second, "it fires", func() bool { return len(s.started) == 1 })
}

func TestEvidence_missingReportsAreNoRecovery(t *testing.T) {
	s := settled(t)
	s.configured, s.kinesis = false, false // fires, and cannot act
	s.run(8 * time.Minute)
	s.wantStatus("last_write_age", decide.Firing)
	told := len(s.notes)
	s.reach, s.public = decide.ReachTimeout, decide.PublicOK
	s.run(time.Minute)
	s.reach = ""
	s.tick()
	s.wantStatus("last_write_age", decide.Firing)
	for _, n := range s.notes[told:] {
		if n.Key == "outage" || n.Key == "rule/last_write_age" {
			t.Fatalf("told %q", n.Text)
		}
	}
}

func TestEvidence_hysteresisKeepsARuleFiringNearItsThreshold(t *testing.T) {
	s := settled(t)
	s.configured = false
	percent := int64(55)
	s.tweak = func(r *healthapi.Report) { r.Backlog.Events, r.Backlog.Bytes = 10, r.Backlog.LimitBytes*percent/100 }
	s.run(time.Minute)
	s.wantStatus("backlog_bytes", decide.Firing)
	percent = 40 // under the threshold of 50, over 35
	s.run(5 * time.Minute)
	s.wantStatus("backlog_bytes", decide.Firing)
	percent = 30
	s.run(time.Minute)
	s.wantStatus("backlog_bytes", decide.Clear)
}

func TestEvidence_survivesARestartOfTheWatchdog(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.until(10*time.Minute, "nearly fires", func() bool { return s.rule("last_write_age").Evidence >= 25*time.Second })
	s.died(10 * time.Second)
	s.run(2 * s.poll)
	s.wantStarts(decide.Divert)
}

func TestEvidence_doesNotTellAgainAfterARestart(t *testing.T) {
	s := settled(t)
	s.configured, s.kinesis = false, false
	s.run(10 * time.Minute)
	told := len(s.notes)
	s.died(20 * time.Second)
	s.run(2 * time.Minute)
	for _, n := range s.notes[told:] {
		if n.Key == "outage" || n.Key == "rule/last_write_age" {
			t.Fatalf("told again: %v", n)
		}
	}
}

func TestWarnings_onePerEpisodeDespiteShortRecoveries(t *testing.T) {
	s := settled(t)
	s.configured = false
	refusing := false
	s.tweak = func(r *healthapi.Report) {
		if refusing {
			r.State, r.Intake.Accepting = healthapi.StateRefusing, false
		}
	}
	for range 10 {
		refusing = true
		s.run(time.Minute)
		refusing = false
		s.run(90 * time.Second)
	}
	if warned, paged := s.noted("rule/refusing", decide.Warning), s.noted("outage", decide.Page); warned != 1 || paged != 1 {
		t.Fatalf("warned %d times and paged %d times, want once each", warned, paged)
	}
	if got := s.resolved("rule/refusing") + s.resolved("outage"); got != 0 {
		t.Fatalf("called over %d times in the middle", got)
	}
	s.run(20 * time.Minute)
	if rule, outage := s.resolved("rule/refusing"), s.resolved("outage"); rule != 1 || outage != 1 {
		t.Fatalf("called over %d and %d times, want once each", rule, outage)
	}
}

func TestInconsistentReport_freezesSinkRulesAndTells(t *testing.T) {
	s := settled(t)
	s.kinesis = false
	s.tweak = func(r *healthapi.Report) { r.Kinesis.LastWriteAgeSeconds = new(-1.0) }
	s.run(20 * time.Minute)
	s.wantNoStart()
	if s.noted("rule/inconsistent", decide.Page) != 1 {
		t.Fatal("nobody was told")
	}
}

// "ok" with a last write 400 s ago fires: measurements count, labels do not.
func TestRules_measurementsOverLabels(t *testing.T) {
	s := settled(t)
	s.tweak = func(r *healthapi.Report) {
		r.State = healthapi.StateOK
		r.Backlog.Events, r.Backlog.OldestAgeSeconds, r.Kinesis.LastWriteAgeSeconds = 10, new(400.0), new(400.0)
	}
	s.run(time.Minute)
	s.wantStarts(decide.Divert)
}

func TestRules_aTinyShareOfTheSpoolIsShownAsOne(t *testing.T) {
	for events, want := range map[float64]string{0: "0 %", 1: "< 0.1 %", 200_000: "18.6 %"} {
		s := settled(t)
		s.rate, s.events, s.kinesis = 0, events, false
		s.tick()
		for _, r := range s.explain.Rules {
			if r.Name == "backlog_bytes" && r.Value != want {
				t.Errorf("%v events: got %q, want %q", events, r.Value, want)
			}
		}
	}
}
