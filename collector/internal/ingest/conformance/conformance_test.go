package conformance

import (
	"testing"
	"time"

	"spillway/collector/internal/ingest/protocol"
)

func TestCore_answersEveryRow(t *testing.T) {
	all, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for i := range all {
		c := &all[i]
		t.Run(c.ID, func(t *testing.T) {
			if c.Request.Peer == "192.0.2.2:40000" {
				t.Parallel()
			}
			got, err := c.Core(protocol.Options{Collector: "spillway-0.0.0-test", ProcessorName: "spillway", ProcessorVersion: "0.0.0"}, at)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.Check(got, at) {
				t.Error(w)
			}
		})
	}
}

func TestCases_checkSomethingEach(t *testing.T) {
	all, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("there are only %d rows", len(all))
	}
	for i := range all {
		c := &all[i]
		// An outcome that nothing could produce must be found wanting.
		if len(c.Check(&Outcome{Status: 599}, time.Now())) == 0 {
			t.Errorf("%s: checks nothing", c.ID)
		}
	}
}
