package e2e

import (
	"testing"

	"spillway/shared/rig"
	"spillway/shared/rig/fault"
	"spillway/shared/rig/kinesis"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/tracker"
)

func TestCollector_killedAgainAndAgainUnderLoad_losesNothing(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true})
	// A Kinesis that refuses some records of each call keeps some of the events in
	// every place where a kill can meet them.
	if err := p.Rig.Kinesis.Break(fault.Fault{Kind: fault.Record, Code: kinesis.Throttled, Share: 0.2}); err != nil {
		t.Fatal(err)
	}
	tr := send(t, p, tracker.Config{Connections: 8, EventsPerPost: 2, PixelShare: 0.1, Resend: true})
	for round := range 5 {
		tr.acked(t, tr.Ledger().Counts().Acked+500)
		r, err := p.KillCollector(limited(t))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for lane, l := range r.Lanes {
			if l.CorruptTotal > 0 {
				t.Errorf("round %d: %d damaged records in the spool of the %s lane", round, l.CorruptTotal, lane)
			}
		}
	}
	tr.acked(t, tr.Ledger().Counts().Acked+500)
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	tr.settle(t, p)
}

func TestCollector_deliversTheBacklogItFindsAtStart_withoutTraffic(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true})
	if err := p.CutKinesis(); err != nil {
		t.Fatal(err)
	}
	tr := sendAll(t, p, 300)
	p.Collector.Kill()
	if n := p.Rig.Kinesis.Count(rig.GoodStream); n > 0 {
		t.Fatalf("%d records reached a Kinesis that was cut", n)
	}
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	if err := p.StartCollector(limited(t)); err != nil {
		t.Fatal(err)
	}
	health(t, p, "an empty backlog", empty)
	audit(t, p, tr.Ledger())
}
