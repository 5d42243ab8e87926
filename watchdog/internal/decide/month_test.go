package decide_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

// trouble is something that goes wrong in the month.
type trouble struct {
	at, length time.Duration
	kind       string
}

// forecast draws a month: outages of Kinesis that deserve a divert and blips
// that do not, processes that hang, restarts of the box and of the watchdog,
// steps of the wall clock, lost polls and releases.
func forecast(r *rand.Rand, month time.Duration) []trouble {
	minutes := func(from, to int) time.Duration {
		return time.Duration(from*60+r.IntN((to-from)*60+1)) * time.Second
	}
	var list []trouble
	for at := 2 * time.Hour; ; {
		at += minutes(60, 14*60)
		t := trouble{at: at}
		switch n := r.IntN(100); {
		case n < 12:
			t.kind, t.length = "outage", minutes(12, 60)
		case n < 16:
			t.kind, t.length = "outage", minutes(60, 5*60)
		case n < 40:
			t.kind, t.length = "blip", minutes(0, 4)
		case n < 48:
			t.kind = "hang"
		case n < 58:
			t.kind = "release"
		case n < 68:
			t.kind = "watchdog restarts"
		case n < 78:
			t.kind = "clock steps"
		case n < 90:
			t.kind, t.length = "lost polls", minutes(0, 1)
		default:
			t.kind = "reboot"
		}
		if at+t.length+6*time.Hour > month {
			return list
		}
		list = append(list, t)
		at += t.length
		if t.kind == "outage" {
			at += 3 * time.Hour // time to come back and be sure
		}
	}
}

// A month of a box, for a few seeds: as many diverts and returns as there are
// outages that deserve one, one restart for each hang, and nothing else.
func TestMonth_switchesAreTheOutagesThatDeserveOne(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			const month = 30 * 24 * time.Hour / 3 // ten days each, a month in all
			r := rand.New(rand.NewPCG(seed, 1))
			s := newSim(t)
			s.poll = time.Minute // fewer turns; the thresholds are the usual ones
			s.p.Poll.Interval = s.poll
			s.rate = 50
			want := map[decide.Kind]int{}
			list := forecast(r, month)
			begin := s.boot
			now := func() time.Duration { return s.boot - begin }
			for _, tr := range list {
				for now() < tr.at {
					s.tick()
				}
				switch tr.kind {
				case "outage":
					want[decide.Divert]++
					want[decide.Return]++
					s.kinesis = false
				case "blip":
					s.kinesis = false
				case "hang":
					want[decide.RestartSame]++
					s.hung = true
				case "release":
					s.restart()
				case "watchdog restarts":
					s.died(20 * time.Second)
				case "clock steps":
					s.wall = s.wall.Add(time.Duration(r.IntN(7200)-3600) * time.Second)
				case "lost polls":
					s.reach, s.public = decide.ReachTimeout, decide.PublicOK
				case "reboot":
					s.restart()
					s.startingFor = time.Minute
					s.wall = s.wall.Add(90 * time.Second)
					s.bootID, s.boot, begin = fmt.Sprint("kernel-", now()), 30*time.Second, 30*time.Second-now()-90*time.Second
					s.firstOfRun = true
				}
				for end := now() + tr.length; now() < end; {
					s.tick()
				}
				s.kinesis, s.reach, s.public = true, "", ""
			}
			s.run(6 * time.Hour)

			got := map[decide.Kind]int{}
			for _, a := range s.started {
				got[a.Kind]++
			}
			for _, kind := range []decide.Kind{decide.Divert, decide.Return, decide.RestartSame, decide.Reconcile, decide.Repin} {
				if got[kind] != want[kind] {
					t.Errorf("%d times %s, want %d", got[kind], kind, want[kind])
				}
			}
			if want[decide.Divert] == 0 || want[decide.RestartSame] == 0 {
				t.Fatalf("the forecast is too fair: %v", want)
			}
			if s.s.Mode.Phase != decide.Primary || s.runs != mode.Primary || s.s.Mode.Flaps != 0 {
				t.Errorf("the month ends with %s", s.explain.Summary)
			}
			if s.noted("outage", decide.Warning) != want[decide.Divert] || s.resolved("outage") != want[decide.Divert] {
				t.Errorf("%d outages told, %d called over, want %d", s.noted("outage", decide.Warning), s.resolved("outage"), want[decide.Divert])
			}
			if s.noted("handed_over", decide.Page) != 0 {
				t.Error("handed over")
			}
		})
	}
}
