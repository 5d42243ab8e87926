package kinesis_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/kinesis"
	"spillway/collector/internal/sink/sinktest"
	"spillway/shared/rig/fault"
	rig "spillway/shared/rig/kinesis"
)

func aggregated(c *kinesis.Config) { c.Aggregate = true }

// stored returns what is in the stream with aggregates taken apart.
func stored(k *rig.Server) (records []sink.Record) {
	for r := range k.All("good") {
		body, ok := bytes.CutPrefix(r.Data, []byte{0xF3, 0x89, 0x9A, 0xC2})
		if !ok {
			records = append(records, sink.Record{Key: r.Key, Data: r.Data})
			continue
		}
		var keys []string
		for b := body[:len(body)-16]; len(b) > 0; {
			field, _, n := protowire.ConsumeTag(b)
			value, m := protowire.ConsumeBytes(b[n:])
			b = b[n+m:]
			switch field {
			case 1:
				keys = append(keys, string(value))
			case 3:
				key, n := protowire.ConsumeVarint(value[1:])
				data, _ := protowire.ConsumeBytes(value[1+n+2+1:])
				records = append(records, sink.Record{Key: keys[key], Data: data})
			}
		}
	}
	return records
}

func TestSink_aggregating_keepsTheContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Destination {
		k := start(t, rig.Options{})
		return sinktest.Destination{
			Sink: open(t, k.URL(), aggregated), Stored: func() []sink.Record { return stored(k) },
			FailNotApplied: func() { breakIt(t, k, fault.Fault{Kind: fault.Error, Code: rig.AccessDenied}) },
			FailApplied:    func() { breakIt(t, k, fault.Fault{Kind: fault.Lost}) },
			Mend:           func() { mend(t, k) },
		}
	})
}

// events are n records of about a kilobyte.
func events(n int) []sink.Record {
	records := make([]sink.Record, n)
	for i := range records {
		records[i] = sink.Record{Seq: uint64(i + 1), Key: fmt.Sprintf("%036d", i), Data: fmt.Appendf(nil, "event %d. %s", i, strings.Repeat("x", 1000))}
	}
	return records
}

func TestSink_aggregating_whatBecomesOfAnAggregateBecomesOfItsRecords(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), aggregated)
	records := events(300)
	breakIt(t, k, fault.Fault{Kind: fault.Record, Code: rig.Throttled, Times: 1})
	out := s.Write(t.Context(), records)
	mend(t, k)
	var written, throttled int
	for _, o := range out {
		switch o.Class {
		case sink.Written:
			written++
		case sink.Throttled:
			throttled++
		}
	}
	if throttled < 50 || written+throttled != len(records) || len(stored(k)) != written {
		t.Errorf("%d written (%d are there), %d throttled of %d", written, len(stored(k)), throttled, len(records))
	}
	if n := k.Count("good"); n > 4 {
		t.Errorf("300 events of 1 KB made %d records of the stream", n)
	}
}

// One bad record costs neither the others of its aggregate nor itself a fair trial.
func TestSink_aggregating_poisonIsFoundWithinItsAggregate(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), aggregated)
	records := events(200)
	records = append(records, sink.Record{Seq: 999, Key: "large", Data: bytes.Repeat([]byte("L"), 150_000)})
	breakIt(t, k, fault.Fault{Kind: fault.Error, Code: "ValidationException", Match: "event 77."})
	for i, o := range s.Write(t.Context(), records) {
		if want := map[bool]sink.Class{true: sink.Permanent, false: sink.Written}[i == 77]; o.Class != want {
			t.Errorf("record %d is %v, want %v: %v", i, o.Class, want, o.Err)
		}
	}
	if n := len(stored(k)); n != len(records)-1 {
		t.Errorf("%d records are there, want %d", n, len(records)-1)
	}
}

// The KCL drops an aggregate of which a record does not belong to the shard.
func TestSink_aggregating_spreadsAggregatesOverTheShards(t *testing.T) {
	k := start(t, rig.Options{Streams: map[string]int{"good": 4, "bad": 1}})
	s := open(t, k.URL(), aggregated)
	same := events(8000)
	for i := range same {
		same[i].Key = "the same for all"
	}
	for i, o := range s.Write(t.Context(), same) {
		if o.Class != sink.Written {
			t.Fatalf("record %d: %v", i, o.Err)
		}
	}
	shards := map[string]int{}
	for r := range k.All("good") {
		shards[r.Shard]++
	}
	if len(shards) != 4 {
		t.Errorf("%d aggregates went to %d shards of 4: %v", k.Count("good"), len(shards), shards)
	}
}
