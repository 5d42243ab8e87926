package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/collector/internal/payload"
	"spillway/collector/internal/sink"
)

const anIgluURI = "iglu:com.snowplowanalytics.snowplow.badrows/size_violation/jsonschema/1-0-0"

// splitter returns a core with limits as small as a row wants them, which no
// configuration may.
func splitter(t testing.TB, maxRecord, maxPayload int) *Core {
	t.Helper()
	c, err := New(DefaultConfig(), Options{ProcessorName: "spillway", ProcessorVersion: "0.1.0", NewID: func() string { return "key" }})
	if err != nil {
		t.Fatal(err)
	}
	c.cfg.MaxRecordBytes, c.cfg.MaxPayloadBytes = size(maxRecord), size(maxPayload)
	return c
}

// cut splits a payload that is nothing but its body.
func (c *Core) cut(p payload.Payload, at time.Time) *Plan {
	plan := &Plan{payload: p}
	c.split(p.ThriftSize(), "key", at, plan)
	return plan
}

type badRow struct {
	Schema string
	Data   struct {
		Processor struct{ Artifact, Version string }
		Failure   struct {
			Timestamp               time.Time
			MaximumAllowedSizeBytes int
			ActualSizeBytes         int
			Expectation             string
		}
		Payload string
	}
}

func lanes(t testing.TB, plan *Plan) (good []*payload.Payload, bad []badRow) {
	t.Helper()
	for _, r := range plan.Records {
		if r.Key != "key" {
			t.Errorf("partition key is %q", r.Key)
		}
		if r.Lane == sink.Good {
			p, err := payload.Decode(r.Data)
			if err != nil {
				t.Fatal(err)
			}
			good = append(good, p)
			continue
		}
		var row badRow
		if err := json.Unmarshal(r.Data, &row); err != nil {
			t.Fatalf("bad row %s: %v", r.Data, err)
		}
		if !strings.HasPrefix(row.Data.Failure.Expectation, "oversized collector payload: ") {
			t.Errorf("expectation is %q", row.Data.Failure.Expectation)
		}
		bad = append(bad, row)
	}
	return good, bad
}

func TestCore_split_oneBadRowForWhatCannotBeCut(t *testing.T) {
	const prefix = "oversized collector payload: "
	selfDescribing := func(data string) []byte { return []byte(`{"schema":"` + anIgluURI + `","data":` + data + `}`) }
	for name, tc := range map[string]struct {
		maxRecord, maxPayload int
		payload               payload.Payload
		actual                int
		expectation           string
		excerpt               string
	}{
		"SP-06 over max_payload_bytes": {1000, 1000, payload.Payload{Body: []byte(strings.Repeat("s", 1010))}, 1029,
			prefix + "Payload exceeds max size of 1000. Actual length: 1029",
			"CollectorPayload(schema:null, ipAddress:null, timestamp:0, encoding:null, collector:null, body:sssss"},
		"SP-05 GET": {100, 1020, payload.Payload{QueryString: payload.Some(strings.Repeat("x", 1000))}, 1019,
			prefix + "GET requests cannot be split", "CollectorP"},
		"SP-07 not JSON": {100, 1020, payload.Payload{Body: []byte(strings.Repeat("s", 1000))}, 1019,
			prefix + "cannot split POST requests which are not json ", "CollectorP"},
		"SP-08 no schema": {100, 0, payload.Payload{Body: []byte(`{"data":["` + strings.Repeat("x", 200) + `"]}`)}, 232,
			prefix + "cannot split POST requests which are not self-describing ", "CollectorP"},
		"SP-08 not an object": {100, 0, payload.Payload{Body: []byte(`["` + strings.Repeat("x", 200) + `"]`)}, 223,
			prefix + "cannot split POST requests which are not self-describing ", "CollectorP"},
		"SP-08 no data": {100, 0, payload.Payload{Body: []byte(`{"schema":"` + anIgluURI + `"}`)}, 107,
			prefix + "cannot split POST requests which are not self-describing ", "CollectorP"},
		"SP-08 data is no array": {100, 0, payload.Payload{Body: selfDescribing(`{"e":"pv"}`)}, 125,
			prefix + "cannot split POST requests which do not contain a data array", "CollectorP"},
		"SP-08 data is null": {100, 0, payload.Payload{Body: selfDescribing(`null`)}, 119,
			prefix + "cannot split POST requests which do not contain a data array", "CollectorP"},
		"SP-08 no events": {100, 0, payload.Payload{Body: []byte(`{"schema":"` + anIgluURI + `","data":[],"x":"` + strings.Repeat("x", 100) + `"}`)}, 224,
			prefix + "cannot split POST requests which do not contain a data array", "CollectorP"},
		"SP-15 too large without data": {1000, 0, payload.Payload{Path: payload.Some(strings.Repeat("p", 1000)), Body: selfDescribing(`[1,2]`)}, 1127,
			prefix + `cannot split this POST request because event without "data" field is still too big`,
			"CollectorPayload(schema:null, ipAddress:null, timestamp:0, encoding:null, collector:null, path:ppppp"},
	} {
		t.Run(name, func(t *testing.T) {
			at := time.Date(2026, 12, 1, 1, 2, 3, 4e6, time.UTC)
			plan := splitter(t, tc.maxRecord, tc.maxPayload).cut(tc.payload, at)
			good, bad := lanes(t, plan)
			if len(good) != 0 || len(bad) != 1 {
				t.Fatalf("got %d good and %d bad", len(good), len(bad))
			}
			f := bad[0].Data.Failure
			if !strings.HasPrefix(f.Expectation, tc.expectation) {
				t.Errorf("expectation is %q, want %q", f.Expectation, tc.expectation)
			}
			if f.ActualSizeBytes != tc.actual || f.MaximumAllowedSizeBytes != tc.maxRecord || !f.Timestamp.Equal(at) {
				t.Errorf("failure is %+v, want actual %d, maximum %d", f, tc.actual, tc.maxRecord)
			}
			if bad[0].Data.Payload != tc.excerpt {
				t.Errorf("payload is %q, want %q", bad[0].Data.Payload, tc.excerpt)
			}
			if bad[0].Data.Processor.Artifact != "spillway" || bad[0].Data.Processor.Version != "0.1.0" || bad[0].Schema != anIgluURI {
				t.Errorf("bad row is from %+v with schema %s", bad[0].Data.Processor, bad[0].Schema)
			}
			if len(plan.Oversize) != 1 || string(plan.Oversize[0].Data) != string(tc.payload.AppendThrift(nil)) {
				t.Errorf("the whole payload was not kept: %d", len(plan.Oversize))
			}
		})
	}
}

func TestCore_split_SP09_mixedSizes(t *testing.T) {
	event := func(n int, s string) string { return `{"e":"se","tv":"` + strings.Repeat(s, n) + `"}` }
	events := []string{event(600, "x"), event(5, "x"), event(600, "x"), event(1000, "y"), event(1000, "y"), event(1000, "y"), event(1000, "y")}
	p := payload.Payload{Body: []byte(`{"schema":"` + anIgluURI + `","data":[` + strings.Join(events, ",") + `]}`)}
	if p.ThriftSize() != 5454 {
		t.Fatalf("the payload has %d bytes", p.ThriftSize())
	}
	plan := splitter(t, 1000, 10000).cut(p, time.Now())
	good, bad := lanes(t, plan)
	if len(good) != 2 || len(bad) != 4 || len(plan.Oversize) != 4 {
		t.Fatalf("got %d good, %d bad, %d kept, want 2, 4 and 4", len(good), len(bad), len(plan.Oversize))
	}
	if a, b := good[0].ThriftSize(), good[1].ThriftSize(); a != 759 || b != 735 {
		t.Errorf("good records have %d and %d bytes, want 759 and 735", a, b)
	}
	for _, row := range bad {
		if f := row.Data.Failure; f.MaximumAllowedSizeBytes != 1000 || f.ActualSizeBytes != 1018 ||
			f.Expectation != "oversized collector payload: this POST request split is still too large" {
			t.Errorf("failure is %+v", f)
		}
	}
	for _, r := range plan.Oversize {
		p, err := payload.Decode(r.Data)
		if err != nil || !strings.Contains(string(p.Body), event(1000, "y")) {
			t.Errorf("an event that is too large was not kept whole: %v", err)
		}
	}
}

// SP-10, SP-12: whatever the sizes, every element stands in exactly one place,
// in order; a good record is under the limit; and no cut was needless.
func TestCore_split_keepsEveryElement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(300, 2000).Draw(t, "limit")
		sizes := rapid.SliceOfN(rapid.IntRange(0, 2200), 1, 40).Draw(t, "sizes")
		space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
		var elements []string
		for i, n := range sizes {
			elements = append(elements, fmt.Sprintf(`"%03d%s"`, i, strings.Repeat("é", n/2)))
		}
		p := payload.Payload{Path: payload.Some("/a/b"), NetworkUserID: payload.Some("n"),
			Body: []byte(`{"schema":` + space + `"` + anIgluURI + `","data":[` + strings.Join(elements, ","+space) + `]}`)}
		c, err := New(DefaultConfig(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.cfg.MaxRecordBytes = size(limit)
		plan := c.cut(p, time.Now())

		var found, kept []string
		read := func(data []byte) (elements []string, total int) {
			p, err := payload.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			var body struct {
				Schema string
				Data   []json.RawMessage
			}
			if err := json.Unmarshal(p.Body, &body); err != nil {
				t.Fatal(err)
			}
			if body.Schema != anIgluURI || p.Path.String() != "/a/b" || p.NetworkUserID.String() != "n" {
				t.Fatalf("a record lost something: %+v", p)
			}
			for _, d := range body.Data {
				elements = append(elements, string(d))
			}
			return elements, len(data)
		}
		bad, previous := 0, 0
		for _, r := range plan.Records {
			if r.Lane == sink.Bad {
				bad++
				previous = 0
				continue
			}
			some, total := read(r.Data)
			if len(some) == 0 || total >= limit {
				t.Fatalf("a record has %d elements and %d bytes, the limit is %d", len(some), total, limit)
			}
			if previous > 0 && previous+1+len(some[0]) < limit {
				t.Fatalf("the first element of a record would have fitted the one before")
			}
			found, previous = append(found, some...), total
		}
		for _, r := range plan.Oversize {
			some, total := read(r.Data)
			if len(some) != 1 || total < limit {
				t.Fatalf("kept %d elements of %d bytes, the limit is %d", len(some), total, limit)
			}
			kept = append(kept, some...)
		}
		if bad != len(kept) {
			t.Fatalf("%d bad rows for %d elements that are too large", bad, len(kept))
		}
		if !slices.IsSorted(found) || !slices.IsSorted(kept) {
			t.Fatal("the order was changed")
		}
		all := append(found, kept...)
		slices.Sort(all)
		if !slices.Equal(all, elements) {
			t.Fatalf("elements in %d, out %d", len(elements), len(all))
		}
	})
}

// SP-12, SP-13: the limits themselves.
func TestCore_Plan_limitIsTooLarge(t *testing.T) {
	c := splitter(t, 100, 0)
	req := &Request{Method: "POST", Path: "/a/b", Body: []byte("{}"), At: time.UnixMilli(0)}
	var plan Plan
	c.cfg.MaxRecordBytes = 10000
	c.Plan(c.Route(req), req, &plan)
	whole := len(plan.Records[0].Data)
	for _, tc := range []struct{ limit, good int }{{whole + 1, 1}, {whole, 0}} {
		c.cfg.MaxRecordBytes = size(tc.limit)
		c.Plan(c.Route(req), req, &plan)
		good, bad := lanes(t, &plan)
		if len(good) != tc.good || len(bad) != 1-tc.good {
			t.Errorf("limit %d for a payload of %d: %d good, %d bad", tc.limit, whole, len(good), len(bad))
		}
	}
	body := []byte(`{"schema":"` + anIgluURI + `","data":["` + strings.Repeat("a", 60) + `","` + strings.Repeat("b", 60) + `"]}`)
	p := payload.Payload{Body: body}
	for _, tc := range []struct{ most, good int }{{p.ThriftSize(), 2}, {p.ThriftSize() - 1, 0}} {
		c.cfg.MaxRecordBytes, c.cfg.MaxPayloadBytes = 200, size(tc.most)
		if good, _ := lanes(t, c.cut(p, time.Now())); len(good) != tc.good {
			t.Errorf("max_payload_bytes %d: %d good, want %d", tc.most, len(good), tc.good)
		}
	}
}

// SP-11: an element with which a record would have exactly the limit.
func TestCore_split_elementAtTheLimit(t *testing.T) {
	body := func(elements ...string) payload.Payload {
		return payload.Payload{Body: []byte(`{"schema":"` + anIgluURI + `","data":[` + strings.Join(elements, ",") + `]}`)}
	}
	element := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	empty := body()
	room := 1000 - empty.ThriftSize()
	for _, tc := range []struct {
		elements  []string
		good, bad int
	}{
		{[]string{element(room - 1), element(9)}, 2, 0},
		{[]string{element(room), element(9)}, 1, 1},
		{[]string{element(9), element(room)}, 1, 1},
		{[]string{element(100), element(room - 102), element(900 - 102)}, 2, 0}, // the first two fill a record to the last byte
		{[]string{element(100), element(room - 101), element(9)}, 2, 0},         // one byte more, and the second begins a new record
	} {
		good, bad := lanes(t, splitter(t, 1000, 0).cut(body(tc.elements...), time.Now()))
		if len(good) != tc.good || len(bad) != tc.bad {
			t.Errorf("elements of %d and %d bytes: %d good, %d bad, want %d and %d",
				len(tc.elements[0]), len(tc.elements[1]), len(good), len(bad), tc.good, tc.bad)
		}
	}
	two := splitter(t, 1000, 0).cut(body(element(100), element(room-102), element(900-102)), time.Now())
	if n := len(two.Records[0].Data); n != 999 {
		t.Errorf("the first record has %d bytes, want 999", n)
	}
}

func TestBadRowVersion(t *testing.T) {
	for in, want := range map[string]string{
		"0.1.0": "0.1.0", "1.2.3-rc1+build": "1.2.3-rc1+build", "devel": "0.0.0-devel", "": "0.0.0-",
		"1.2.3-" + strings.Repeat("x", 50): "1.2.3-" + strings.Repeat("x", 26),
	} {
		if got := badRowVersion(in); got != want {
			t.Errorf("badRowVersion(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte(`{"schema":"`+anIgluURI+`","data":[{"e":"pv"},1,[2],"x",null]}`), 150)
	f.Add([]byte(`{"schema":"`+anIgluURI+`","data":[]}`), 10)
	f.Add([]byte(strings.Repeat("[", 500)), 100)
	f.Add([]byte(nil), 0)
	f.Fuzz(func(t *testing.T, body []byte, limit int) {
		if limit < 0 || limit > 1<<20 {
			return
		}
		c := splitter(t, limit, 0)
		plan := c.cut(payload.Payload{Body: body}, time.UnixMilli(0))
		good, bad := lanes(t, plan)
		if len(good)+len(bad) == 0 {
			t.Fatal("the payload vanished")
		}
		for _, r := range plan.Records {
			if r.Lane == sink.Good && len(r.Data) >= limit {
				t.Fatalf("a record of %d bytes for a limit of %d", len(r.Data), limit)
			}
		}
		if len(bad) != len(plan.Oversize) {
			t.Fatalf("%d bad rows, %d kept", len(bad), len(plan.Oversize))
		}
	})
}
