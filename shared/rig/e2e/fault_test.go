package e2e

import (
	"strings"
	"testing"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/shared/rig"
	"spillway/shared/rig/fault"
	"spillway/shared/rig/kinesis"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/s3"
)

// What is wrong with a destination at start is a fault of the destination: the
// collector starts, takes events, says what is wrong, and delivers once somebody
// has mended it, without a restart.
func TestCollector_startedWithABrokenDestination_deliversOnceItIsMended(t *testing.T) {
	t.Parallel()
	failing := func(code string) func(*rig.Rig) error {
		return func(r *rig.Rig) error { return r.Kinesis.Break(fault.Fault{Kind: fault.Error, Code: code}) }
	}
	mend := func(p *pair.Pair) error { return p.MendKinesis() }
	for _, c := range []struct {
		name      string
		options   rig.Options
		broken    func(*rig.Rig) error
		mend      func(*pair.Pair) error
		class     string // of the error, in the report
		says      string // a word of the report
		inS3      bool
		noStreams bool
	}{
		{name: "no such stream", noStreams: true, broken: func(*rig.Rig) error { return nil },
			mend: func(p *pair.Pair) error { return p.Rig.Kinesis.CreateStream(rig.GoodStream, 2) }, class: "config", says: "ResourceNotFound"},
		{name: "access denied", broken: failing(kinesis.AccessDenied), mend: mend, class: "auth", says: "AccessDenied"},
		{name: "expired token", broken: failing(kinesis.ExpiredToken), mend: mend, class: "auth", says: "ExpiredToken"},
		{name: "unknown key", broken: failing(kinesis.UnrecognizedClient), mend: mend, class: "auth", says: "UnrecognizedClient"},
		{name: "nobody there", broken: func(r *rig.Rig) error { return r.Kinesis.Break(fault.Fault{Kind: fault.Down}) },
			mend: mend, class: "network", says: "refused"},
		{name: "no such bucket", options: rig.Options{S3: s3.Options{Buckets: []string{"another-bucket"}}}, inS3: true,
			// Kinesis is cut too, or its probes would take the events.
			broken: func(r *rig.Rig) error { return r.Kinesis.Break(fault.Fault{Kind: fault.Down}) },
			mend:   func(p *pair.Pair) error { return p.Rig.S3.CreateBucket(rig.Bucket) }, class: "config", says: "NoSuchBucket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.noStreams {
				c.options.Kinesis.Streams = map[string]int{rig.BadStream: 1}
			}
			p := start(t, pair.Options{Alone: true, Rig: c.options, Before: c.broken})
			if c.inS3 {
				if status, body := post(t, p.AdminURL()+healthapi.PathMode, `{"mode":"fallback","by":"test","reason":"to use the broken bucket"}`); status != 200 {
					t.Fatalf("POST /mode: %d: %s", status, body)
				}
			}
			tr := sendAll(t, p, 40)
			r := health(t, p, "that the destination fails", func(r *healthapi.Report) bool { return r.State == healthapi.StateDegraded })
			if !r.Intake.Accepting {
				t.Errorf("the intake is %+v, want accepting", r.Intake)
			}
			if r.Sink.ErrorClass != c.class || !strings.Contains(r.Sink.LastError, c.says) {
				t.Errorf("the report says %q of class %q, want %q and %q", r.Sink.LastError, r.Sink.ErrorClass, c.says, c.class)
			}
			if len(r.Problems) == 0 {
				t.Error("the report has no problem in words")
			}
			if err := c.mend(p); err != nil {
				t.Fatal(err)
			}
			r = health(t, p, "an empty backlog", empty)
			if want := map[bool]mode.Mode{true: mode.Fallback, false: mode.Primary}[c.inS3]; r.Mode != string(want) {
				t.Errorf("it runs %s, want %s", r.Mode, want)
			}
			audit(t, p, tr.Ledger())
			if n := len(p.Collector.Restarts()); n > 0 {
				t.Errorf("it was restarted %d times", n)
			}
		})
	}
}
