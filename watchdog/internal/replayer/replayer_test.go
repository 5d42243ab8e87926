package replayer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

var errExitOne = errors.New("run it: exit status 1")

func TestReplayer_atTheFirstStart_nothingIsDue(t *testing.T) {
	inBubble(t, func(b *bench) {
		defer b.start()()
		b.pass(48 * time.Hour)
		b.runs("two days without an outage", 0, 0)
		if m, found, err := recall(b.path); !found || err != nil || m.Due || m.Rev != 7 {
			t.Errorf("it remembers %+v, %v, %v", m, found, err)
		}
	})
}

func TestReplayer_afterAnOutage_replaysOnceTheBoxWasWellForLong(t *testing.T) {
	inBubble(t, func(b *bench) {
		defer b.start()()
		b.pass(time.Minute)
		b.see(func(s *Sight) {
			s.State.Mode.Phase, s.State.Seen.Mode, s.State.Mode.Rev = decide.Fallback, mode.Fallback, 8
		})
		b.pass(time.Hour)
		b.see(func(s *Sight) { s.State.Mode.Phase, s.State.Mode.Rev = decide.Probation, 9 })
		b.pass(time.Hour)
		b.runs("on probation", 0, 0)
		b.see(func(s *Sight) { s.State.Mode.Rev = 9 })
		b.pass(14 * time.Minute)
		b.runs("after 14 minutes on the primary", 0, 0)
		if due := b.metric("due", ""); due != 1 {
			t.Errorf("due is %v", due)
		}
		b.pass(2 * time.Minute)
		b.runs("after 16 minutes on the primary", 1, 1)
		if b.names[0] != "box-1" || b.metric("running", "") != 1 {
			t.Errorf("it replays %q, running is %v", b.names, b.metric("running", ""))
		}
		b.wantTold("a replay is due: the box uses its fallback; it begins when the box has been on the primary, and well, for 15m",
			"a replay of what box-1 wrote to its fallback begins, since the box has been on the primary, and well, for 15m0s, at most 1000/s and 5MiB/s")
		b.end(Outcome{Report: parseReport([]byte(report)), Took: 90 * time.Second})
		b.wantTold("the replay is done: 12 of 12 objects and 34567 events (47.7 MiB) replayed in 1m30s, 100 events not sent again")
		b.pass(48 * time.Hour)
		b.runs("two days later", 1, 0)
		for name, want := range map[string]float64{"due": 0, "running": 0, "objects_total": 12, "events_total": 34567, "bytes_total": 50000000, "runs_total": 1} {
			if got := b.metric(name, ""); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if b.metric("last_done_timestamp_seconds", "") == 0 {
			t.Error("when it was done is not shown")
		}
	})
}

// These keep a replay from beginning and, but for the first ones, end one that runs.
func obstacles() map[string]func(s *Sight) {
	all := map[string]func(s *Sight){
		"it is blind":             func(s *Sight) { s.Fresh = false },
		"the mode is imagined":    func(s *Sight) { s.State.Mode.Ghost = true },
		"the mode is diverting":   func(s *Sight) { s.State.Mode.Phase = decide.Diverting },
		"the mode is on trial":    func(s *Sight) { s.State.Mode.Phase = decide.Probation },
		"the mode is returning":   func(s *Sight) { s.State.Mode.Phase = decide.Returning },
		"the mode is the other's": func(s *Sight) { s.State.Mode.Phase = decide.Fallback },
	}
	for _, p := range []decide.Phase{decide.DryRun, decide.Held, decide.Pinned, decide.Paused, decide.Standby, decide.HandedOver} {
		all["authority "+string(p)] = func(s *Sight) { s.State.Authority.Phase = p }
	}
	return all
}

func TestReplayer_whileSomethingIsTheMatter_doesNotBegin(t *testing.T) {
	cases := obstacles()
	cases["a rule fires"] = func(s *Sight) { s.State.Rules = map[string]decide.RuleState{"slow": {Fires: true}} }
	cases["the collector is down"] = func(s *Sight) { s.State.Liveness.Phase = decide.Down }
	cases["the collector runs the other mode"] = func(s *Sight) { s.State.Seen.Mode = mode.Fallback }
	cases["the collector's name is not known"] = func(s *Sight) { s.Instance = "" }
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				defer b.start()()
				b.pass(time.Minute)
				b.outage()
				b.see(change)
				b.pass(3 * time.Hour)
				b.runs("while it lasts", 0, 0)
				b.see(func(*Sight) {})
				b.pass(16 * time.Minute)
				b.runs("after it", 1, 1)
			})
		})
	}
}

func TestReplayer_aMomentOfTrouble_beginsTheWaitAnew(t *testing.T) {
	inBubble(t, func(b *bench) {
		defer b.start()()
		b.pass(time.Minute)
		b.outage()
		b.pass(10 * time.Minute)
		b.see(func(s *Sight) { s.State.Rules = map[string]decide.RuleState{"slow": {Fires: true}} })
		b.pass(2 * time.Second)
		b.see(func(*Sight) {})
		b.pass(14 * time.Minute)
		b.runs("14 minutes after it", 0, 0)
		b.pass(2 * time.Minute)
		b.runs("16 minutes after it", 1, 1)
	})
}

func TestReplayer_whatIsMoreImportant_stopsAReplayThatRuns(t *testing.T) {
	for name, change := range obstacles() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				defer b.start()()
				b.pass(time.Minute)
				b.outage()
				b.pass(16 * time.Minute)
				b.see(change)
				b.pass(2 * time.Second)
				b.runs("when it happened", 1, 0)
				b.wantTold("the replay was stopped, because ")
				b.see(func(*Sight) {})
				b.pass(16 * time.Minute)
				b.runs("16 minutes after it", 2, 1)
				if got := b.metric("runs_total", resultStopped); got != 1 {
					t.Errorf("%v were stopped", got)
				}
			})
		})
	}
}

func TestReplayer_aRuleThatFires_doesNotStopAReplayThatRuns(t *testing.T) {
	inBubble(t, func(b *bench) {
		defer b.start()()
		b.pass(time.Minute)
		b.outage()
		b.pass(16 * time.Minute)
		b.see(func(s *Sight) { s.State.Rules = map[string]decide.RuleState{"slow": {Fires: true}} })
		b.pass(time.Hour)
		b.runs("an hour later", 1, 1)
	})
}

func TestReplayer_afterAFailure_triesAgainInAnHour(t *testing.T) {
	for name, o := range map[string]Outcome{
		"it failed":             {Err: errExitOne, Output: "much\nno credentials"},
		"it failed with report": {Err: errExitOne, Report: &Report{}, Output: "no credentials"},
		"somebody stopped it":   {Err: errExitOne, Report: &Report{Stopped: true}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				defer b.start()()
				b.pass(time.Minute)
				b.outage()
				b.pass(16 * time.Minute)
				b.end(o)
				b.pass(59 * time.Minute)
				b.runs("59 minutes later", 1, 0)
				b.pass(2 * time.Minute)
				b.runs("61 minutes later", 2, 1)
				if o.Output != "" {
					b.wantTold("the replay failed and is tried again in 1h: run it: exit status 1; ", "; it said: no credentials")
					if got := b.metric("runs_total", resultFailed); got != 1 || !strings.Contains(b.log.String(), "no credentials") {
						t.Errorf("%v failed; log: %s", got, b.log)
					}
					return
				}
				b.wantTold("the replay was stopped by somebody else; it goes on in 1h")
			})
		})
	}
}

func TestReplayer_thatTakesTooLong_isStoppedAndGoesOnLater(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.cfg.Timeout = 10 * time.Minute
		defer b.start()()
		b.pass(time.Minute)
		b.outage()
		b.pass(16 * time.Minute)
		b.runs("at first", 1, 1)
		b.pass(10 * time.Minute)
		b.runs("after the timeout", 1, 0)
		b.wantTold("it took longer than after_fail_back.timeout")
		b.pass(time.Hour)
		b.runs("an hour later", 2, 1)
	})
}

func TestReplayer_Run_stopsTheReplayAtItsEnd_andRemembers(t *testing.T) {
	inBubble(t, func(b *bench) {
		stop := b.start()
		b.pass(time.Minute)
		b.outage()
		b.pass(16 * time.Minute)
		b.runs("before", 1, 1)
		stop()
		b.runs("after", 1, 0)
		b.wantTold("the replay was stopped, because the watchdog stops")

		stop = b.start()
		b.pass(14 * time.Minute)
		b.runs("14 minutes after the next start", 1, 0)
		b.pass(2 * time.Minute)
		b.runs("16 minutes after the next start", 2, 1)
		b.end(Outcome{Report: &Report{}})
		stop()

		defer b.start()()
		b.pass(48 * time.Hour)
		b.runs("started again when all was done", 2, 0)
		if b.metric("last_done_timestamp_seconds", "") == 0 {
			t.Error("when it was done is forgotten")
		}
	})
}

func TestReplayer_whatHappenedWhileNobodyLooked(t *testing.T) {
	for name, c := range map[string]struct {
		rev  int64
		want int
	}{
		"nothing":                     {7, 0},
		"the mode file got a pin":     {8, 0},
		"to the fallback and back":    {9, 1},
		"the mode file was lost":      {0, 1},
		"to the fallback and back, 3": {13, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				stop := b.start()
				b.pass(time.Minute)
				stop()
				b.see(func(s *Sight) { s.State.Mode.Rev = c.rev })
				defer b.start()()
				b.pass(16 * time.Minute)
				b.runs("after the restart", c.want, c.want)
			})
		})
	}
}

func TestReplayer_whatADryRunImagines_isNoOutage(t *testing.T) {
	inBubble(t, func(b *bench) {
		defer b.start()()
		b.see(func(s *Sight) { s.State.Mode.Phase, s.State.Mode.Ghost = decide.Fallback, true })
		b.pass(time.Hour)
		b.see(func(*Sight) {})
		b.pass(time.Hour)
		b.runs("after it", 0, 0)
	})
}

func TestReplayer_anOutageDuringAReplay_makesTheNextOneDue(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.deaf = true
		defer b.start()()
		b.pass(time.Minute)
		b.outage()
		b.pass(16 * time.Minute)
		b.outage()
		b.runs("the first came to its end nevertheless", 1, 0)
		b.wantTold("the replay is done")
		b.pass(16 * time.Minute)
		b.runs("after the second outage", 2, 1)
	})
}

func TestReplayer_damagedMemory_meansDue(t *testing.T) {
	for _, content := range []string{"", "{", `{"schema":99}`, `{"schema":1,"rev":"x"}`} {
		t.Run(fmt.Sprintf("%q", content), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				if err := os.WriteFile(b.path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				defer b.start()()
				b.pass(16 * time.Minute)
				b.runs("16 minutes after the start", 1, 1)
				if !strings.Contains(b.log.String(), "it is not known whether a replay is due") {
					t.Errorf("log: %s", b.log)
				}
				if m, found, err := recall(b.path); !found || err != nil || !m.Due || m.Rev != 7 {
					t.Errorf("it remembers %+v, %v, %v", m, found, err)
				}
			})
		})
	}
}

func TestReplayer_withoutAPlaceForItsMemory_replaysAndSaysSoOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		dir := filepath.Join(filepath.Dir(b.path), "gone")
		b.path = filepath.Join(dir, "replay.json")
		stop := b.start()
		b.pass(time.Minute)
		b.outage()
		b.pass(16 * time.Minute)
		b.runs("after the outage", 1, 1)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		b.pass(2 * time.Second)
		stop()
		for text, want := range map[string]int{"would not remember": 1, "can be remembered again": 1} {
			if got := strings.Count(b.log.String(), text); got != want {
				t.Errorf("%q is said %d times: %s", text, got, b.log)
			}
		}
		if m, found, err := recall(b.path); !found || err != nil || !m.Due {
			t.Errorf("it remembers %+v, %v, %v", m, found, err)
		}
	})
}
