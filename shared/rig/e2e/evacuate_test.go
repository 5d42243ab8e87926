package e2e

import (
	"strings"
	"testing"

	"spillway/shared/rig"
	"spillway/shared/rig/pair"
)

// A box that is taken away with its disk: what waits goes to Kinesis, else to S3,
// else it is counted and the exit code says so.
func TestCollector_stoppedToEvacuate_leavesNothingBehindOrSaysSo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		kinesis, s3     bool // are up when it stops
		code            int
		inKinesis, inS3 bool // where all events are then
		says            string
	}{
		{name: "Kinesis up", kinesis: true, s3: true, inKinesis: true, says: "collector stopped"},
		{name: "Kinesis down", s3: true, inS3: true, says: "goes to the fallback destination"},
		{name: "both down", code: 1, says: "keep the disk"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, pair.Options{Alone: true, Collector: "stop: {evacuate: true, timeout: 8s}\ndelivery: {stop_timeout: 1s}\n"})
			for _, cut := range []func() error{p.CutKinesis, p.CutS3} {
				if err := cut(); err != nil {
					t.Fatal(err)
				}
			}
			tr := sendAll(t, p, 200)
			if c.kinesis {
				if err := p.MendKinesis(); err != nil {
					t.Fatal(err)
				}
			}
			if c.s3 {
				if err := p.MendS3(); err != nil {
					t.Fatal(err)
				}
			}
			exit, err := p.Collector.Stop(limited(t))
			if err != nil || exit.Code != c.code {
				t.Errorf("it ended with %v, %v, want exit code %d", exit, err, c.code)
			}
			if log := p.Collector.Process().Tail(60); !strings.Contains(log, c.says) {
				t.Errorf("its log does not say %q:\n%s", c.says, log)
			}
			if c.code != 0 {
				if log := p.Collector.Process().Tail(60); !strings.Contains(log, "kept_events=") || p.Rig.Kinesis.Count(rig.GoodStream) > 0 {
					t.Errorf("it does not count what it keeps:\n%s", log)
				}
				// The disk was saved after all.
				if err := p.MendKinesis(); err != nil {
					t.Fatal(err)
				}
				if err := p.StartCollector(limited(t)); err != nil {
					t.Fatal(err)
				}
				health(t, p, "an empty backlog", empty)
			}
			r := audit(t, p, tr.Ledger())
			if c.inKinesis && r.InKinesis != 200 || c.inS3 && r.InS3 != 200 {
				t.Errorf("not all events are where they should be: %v", r)
			}
		})
	}
}
