package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spillway/collector/internal/replay"
	"spillway/collector/internal/sink"
	"spillway/shared/healthapi"
	"spillway/shared/rig/proc"
)

// flow replays one object of n records at a pace, each batch through s, and
// returns how many were lent in each second.
func flow(t *testing.T, n int, pace *replay.Pace, s *scripted, throttled func(second int) bool) []int {
	t.Helper()
	m := newMemory()
	m.add(t, sink.Good, "box", events(1, n, "box"))
	p := m.process()
	plan, err := replay.Look(t.Context(), p, replay.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	r := replay.New(plan.Waiting, replay.Options{Store: p, Log: quiet(), Window: 1000, Pace: pace, RenewEvery: time.Hour})
	var seconds []int
	began := time.Now()
	if err := r.Run(t.Context(), func(ctx context.Context) error {
		for {
			records, err := r.Queue().Read(ctx, 500, 1<<20)
			if err != nil {
				return nil
			}
			second := int(time.Since(began) / time.Second)
			for len(seconds) <= second {
				seconds = append(seconds, 0)
			}
			seconds[second] += len(records)
			s.throttle = throttled(second)
			r.Queue().Through(s).Write(ctx, records)
			for _, record := range records {
				r.Queue().Ack(record.Seq)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return seconds
}

var (
	errHeld    = errors.New("the pace is held")
	errNotHeld = errors.New("the pace is not held")
)

func never(int) bool { return false }

func TestPace_keepsToTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, n := range flow(t, 1000, replay.NewPace(200, 0, quiet()), &scripted{}, never) {
			if n > 220 || n < 180 && i < 4 {
				t.Errorf("%d records in second %d", n, i)
			}
		}
	})
}

func TestPace_keepsToTheBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := events(100, 1, "box")[0].Size()
		seconds := flow(t, 3000, replay.NewPace(0, float64(1000*size), quiet()), &scripted{}, never)
		if len(seconds) < 3 || len(seconds) > 4 {
			t.Errorf("3000 records at 1000 a second: %v", seconds)
		}
	})
}

func TestPace_makesWayWhenThrottled_andComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seconds := flow(t, 60_000, replay.NewPace(1000, 0, quiet()), &scripted{}, func(second int) bool { return second == 2 || second == 4 })
		if before, after := seconds[1], seconds[6]; before < 900 || after > 300 {
			t.Errorf("%d records a second before throttling, %d after it was throttled twice", before, after)
		}
		if last := seconds[len(seconds)-2]; last < 900 {
			t.Errorf("after %d quiet seconds it is at %d records a second", len(seconds), last)
		}
	})
}

func TestMakeWay_holdsWhileACollectorHasTrouble(t *testing.T) {
	late := 60.0
	for name, report := range map[string]healthapi.Report{
		"fallback":  {Mode: "fallback"},
		"throttled": {Kinesis: healthapi.Kinesis{ErrorClass: "throttled"}},
		"outage":    {Kinesis: healthapi.Kinesis{OutageSince: &hour}},
		"late":      {Backlog: healthapi.Backlog{OldestAgeSeconds: &late}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				body := report
				if asked.Add(1) > 1 {
					body = healthapi.Report{Mode: "primary"}
				}
				_ = json.NewEncoder(w).Encode(body) // the test sees what comes of it
			}))
			defer server.Close()
			pace := replay.NewPace(0, 0, quiet())
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				replay.MakeWay(ctx, pace, []string{server.URL, "http://127.0.0.1:1"}, quiet())
				close(done)
			}()
			defer func() {
				cancel()
				<-done
			}()
			proc.Eventually(t, time.Minute, func() error {
				if pace.Held() == "" {
					return errNotHeld
				}
				return nil
			})
			proc.Eventually(t, time.Minute, func() error {
				if pace.Held() != "" {
					return errHeld
				}
				return nil
			})
		})
	}
}
