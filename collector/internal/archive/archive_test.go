package archive_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"pgregory.net/rapid"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/payload"
	"spillway/collector/internal/sink"
)

var receivedAt = time.Date(2026, 12, 1, 1, 59, 59, 123e6, time.UTC)

func event(seq uint64, query string) sink.Record {
	p := payload.Payload{Timestamp: receivedAt.UnixMilli(), Path: payload.Some("/i"), QueryString: payload.Some(query), Body: []byte("a\xffb"),
		Headers: []string{"Accept: */*"}, Schema: payload.Some(payload.Schema)}
	return sink.Record{Seq: seq, At: receivedAt, Key: "3f5b8f2e", Data: p.AppendThrift(nil)}
}

func events(n int) []sink.Record {
	var records []sink.Record
	for i := range n {
		records = append(records, event(uint64(100+i), fmt.Sprint("e=pv&n=", i)))
	}
	return records
}

func pack(t *testing.T, lane sink.Lane, records []sink.Record) *archive.Object {
	t.Helper()
	o, err := archive.Pack(lane, "ip-10-0-0-12", records)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// read returns all records, the damaged lines and the final error.
func read(r *archive.Reader) (records []sink.Record, damaged []int, err error) {
	for {
		record, err := r.Next()
		if e, ok := errors.AsType[*archive.LineError](err); ok {
			damaged = append(damaged, e.Line)
			continue
		}
		if err != nil {
			return records, damaged, err
		}
		records = append(records, record)
	}
}

func TestAppendLine_goodLane_hasTheFieldsOfThePayload(t *testing.T) {
	r := event(17, "e=pv")
	r.At = r.At.Add(time.Millisecond)
	got := string(archive.AppendLine(nil, sink.Good, r))
	want := `{"seq":17,"partitionKey":"3f5b8f2e","receivedAt":1796090399124,"timestamp":1796090399123,"path":"/i","querystring":"e=pv",` +
		`"bodyBase64":"Yf9i","headers":["Accept: */*"],"schema":"iglu:com.snowplowanalytics.snowplow/CollectorPayload/thrift/1-0-0"}`
	if got != want {
		t.Errorf("line\n got %s\nwant %s", got, want)
	}
}

func TestAppendLine_keepsWhatIsNotReadable(t *testing.T) {
	for name, c := range map[string]struct {
		lane sink.Lane
		data string
		want string
	}{
		"not a payload": {sink.Good, "\x00\x01", `{"seq":1,"partitionKeyBase64":"/w==","timestamp":5,"thriftBase64":"AAE="}`},
		"no data":       {sink.Good, "", `{"seq":1,"partitionKeyBase64":"/w==","timestamp":5,"thriftBase64":""}`},
		"bad row":       {sink.Bad, `{"schema": "iglu:x", "n":1e400}`, `{"seq":1,"partitionKeyBase64":"/w==","timestamp":5,"badRow":{"schema": "iglu:x", "n":1e400}}`},
		"two lines":     {sink.Bad, "{\n}", `{"seq":1,"partitionKeyBase64":"/w==","timestamp":5,"badRowBase64":"ewp9"}`},
		"space around":  {sink.Bad, " {}", `{"seq":1,"partitionKeyBase64":"/w==","timestamp":5,"badRowBase64":"IHt9"}`},
		"not an object": {sink.Bad, `null`, `{"seq":1,"partitionKeyBase64":"/w==","timestamp":5,"badRowBase64":"bnVsbA=="}`},
		"not JSON":      {sink.Bad, `{}},"x":{}`, `{"seq":1,"partitionKeyBase64":"/w==","timestamp":5,"badRowBase64":"e319LCJ4Ijp7fQ=="}`},
		"not UTF-8":     {sink.Bad, "{\"\xff\":1}", `{"seq":1,"partitionKeyBase64":"/w==","timestamp":5,"badRowBase64":"eyL/IjoxfQ=="}`},
		"no bad row":    {sink.Bad, "", `{"seq":1,"partitionKeyBase64":"/w==","timestamp":5,"badRowBase64":""}`},
	} {
		r := sink.Record{Seq: 1, At: time.UnixMilli(5), Key: "\xff", Data: []byte(c.data)}
		line := archive.AppendLine([]byte("kept\n"), c.lane, r)
		if got := string(line); got != "kept\n"+c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		back, err := archive.ParseLine(c.lane, line[len("kept\n"):])
		if err != nil || string(back.Data) != c.data || back.Key != "\xff" {
			t.Errorf("%s: came back as %+v, %v", name, back, err)
		}
	}
}

func TestAppendLine_deeplyNestedBadRow_comesBack(t *testing.T) {
	for _, depth := range []int{9990, 9998, 9999, 10000, 10001} {
		data := `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}"
		line := archive.AppendLine(nil, sink.Bad, sink.Record{Key: "k", Data: []byte(data)})
		back, err := archive.ParseLine(sink.Bad, line)
		if err != nil || string(back.Data) != data {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

// drawRecord draws any record, and often one whose data is readable.
func drawRecord(t *rapid.T) (sink.Lane, sink.Record) {
	some := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	lane := rapid.SampledFrom(sink.Lanes()).Draw(t, "lane")
	r := sink.Record{
		Seq: rapid.Uint64().Draw(t, "seq"), At: time.UnixMilli(rapid.Int64Range(0, 1<<46).Draw(t, "at")).UTC(),
		Key: some.Draw(t, "key"), Data: []byte(some.Draw(t, "data")),
	}
	switch {
	case !rapid.Bool().Draw(t, "readable"):
	case lane == sink.Bad:
		row, err := json.Marshal(map[string]string{"payload": some.Draw(t, "payload")})
		if err != nil {
			t.Fatal(err)
		}
		r.Data = row
	default:
		p := payload.Payload{Timestamp: r.At.UnixMilli() + rapid.Int64Range(0, 1).Draw(t, "late")}
		for _, field := range []*payload.Text{&p.IPAddress, &p.Path, &p.QueryString, &p.UserAgent} {
			*field = payload.Some(some.Draw(t, "field"))
		}
		if rapid.Bool().Draw(t, "body") {
			p.Body = []byte(some.Draw(t, "body text"))
		}
		p.Headers = rapid.SliceOf(some).Draw(t, "headers")
		r.Data = p.AppendThrift(nil)
	}
	return lane, r
}

func TestParseLine_givesBackAnyRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lane, r := drawRecord(t)
		line := archive.AppendLine(nil, lane, r)
		if bytes.ContainsAny(line, "\r\n") || !json.Valid(line) {
			t.Fatalf("not one line of JSON: %q", line)
		}
		back, err := archive.ParseLine(lane, line)
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if diff := cmp.Diff(r, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestParseLine_refuses(t *testing.T) {
	for name, line := range map[string]string{
		"nothing":             ``,
		"no object":           `[]`,
		"cut off":             `{"seq":1,"partitionKey":"k","timestamp":`,
		"no seq":              `{"partitionKey":"k","timestamp":5,"thriftBase64":""}`,
		"negative seq":        `{"seq":-1,"partitionKey":"k","timestamp":5,"thriftBase64":""}`,
		"no key":              `{"seq":1,"timestamp":5,"thriftBase64":""}`,
		"two keys":            `{"seq":1,"partitionKey":"k","partitionKeyBase64":"aw==","timestamp":5,"thriftBase64":""}`,
		"no timestamp":        `{"seq":1,"partitionKey":"k","thriftBase64":""}`,
		"not base64":          `{"seq":1,"partitionKey":"k","timestamp":5,"thriftBase64":"?"}`,
		"field of wrong type": `{"seq":1,"partitionKey":"k","timestamp":5,"path":7}`,
		"bad row":             `{"seq":1,"partitionKey":"k","timestamp":5,"badRow":{}}`,
	} {
		if r, err := archive.ParseLine(sink.Good, []byte(line)); err == nil {
			t.Errorf("%s: taken as %+v", name, r)
		}
	}
	for name, line := range map[string]string{
		"good":         `{"seq":1,"partitionKey":"k","timestamp":5,"thriftBase64":""}`,
		"two bad rows": `{"seq":1,"partitionKey":"k","timestamp":5,"badRow":{},"badRowBase64":"e30="}`,
	} {
		if r, err := archive.ParseLine(sink.Bad, []byte(line)); err == nil {
			t.Errorf("%s: taken as %+v", name, r)
		}
	}
}

func TestPack_namesAndDescribesTheObject(t *testing.T) {
	records := events(3)
	records[0], records[2] = records[2], records[0] // as after a repeated attempt
	records[1].At = receivedAt.Add(-time.Hour)
	o := pack(t, sink.Good, records)
	if want := "good/date=2026-12-01/hour=01/ip-10-0-0-12/100-102-" + o.SHA256[:8] + ".ndjson.gz"; o.Name.String() != want {
		t.Errorf("name %s, want %s", o.Name, want)
	}
	want := map[string]string{"spillway-format": "1", "count": "3", "sha256": o.SHA256,
		"first-timestamp": "2026-12-01T00:59:59.123Z", "last-timestamp": "2026-12-01T01:59:59.123Z"}
	if diff := cmp.Diff(want, o.Metadata()); diff != "" {
		t.Error(diff)
	}
	if again := pack(t, sink.Good, records); again.Name != o.Name || !bytes.Equal(again.Body, o.Body) {
		t.Error("the same records gave another object")
	}
	if other := pack(t, sink.Good, []sink.Record{records[0], records[2]}); other.Name.First != o.Name.First || other.Name == o.Name {
		t.Errorf("other records between the same numbers have the name %s too", other.Name)
	}
	if _, err := archive.Pack(sink.Good, "i", nil); err == nil {
		t.Error("an object of no records")
	}
}

func TestReader_givesBackTheBatch(t *testing.T) {
	records := events(50)
	o := pack(t, sink.Good, records)
	r := archive.NewReader(sink.Good, bytes.NewReader(o.Body))
	got, damaged, err := read(r)
	if err != io.EOF || len(damaged) != 0 || r.Line() != 50 || r.Sum() != o.SHA256 {
		t.Errorf("%v, damaged %v, %d lines, sum %s", err, damaged, r.Line(), r.Sum())
	}
	if diff := cmp.Diff(records, got); diff != "" {
		t.Error(diff)
	}
}

func packed(t testing.TB, content string) []byte {
	t.Helper()
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return body.Bytes()
}

func TestReader_damagedLines_areReportedAndPassedOver(t *testing.T) {
	line := func(seq uint64) string { return string(archive.AppendLine(nil, sink.Good, event(seq, "x"))) }
	content := line(1) + "\nnonsense\n" + line(2) + "\r\n\n" + strings.Repeat("x", 100<<10) + "\n" + line(3) + "\n" + line(4)[:20]
	got, damaged, err := read(archive.NewReader(sink.Good, bytes.NewReader(packed(t, content))))
	if err != io.EOF {
		t.Errorf("final error %v", err)
	}
	if diff := cmp.Diff([]int{2, 5, 7}, damaged); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]sink.Record{event(1, "x"), event(2, "x"), event(3, "x")}, got); diff != "" {
		t.Error(diff)
	}
}

func TestReader_endlessLine_isPassedOverInBoundedMemory(t *testing.T) {
	next := string(archive.AppendLine(nil, sink.Good, event(1, "x")))
	object, w := io.Pipe()
	go func() {
		packer := gzip.NewWriter(w)
		block := bytes.Repeat([]byte("x"), 1<<20)
		for range 90 {
			_, _ = packer.Write(block)
		}
		_, _ = io.WriteString(packer, "\n"+next+"\n")
		_ = w.CloseWithError(packer.Close())
	}()
	got, damaged, err := read(archive.NewReader(sink.Good, object))
	if err != io.EOF || len(got) != 1 || len(damaged) != 1 || damaged[0] != 1 {
		t.Errorf("%d records, damaged %v, %v", len(got), damaged, err)
	}
}

func TestReader_cutOffObject_givesTheRecordsBeforeTheCut(t *testing.T) {
	whole := pack(t, sink.Good, events(40)).Body
	var most int
	for cut := range whole {
		got, damaged, err := read(archive.NewReader(sink.Good, bytes.NewReader(whole[:cut])))
		if !errors.Is(err, archive.ErrTruncated) || len(damaged) != 0 {
			t.Fatalf("cut at %d of %d: %v, damaged %v", cut, len(whole), err, damaged)
		}
		for i, r := range got {
			if r.Seq != uint64(100+i) {
				t.Fatalf("cut at %d: record %d has number %d", cut, i, r.Seq)
			}
		}
		most = max(most, len(got))
	}
	if most != 40 {
		t.Errorf("with only the checksum missing there were %d records, want 40", most)
	}
}

func TestReader_damagedObject_saysSo(t *testing.T) {
	whole := pack(t, sink.Good, events(20)).Body
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-8] ^= 1 // the checksum
	broken := bytes.Clone(whole)
	for i := 20; i < len(broken)-20; i++ {
		broken[i] = 0xff
	}
	for name, object := range map[string][]byte{"checksum": flipped, "content": broken, "not gzip": []byte("plain text, no gzip at all"), "more behind": append(bytes.Clone(whole), "more behind it"...)} {
		if _, _, err := read(archive.NewReader(sink.Good, bytes.NewReader(object))); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	failing := errors.New("connection reset")
	object := io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), failure{failing})
	if _, _, err := read(archive.NewReader(sink.Good, object)); !errors.Is(err, failing) || errors.Is(err, archive.ErrTruncated) {
		t.Errorf("failing reader: %v", err)
	}
}

type failure struct{ err error }

func (f failure) Read([]byte) (int, error) { return 0, f.err }

func TestName_roundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := archive.Name{
			Lane: rapid.SampledFrom(sink.Lanes()).Draw(t, "lane"), Hour: time.Unix(rapid.Int64Range(0, 70000).Draw(t, "hour")*3600*100, 0).UTC(),
			Instance: archive.CleanInstance(rapid.String().Draw(t, "instance")), First: rapid.Uint64().Draw(t, "first"),
			Last: rapid.Uint64().Draw(t, "last"), Sum: rapid.StringMatching("[0-9a-f]{8}").Draw(t, "sum"),
		}
		prefix := rapid.SampledFrom([]string{"", "a", "a/b", "date=1/good"}).Draw(t, "prefix")
		gotPrefix, got, err := archive.ParseKey(n.Key(prefix))
		if err != nil || gotPrefix != prefix {
			t.Fatalf("prefix %q, %v", gotPrefix, err)
		}
		if diff := cmp.Diff(n, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestParseName_refuses(t *testing.T) {
	for _, s := range []string{"", "good", "_probe/ip-10-0-0-12", "good/date=2026-12-01/hour=01/i/1-2.ndjson.gz", "good/date=2026-13-01/hour=01/i/1-2-00000000.ndjson.gz",
		"good/date=2026-12-01/hour=24/i/1-2-00000000.ndjson.gz", "ugly/date=2026-12-01/hour=01/i/1-2-00000000.ndjson.gz",
		"good/date=2026-12-01/hour=01/i/99999999999999999999-2-00000000.ndjson.gz", "good/date=2026-12-01/hour=01/i/2-99999999999999999999-00000000.ndjson.gz"} {
		if n, err := archive.ParseName(s); err == nil {
			t.Errorf("%q is taken as %+v", s, n)
		}
	}
}

func TestCleanPrefix_dropsSlashes(t *testing.T) {
	for in, want := range map[string]string{"": "", "/": "", "a": "a", "/a/": "a", "a//b/./c/": "a/b/c", "../a": "a"} {
		if got := archive.CleanPrefix(in); got != want {
			t.Errorf("CleanPrefix(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"ip-10-0-0-12": "ip-10-0-0-12", "a/b c": "a-b-c", "": "unnamed", "..": "unnamed", "ü": "unnamed"} {
		if got := archive.CleanInstance(in); got != want {
			t.Errorf("CleanInstance(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	o, err := archive.Pack(sink.Good, "i", events(3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(o.Body, false)
	f.Add(o.Body[:len(o.Body)-9], false)
	f.Add([]byte(`{"seq":1,"partitionKey":"k","timestamp":5,"badRow":{}}`+"\n"), true)
	f.Add(archive.AppendLine(nil, sink.Good, event(1, "x")), true)
	f.Fuzz(func(t *testing.T, object []byte, plain bool) {
		if plain {
			object = packed(t, string(object))
		}
		for _, lane := range sink.Lanes() {
			records, _, err := read(archive.NewReader(lane, bytes.NewReader(object)))
			if err == nil {
				t.Fatal("no final error")
			}
			for _, r := range records {
				back, err := archive.ParseLine(lane, archive.AppendLine(nil, lane, r))
				if err != nil || back.Seq != r.Seq || !back.At.Equal(r.At) || back.Key != r.Key || !bytes.Equal(back.Data, r.Data) {
					t.Fatalf("%+v came back as %+v, %v", r, back, err)
				}
			}
		}
	})
}

func BenchmarkPack(b *testing.B) {
	records := events(500)
	for b.Loop() {
		if _, err := archive.Pack(sink.Good, "i", records); err != nil {
			b.Fatal(err)
		}
	}
}
