package kinesis

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/collector/internal/sink"
)

// part is a record out of an aggregate.
type part struct{ Key, Hash, Data string }

// takeApart reads an aggregate as its consumers do, without the code that made
// it: nil if it is none.
func takeApart(t testing.TB, data []byte) []part {
	t.Helper()
	body, ok := bytes.CutPrefix(data, []byte{0xF3, 0x89, 0x9A, 0xC2})
	if !ok || len(body) < 16 {
		return nil
	}
	sum := md5.Sum(body[:len(body)-16])
	if !bytes.Equal(sum[:], body[len(body)-16:]) {
		t.Fatal("the checksum of an aggregate is wrong")
	}
	var keys, hashes []string
	var parts []part
	for field, value := range fields(t, body[:len(body)-16]) {
		for _, v := range value {
			switch field {
			case 1:
				keys = append(keys, string(v.bytes))
			case 2:
				hashes = append(hashes, string(v.bytes))
			}
		}
	}
	for _, v := range fields(t, body[:len(body)-16])[3] {
		inner := fields(t, v.bytes)
		if len(inner[1]) != 1 || len(inner[2]) != 1 || len(inner[3]) != 1 {
			t.Fatalf("a record has the fields %v", inner)
		}
		parts = append(parts, part{keys[inner[1][0].number], hashes[inner[2][0].number], string(inner[3][0].bytes)})
	}
	return parts
}

type value struct {
	number uint64
	bytes  []byte
}

// fields reads a message of numbers and byte strings.
func fields(t testing.TB, b []byte) map[uint64][]value {
	t.Helper()
	found := map[uint64][]value{}
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			t.Fatal("an aggregate is cut off")
		}
		b = b[size:]
		return n
	}
	for len(b) > 0 {
		tag := number()
		v := value{number: number()}
		if tag&7 == 2 {
			v.bytes, b = b[:v.number], b[v.number:]
		} else if tag&7 != 0 {
			t.Fatalf("a field of kind %d", tag&7)
		}
		found[tag>>3] = append(found[tag>>3], v)
	}
	return found
}

// Whatever the records, each is in exactly one parcel, in order, with its key and
// data; parcels keep to their size; nothing that could share one is alone.
func TestAggregate_property(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1024, aggregateBytes).Draw(rt, "most")
		n := rapid.IntRange(0, 200).Draw(rt, "n")
		records, at := make([]sink.Record, n), make([]int, n)
		for i := range records {
			records[i] = sink.Record{
				Key:  fmt.Sprint("key ", rapid.IntRange(0, 150).Draw(rt, "key")),
				Data: bytes.Repeat([]byte{byte(i)}, rapid.OneOf(rapid.IntRange(0, 2000), rapid.IntRange(0, 120_000)).Draw(rt, "size")),
			}
			at[i] = i
		}
		var seen []int
		for _, p := range aggregate(records, at, most) {
			seen = append(seen, p.at...)
			if len(p.at) == 1 {
				if r := records[p.at[0]]; p.key != r.Key || p.hash != "" || !bytes.Equal(p.data, r.Data) {
					rt.Fatalf("a record alone is changed: %q", p.key)
				}
				continue
			}
			if p.size() > int64(most) {
				rt.Fatalf("an aggregate has %d bytes, want at most %d", p.size(), most)
			}
			parts := takeApart(t, p.data)
			if len(parts) != len(p.at) {
				rt.Fatalf("an aggregate of %d records has %d", len(p.at), len(parts))
			}
			for n, i := range p.at {
				if got := parts[n]; got.Key != records[i].Key || got.Data != string(records[i].Data) || got.Hash != p.hash {
					rt.Fatalf("record %d comes out with key %q, hash key %q (want %q) and %d bytes", i, got.Key, got.Hash, p.hash, len(got.Data))
				}
			}
			if h, ok := new(big.Int).SetString(p.hash, 10); !ok || h.BitLen() > 128 {
				rt.Fatalf("%q is no hash key", p.hash)
			}
		}
		if !slices.Equal(seen, at) {
			rt.Fatalf("the parcels hold %v", seen)
		}
	})
}

// Small records must not leave much of what is paid for empty.
func TestAggregate_fillsPayloadUnits(t *testing.T) {
	records, at := make([]sink.Record, 5000), make([]int, 5000)
	for i := range records {
		records[i], at[i] = sink.Record{Key: fmt.Sprintf("%036d", i), Data: make([]byte, 1024)}, i
	}
	units, parcels := 0, aggregate(records, at, aggregateBytes)
	for _, p := range parcels {
		units += (int(p.size()) + payloadUnit - 1) / payloadUnit
	}
	perUnit := float64(len(records)) / float64(units)
	t.Logf("%d records of 1 KiB with keys of 36 characters: %d parcels, %d PUT payload units, %.1f records each", len(records), len(parcels), units, perUnit)
	if perUnit < 22 {
		t.Errorf("%.1f records a payload unit, want 22 at least", perUnit)
	}
}

// An aggregate is what the consumers' libraries expect: read here by hand, and by
// Python's library for Lambda where it is installed.
func TestAggregate_isReadByConsumers(t *testing.T) {
	records := []sink.Record{{Key: "a", Data: []byte("one")}, {Key: "b", Data: []byte{0, 0xff}}, {Key: "a", Data: nil}, {Key: "é", Data: []byte(strings.Repeat("x", 3000))}}
	parcels := aggregate(records, []int{0, 1, 2, 3}, aggregateBytes)
	if len(parcels) != 1 {
		t.Fatalf("%d parcels", len(parcels))
	}
	var want, got [][2]string
	for _, r := range records {
		want = append(want, [2]string{r.Key, hex.EncodeToString(r.Data)})
	}
	for _, p := range takeApart(t, parcels[0].data) {
		got = append(got, [2]string{p.Key, hex.EncodeToString([]byte(p.Data))})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if err := exec.Command("python3", "-c", "import aws_kinesis_agg.deaggregator").Run(); err != nil {
		t.Log("python3 has no aws_kinesis_agg here")
		return
	}
	script := `
import base64, json, sys
from aws_kinesis_agg.deaggregator import deaggregate_records
data = base64.b64encode(bytes.fromhex(sys.stdin.read())).decode()
record = {"eventID": "x", "kinesis": {"data": data, "partitionKey": "a", "sequenceNumber": "1", "approximateArrivalTimestamp": 1, "kinesisSchemaVersion": "1.0"}}
print(json.dumps([[r["kinesis"]["partitionKey"], base64.b64decode(r["kinesis"]["data"]).hex()] for r in deaggregate_records([record])]))
`
	cmd := exec.Command("python3", "-c", script)
	cmd.Stdin = strings.NewReader(hex.EncodeToString(parcels[0].data))
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &trouble)
	}
	got = nil
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records as Python reads them (-want +got):\n%s", diff)
	}
}

func BenchmarkAggregate(b *testing.B) {
	records, at := make([]sink.Record, 500), make([]int, 500)
	for i := range records {
		records[i], at[i] = sink.Record{Key: fmt.Sprintf("%036d", i), Data: make([]byte, 1024)}, i
	}
	b.SetBytes(int64(len(records) * 1024))
	for b.Loop() {
		aggregate(records, at, aggregateBytes)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
}
