package payload

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var opts = cmp.AllowUnexported(Text{})

func vectorA() *Payload {
	return &Payload{
		Schema: Some(Schema), IPAddress: Some("192.0.2.3"), Timestamp: 1700000000123, Encoding: Some("UTF-8"),
		Collector: Some("ssc-3.4.0-kinesissink"), UserAgent: Some("testUserAgent"), RefererURI: Some("http://example.com/"),
		Path: Some("/com.snowplowanalytics.snowplow/tp2"), QueryString: Some(""),
		Body: []byte(`{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[{"e":"pv","p":"web","tv":"js-4.0.0"}]}`),
		Headers: []string{"User-Agent: testUserAgent", "Cookie: sp=dfdb716e-ecf9-4d00-8b10-44edfbc8a108",
			"application/json; charset=utf-8"},
		ContentType: Some("application/json; charset=utf-8"), NetworkUserID: Some("dfdb716e-ecf9-4d00-8b10-44edfbc8a108"),
	}
}

func vectorB() *Payload {
	return &Payload{
		Schema: Some(Schema), IPAddress: Some("unknown"), Timestamp: 1700000000000, Encoding: Some("UTF-8"),
		Collector: Some("ssc-3.4.0-kinesissink"), Path: Some("/i"), QueryString: Some("e=pv&p=web"),
		Headers: []string{"SP-Anonymous: *"}, NetworkUserID: Some("00000000-0000-0000-0000-000000000000"),
	}
}

func vectorC() *Payload {
	return &Payload{
		Schema: Some(Schema), IPAddress: Some("192.0.2.3"), Timestamp: 1700000000000, Encoding: Some("UTF-8"),
		Collector: Some("ssc-3.4.0-testsink"), UserAgent: Some("testUserAgent"), RefererURI: Some("example.com"),
		Path: Some("p"), QueryString: Some("a=b"), Body: []byte("b"), ContentType: Some("image/gif"), Hostname: Some("example.com"),
		Headers: []string{"User-Agent: testUserAgent", "Referer: example.com", "Content-Type: application/json",
			"X-Forwarded-For: 192.0.2.3", "Access-Control-Allow-Credentials: true",
			"Cookie: cookie=value;sp=dfdb716e-ecf9-4d00-8b10-44edfbc8a108", "image/gif"},
		NetworkUserID: Some("dfdb716e-ecf9-4d00-8b10-44edfbc8a108"),
	}
}

func TestPayload_AppendThrift_matchesKnownDigests(t *testing.T) {
	for name, tc := range map[string]struct {
		payload *Payload
		size    int
		digest  string
	}{
		"TV-01 POST":      {vectorA(), 570, "15ff0ae95c5c1011eb8b72c4291e1b2e35d94eb6c43d2f6beba7b8e6504a193b"},
		"TV-02 anonymous": {vectorB(), 234, "62c34e9562d8473b2c76c4bd1a02d0ce0929d2b3ea5a86fab256b56fbd09168f"},
		"TV-03 full":      {vectorC(), 522, "3baa005b9ce02833d6b90b614e6e123b5a6bb5b1a7009e33e5eab469d279b59b"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.payload.AppendThrift(nil)
			sum := sha256.Sum256(got)
			if len(got) != tc.size || hex.EncodeToString(sum[:]) != tc.digest {
				t.Errorf("got %d bytes with digest %x, want %d bytes with %s", len(got), sum, tc.size, tc.digest)
			}
			back, err := Decode(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.payload, back, opts); diff != "" {
				t.Errorf("decoded differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPayload_AppendThrift_sizes(t *testing.T) {
	for name, tc := range map[string]struct {
		payload Payload
		want    int
	}{
		"TV-04 everything absent": {Payload{}, 12},
		"TV-05 querystring":       {Payload{QueryString: Some(strings.Repeat("x", 1000))}, 1019},
		"TV-05 long body":         {Payload{Body: bytes.Repeat([]byte("s"), 1010)}, 1029},
		"TV-05 body":              {Payload{Body: bytes.Repeat([]byte("s"), 1000)}, 1019},
		"TV-05 path and body":     {Payload{Path: Some(strings.Repeat("p", 1000)), Body: bytes.Repeat([]byte("b"), 65)}, 1091},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len(tc.payload.AppendThrift(nil)); got != tc.want {
				t.Errorf("got %d bytes, want %d", got, tc.want)
			}
			if got := tc.payload.ThriftSize(); got != tc.want {
				t.Errorf("ThriftSize() = %d, want %d", got, tc.want)
			}
		})
	}
	if got := hex.EncodeToString((&Payload{}).AppendThrift(nil)); got != "0a00c8000000000000000000" {
		t.Errorf("the payload without fields is %s", got)
	}
}

type golden struct {
	Name    string
	Payload json.RawMessage
	Thrift  []byte
}

func goldens(t testing.TB) []golden {
	f, err := os.Open("testdata/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []golden
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var g golden
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	if err := lines.Err(); err != nil || len(all) < 40 {
		t.Fatalf("read %d vectors: %v", len(all), err)
	}
	return all
}

// The vectors were made by the Thrift project's Python library.
func TestPayload_formsAgreeWithGoldenVectors(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.Name, func(t *testing.T) {
			var p Payload
			if err := json.Unmarshal(g.Payload, &p); err != nil {
				t.Fatal(err)
			}
			if got := p.AppendThrift(nil); !bytes.Equal(got, g.Thrift) {
				t.Fatalf("Thrift form\n got %x\nwant %x", got, g.Thrift)
			}
			back, err := Decode(g.Thrift)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&p, back, opts); diff != "" {
				t.Errorf("decoded differs (-want +got):\n%s", diff)
			}
			var want, got any
			if err := errors.Join(json.Unmarshal(g.Payload, &want), json.Unmarshal(p.AppendJSON(nil), &got)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("JSON form differs (-want +got):\n%s", diff)
			}
		})
	}
}

// viaRuntime encodes with the Thrift project's Go runtime.
func viaRuntime(t *rapid.T, p *Payload) []byte {
	ctx := context.Background()
	buf := thrift.NewTMemoryBuffer()
	out := thrift.NewTBinaryProtocolConf(buf, nil)
	check := func(errs ...error) {
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	text := func(name string, id int16, v Text) {
		if v.Present() {
			check(out.WriteFieldBegin(ctx, name, thrift.STRING, id), out.WriteString(ctx, v.String()), out.WriteFieldEnd(ctx))
		}
	}
	check(out.WriteStructBegin(ctx, "CollectorPayload"))
	text("ipAddress", 100, p.IPAddress)
	check(out.WriteFieldBegin(ctx, "timestamp", thrift.I64, 200), out.WriteI64(ctx, p.Timestamp), out.WriteFieldEnd(ctx))
	text("encoding", 210, p.Encoding)
	text("collector", 220, p.Collector)
	text("userAgent", 300, p.UserAgent)
	text("refererUri", 310, p.RefererURI)
	text("path", 320, p.Path)
	text("querystring", 330, p.QueryString)
	if p.Body != nil {
		check(out.WriteFieldBegin(ctx, "body", thrift.STRING, 340), out.WriteBinary(ctx, p.Body), out.WriteFieldEnd(ctx))
	}
	if p.Headers != nil {
		check(out.WriteFieldBegin(ctx, "headers", thrift.LIST, 350), out.WriteListBegin(ctx, thrift.STRING, len(p.Headers)))
		for _, h := range p.Headers {
			check(out.WriteString(ctx, h))
		}
		check(out.WriteListEnd(ctx), out.WriteFieldEnd(ctx))
	}
	text("contentType", 360, p.ContentType)
	text("hostname", 400, p.Hostname)
	text("networkUserId", 410, p.NetworkUserID)
	text("schema", 31337, p.Schema)
	check(out.WriteFieldStop(ctx), out.WriteStructEnd(ctx), out.Flush(ctx))
	return buf.Bytes()
}

func drawPayload(t *rapid.T) *Payload {
	bytesOrText := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	text := rapid.OneOf(rapid.Just(Text{}), rapid.Map(bytesOrText, Some))
	p := &Payload{Timestamp: rapid.Int64().Draw(t, "timestamp")}
	for _, f := range []*Text{&p.Schema, &p.IPAddress, &p.Encoding, &p.Collector, &p.UserAgent, &p.RefererURI, &p.Path,
		&p.QueryString, &p.ContentType, &p.Hostname, &p.NetworkUserID} {
		*f = text.Draw(t, "text")
	}
	if body := text.Draw(t, "body"); body.Present() {
		p.Body = []byte(body.String())
	}
	if rapid.Bool().Draw(t, "has headers") {
		p.Headers = append([]string{}, rapid.SliceOf(bytesOrText).Draw(t, "headers")...)
	}
	return p
}

func TestPayload_roundTripsThroughEveryForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPayload(t)
		encoded := p.AppendThrift([]byte("kept"))
		if !bytes.HasPrefix(encoded, []byte("kept")) {
			t.Fatal("AppendThrift changed what was there before")
		}
		encoded = encoded[4:]
		if want := viaRuntime(t, p); !bytes.Equal(encoded, want) {
			t.Fatalf("Thrift form\n got %x\nwant %x", encoded, want)
		}
		if p.ThriftSize() != len(encoded) {
			t.Fatalf("ThriftSize() = %d, want %d", p.ThriftSize(), len(encoded))
		}
		decoded, err := Decode(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, decoded, opts); diff != "" {
			t.Fatalf("decoded differs (-want +got):\n%s", diff)
		}
		line := p.AppendJSON(nil)
		if bytes.ContainsAny(line, "\n\r") || !json.Valid(line) {
			t.Fatalf("not one line of JSON: %q", line)
		}
		var fromJSON Payload
		if err := json.Unmarshal(line, &fromJSON); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(fromJSON.AppendThrift(nil), encoded) {
			t.Fatalf("the JSON form %s turns into other Thrift bytes", line)
		}
	})
}

func TestPayload_UnmarshalJSON_refusesWhatItCannotTurnBack(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"no timestamp":       {`{"path":"/i"}`, "timestamp"},
		"path twice":         {`{"timestamp":1,"path":"/i","pathBase64":"/w=="}`, "path stands twice"},
		"body twice":         {`{"timestamp":1,"body":"","bodyBase64":""}`, "stand twice"},
		"headers twice":      {`{"timestamp":1,"headers":[],"headersBase64":[]}`, "stand twice"},
		"not base64":         {`{"timestamp":1,"bodyBase64":"*"}`, "base64"},
		"timestamp is text":  {`{"timestamp":"1"}`, "timestamp"},
		"not an object":      {`[]`, "array"},
		"timestamp too long": {`{"timestamp":9223372036854775808}`, "9223372036854775808"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Payload{Timestamp: 7}
			err := p.UnmarshalJSON([]byte(tc.in))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one that contains %q", err, tc.want)
			}
			if p.Timestamp != 7 {
				t.Error("the payload was changed")
			}
		})
	}
}

func TestPayload_UnmarshalJSON_leavesOtherMembersAlone(t *testing.T) {
	var p Payload
	if err := json.Unmarshal([]byte(`{"seq":7,"partitionKey":"k","timestamp":1,"headersBase64":["/w==",""]}`), &p); err != nil {
		t.Fatal(err)
	}
	if want := (Payload{Timestamp: 1, Headers: []string{"\xff", ""}}); !cmp.Equal(p, want, opts) {
		t.Errorf("got %+v, want %+v", p, want)
	}
}

func TestDecode_refusesAnythingElse(t *testing.T) {
	good := vectorA().AppendThrift(nil)
	for name, in := range map[string][]byte{
		"nothing":                nil,
		"one byte more":          append(bytes.Clone(good), 0),
		"no timestamp":           {0},
		"string for a timestamp": {11, 0, 200, 0, 0, 0, 0, 0},
		"unknown field":          append((&Payload{}).AppendThrift(nil)[:11], 10, 0, 201, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		"field twice":            append((&Payload{Path: Some("a")}).AppendThrift(nil)[:19], 11, 1, 64, 0, 0, 0, 1, 'a', 0),
		"negative length":        {11, 0, 100, 0xff, 0xff, 0xff, 0xff},
		"length beyond the end":  {11, 0, 100, 0x7f, 0xff, 0xff, 0xff, 'a'},
		"list of numbers":        append((&Payload{}).AppendThrift(nil)[:11], 15, 1, 94, 10, 0, 0, 0, 0, 0),
		"a billion headers":      append((&Payload{}).AppendThrift(nil)[:11], 15, 1, 94, 11, 0x3f, 0xff, 0xff, 0xff, 0),
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := Decode(in); !errors.Is(err, ErrFormat) || p != nil {
				t.Errorf("got %v, %v; want an error that wraps ErrFormat", p, err)
			}
		})
	}
	for n := range good {
		if _, err := Decode(good[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("the first %d bytes of %d were taken: %v", n, len(good), err)
		}
	}
}

func TestDecode_sharesNoMemoryWithInput(t *testing.T) {
	in := vectorA().AppendThrift(nil)
	p, err := Decode(in)
	if err != nil {
		t.Fatal(err)
	}
	clear(in)
	if diff := cmp.Diff(vectorA(), p, opts); diff != "" {
		t.Errorf("the payload changed with the input (-want +got):\n%s", diff)
	}
}

func TestPayload_Excerpt(t *testing.T) {
	body := &Payload{Body: bytes.Repeat([]byte("s"), 1010)}
	long := "CollectorPayload(schema:null, ipAddress:null, timestamp:0, encoding:null, collector:null, body:sssss"
	for name, tc := range map[string]struct {
		payload *Payload
		runes   int
		want    string
	}{
		"SP-06 cut in the body": {body, 100, long},
		"SP-07 cut in the name": {body, 10, "CollectorP"},
		"nothing":               {body, 0, ""},
		"whole": {vectorB(), 1000, "CollectorPayload(schema:" + Schema + ", ipAddress:unknown, timestamp:1700000000000, encoding:UTF-8, " +
			"collector:ssc-3.4.0-kinesissink, path:/i, querystring:e=pv&p=web, headers:[SP-Anonymous: *], " +
			"networkUserId:00000000-0000-0000-0000-000000000000)"},
		"not UTF-8": {&Payload{Path: Some("\xffé")}, 97, "CollectorPayload(schema:null, ipAddress:null, timestamp:0, encoding:null, collector:null, path:\ufffdé"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.payload.Excerpt(tc.runes); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, g := range goldens(f) {
		f.Add(g.Thrift)
	}
	base, _ := base64.StdEncoding.DecodeString("CgDIAAAAAAAAAAAA")
	f.Add(base)
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := Decode(in)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("error without ErrFormat: %v", err)
			}
			return
		}
		if out := p.AppendThrift(nil); !bytes.Equal(out, in) {
			t.Fatalf("decoded and encoded again\n got %x\nwant %x", out, in)
		}
	})
}

func FuzzUnmarshalJSON(f *testing.F) {
	for _, g := range goldens(f) {
		f.Add([]byte(g.Payload))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var p, again Payload
		if p.UnmarshalJSON(in) != nil {
			return
		}
		if err := again.UnmarshalJSON(p.AppendJSON(nil)); err != nil {
			t.Fatalf("our own JSON form is refused: %v", err)
		}
		if !bytes.Equal(p.AppendThrift(nil), again.AppendThrift(nil)) {
			t.Fatalf("%s and its JSON form differ in Thrift", in)
		}
	})
}

func BenchmarkPayload_AppendThrift(b *testing.B) {
	p := vectorA()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = p.AppendThrift(buf[:0])
	}
}

func BenchmarkDecode(b *testing.B) {
	in := vectorA().AppendThrift(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(in); err != nil {
			b.Fatal(err)
		}
	}
}
