package delivery

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
)

// inFallback makes a lane that delivers to l.sink, the fallback, and probes the
// returned primary.
func inFallback(t *testing.T, cfg func(*Config)) (*lane, *sinktest.Fake, *Primary) {
	primary := sinktest.NewFake(t, sinktest.Options{
		Info: sink.Info{Type: "kinesis", Target: "good"}, Shards: 8,
		Limits: sink.Limits{MaxRecords: 500, MaxBytes: 5 << 20, MaxRecordBytes: 10_000, Linger: time.Second, InFlight: 1},
	})
	memory := OpenPrimary(statePath(t), nil)
	l := build(t, setup{
		cfg: cfg, primary: memory,
		limits: sink.Limits{MaxRecords: 100_000, MaxBytes: 16 << 20, Linger: 30 * time.Second, InFlight: 2},
		route:  func(main *sinktest.Fake) Route { return Route{Sink: main, Probe: primary} },
	})
	return l, primary, memory
}

// traffic adds perSecond records each second for so long.
func (l *lane) traffic(perSecond int, long time.Duration) {
	for end := time.Now().Add(long); time.Now().Before(end); {
		l.queue.add(perSecond/10, 100)
		after(100 * time.Millisecond)
	}
}

func TestForwarder_probe_climbsWhileThePrimaryIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, primary, memory := inFallback(t, nil)
		primary.Always(sinktest.Slow(50 * time.Millisecond))
		l.run()
		l.traffic(100, 95*time.Second)
		if n := primary.Calls(); n != 4 {
			t.Errorf("%d probes in 95 s at level 1, want 4 (soon and every 30 s)", n)
		}
		for i, a := range primary.Attempts() {
			if i > 0 && len(a.Seqs) != 50 {
				t.Errorf("probe %d has %d records, want 50", i, len(a.Seqs))
			}
		}
		l.traffic(100, 30*time.Second)
		p := l.Status().Primary.Probe
		if p.Level != 2 || p.OKSince == nil || p.ShardsTouched != 8 {
			t.Fatalf("after 5 good probes the probe is %+v", p)
		}
		l.traffic(100, 65*time.Second)
		if p = l.Status().Primary.Probe; p.Level != 3 {
			t.Fatalf("a minute later the probe is %+v", p)
		}
		before := len(primary.Written())
		l.traffic(1000, time.Minute)
		if share := float64(len(primary.Written())-before) / 60_000; share < 0.05 || share > 0.15 {
			t.Errorf("%.0f %% of the traffic went to the primary at level 3, want about 10 %%", 100*share)
		}
		if p = l.Status().Primary.Probe; p.OKForSeconds == nil || *p.OKForSeconds < 200 {
			t.Errorf("good for %v s, want more than 200", p.OKForSeconds)
		}
		if _, most := primary.InFlight(); most != 1 {
			t.Errorf("%d probes at a time, want 1", most)
		}
		l.flushed()
		l.queue.waitAcked(len(l.queue.all))
		here, there := l.sink.Written(), primary.Written()
		for _, r := range l.queue.all {
			if here[r.Seq]+there[r.Seq] != 1 {
				t.Fatalf("record %d was written %d times to the fallback and %d to the primary", r.Seq, here[r.Seq], there[r.Seq])
			}
		}
		if k := memory.Report(); k.LastWriteAt == nil || k.OutageSince != nil {
			t.Errorf("the primary is remembered as %+v", k)
		}
	})
}

func TestForwarder_probe_oneBadOneLeadsBackToTheStart(t *testing.T) {
	bad := map[string]sinktest.Step{
		"down":      sinktest.Fail(sink.Transient, sinktest.Down()),
		"one of 50": sinktest.FailSome(sink.Transient, sinktest.Down(), func(i int, _ sink.Record) bool { return i == 7 }),
		"throttled": sinktest.FailSome(sink.Throttled, sinktest.Over(), func(i int, _ sink.Record) bool { return i == 7 }),
		"too late":  sinktest.Slow(11 * time.Second),
		"hangs":     sinktest.Hang(nil),
	}
	for name, step := range bad {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if name == "hangs" {
					step.Hang = make(chan struct{})
				}
				l, primary, _ := inFallback(t, nil)
				l.run()
				l.traffic(20, 130*time.Second)
				if p := l.Status().Primary.Probe; p.Level != 2 {
					t.Fatalf("the probe is %+v, want level 2", p)
				}
				primary.Then(step)
				l.traffic(20, 16*time.Second)
				p := l.Status().Primary.Probe
				if p.Level != 1 || p.OKSince != nil || p.OKForSeconds != nil {
					t.Errorf("after a bad probe it is %+v", p)
				}
				if note := l.Status().Probe; !strings.Contains(note, "bad") {
					t.Errorf("the note is %q", note)
				}
				before := primary.Calls()
				l.traffic(20, 60*time.Second)
				if n := primary.Calls() - before; n < 1 || n > 2 {
					t.Errorf("%d probes in the minute after a bad one, want one every 30 s", n)
				}
				l.flushed()
				if got := l.queue.Backlog(); got != 0 {
					t.Errorf("%d records are left after a flush: a probe kept them", got)
				}
			})
		})
	}
}

func TestForwarder_probe_aHangingPrimaryDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, primary, memory := inFallback(t, nil)
		primary.Always(sinktest.Hang(make(chan struct{})))
		l.run()
		l.traffic(100, time.Minute)
		after(45 * time.Second) // linger and one deadline
		if got := l.queue.Backlog(); got != 0 {
			t.Errorf("%d records are left", got)
		}
		if since, out := memory.OutageSince(); !out || time.Since(since) < time.Minute {
			t.Errorf("outage since %v %v, want since the first probe", since, out)
		}
		if l.OutageFor() != 0 {
			t.Error("the fallback takes everything and still admission hears of an outage")
		}
		if age := l.Status().BeatAge; age > time.Second {
			t.Errorf("the beat is %v old", age)
		}
	})
}

func TestForwarder_probe_withoutTrafficSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, primary, _ := inFallback(t, nil)
		l.run()
		l.traffic(50, 100*time.Second)
		l.flushed()
		good := *l.Status().Primary.Probe.OKForSeconds
		calls := primary.Calls()
		after(time.Hour)
		if primary.Calls() != calls {
			t.Error("probed with no record to send")
		}
		s := l.Status()
		if !strings.Contains(s.Probe, "no record waits") {
			t.Errorf("the note is %q", s.Probe)
		}
		if more := *s.Primary.Probe.OKForSeconds - good; more > 61 {
			t.Errorf("an hour without probes made the primary good for %v s more", more)
		}
		l.queue.add(1, 100)
		after(time.Second)
		if primary.Calls() != calls+1 {
			t.Error("the first record after the quiet was not used for a probe")
		}
	})
}

func TestForwarder_probe_leavesOutWhatThePrimaryCannotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, primary, _ := inFallback(t, nil)
		l.queue.add(5, 20_000) // the primary takes 10,000 at most
		l.queue.add(5, 100)
		l.run()
		after(time.Minute)
		for _, a := range primary.Attempts() {
			for _, seq := range a.Seqs {
				if seq <= 5 {
					t.Errorf("record %d was sent to the primary", seq)
				}
			}
		}
		if got := fmt.Sprint(len(primary.Written()), len(l.sink.Written()), len(l.graves.entries)); got != "5 5 0" {
			t.Errorf("primary, fallback and dead letters have %s records, want 5 5 0", got)
		}
	})
}

func TestForwarder_probe_gathersRecordsThatLeaveSingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := sinktest.NewFake(t, sinktest.Options{Limits: usual()})
		l := build(t, setup{
			limits: sink.Limits{MaxRecords: 1000, MaxBytes: 1 << 20, InFlight: 1}, // no linger: each record at once
			route:  func(main *sinktest.Fake) Route { return Route{Sink: main, Probe: primary} },
		}).run()
		l.traffic(100, 65*time.Second)
		attempts := primary.Attempts()
		if len(attempts) != 3 {
			t.Fatalf("%d probes, want 3", len(attempts))
		}
		for i, a := range attempts {
			if len(a.Seqs) != 50 {
				t.Errorf("probe %d has %d records, want 50", i, len(a.Seqs))
			}
		}
	})
}

func TestForwarder_probe_keepsItsEvidenceWhenTheRouteIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, primary, _ := inFallback(t, nil)
		l.run()
		l.traffic(50, 125*time.Second)
		l.switchTo(Route{Sink: l.sink, Probe: primary})
		after(0)
		if p := l.Status().Primary.Probe; p.Level != 2 || p.OKSince == nil {
			t.Errorf("after the same route was set again the probe is %+v", p)
		}
	})
}
