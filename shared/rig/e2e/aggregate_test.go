package e2e

import (
	"testing"

	"spillway/shared/rig"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/tracker"
)

// What a stream is charged for: each record by begun units of 25 KB.
func payloadUnits(p *pair.Pair) (records, units, bytes int) {
	for r := range p.Rig.Kinesis.All(rig.GoodStream) {
		size := len(r.Data) + len(r.Key)
		records, units, bytes = records+1, units+(size+24_999)/25_000, bytes+size
	}
	return records, units, bytes
}

// Aggregates are killed, thrown back and sent again like single records, and cost
// a fraction of them.
func TestCollector_aggregating_losesNothingAndCostsLess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, config string }{
		{"single records", ""},
		{"aggregates", "sink: {kinesis: {aggregate: true}}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, pair.Options{Alone: true, Collector: c.config})
			if err := p.CutKinesis(); err != nil {
				t.Fatal(err)
			}
			tr := send(t, p, tracker.Config{Connections: 16, Events: 2000, Resend: true})
			tr.acked(t, 1000)
			if err := p.MendKinesis(); err != nil {
				t.Fatal(err)
			}
			if _, err := p.KillCollector(limited(t)); err != nil {
				t.Fatal(err)
			}
			tr.acked(t, 2000)
			health(t, p, "an empty backlog", empty)
			r := audit(t, p, tr.Ledger())
			records, units, bytes := payloadUnits(p)
			t.Logf("%d events arrived in %d records of the stream, %d PUT payload units, %d bytes", r.Copies, records, units, bytes)
			if c.config != "" && units > r.Copies/5 {
				t.Errorf("%d events cost %d PUT payload units", r.Copies, units)
			}
		})
	}
}
