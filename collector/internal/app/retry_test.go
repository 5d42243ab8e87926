package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spillway/collector/internal/config"
	"spillway/collector/internal/deadletter"
	"spillway/collector/internal/payload"
	"spillway/collector/internal/sink"
	"spillway/shared/configfile"
	"spillway/shared/rig/fault"
	"spillway/shared/rig/kinesis"
)

// morgue is a data directory with dead letters, and a Kinesis that is well again.
type morgue struct {
	*testing.T
	kinesis *kinesis.Server
	config  config.Config
	dir     string
}

func newMorgue(t *testing.T, letters ...deadletter.Entry) *morgue {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	server, err := kinesis.Start(kinesis.Options{Streams: map[string]int{"good": 2, "bad": 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	m := &morgue{T: t, kinesis: server, config: config.Default()}
	m.config.DataDir = t.TempDir()
	m.config.Sink.Type = config.Kinesis
	k := &m.config.Sink.Kinesis
	k.GoodStream, k.BadStream, k.AWS.Region, k.AWS.Endpoint = "good", "bad", "eu-west-1", server.URL()
	m.dir = filepath.Join(m.config.DataDir, "dead-letters")
	store, err := deadletter.Open(m.dir, m.config.DeadLetters, deadletter.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), letters...); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *morgue) retry(change func(*Retry)) FileRetry {
	m.Helper()
	r := Retry{Config: m.config, Lanes: sink.Lanes(), Log: quiet()}
	if change != nil {
		change(&r)
	}
	done, err := r.Run(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	if len(done) != 1 {
		m.Fatalf("%d files were retried, want one: %+v", len(done), done)
	}
	return done[0]
}

// rest returns what is still in the store.
func (m *morgue) rest() (letters []deadletter.Entry) {
	m.Helper()
	files, err := deadletter.List(m.dir)
	if err != nil {
		m.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f.Path)
		if err != nil {
			m.Fatal(err)
		}
		for e, err := range deadletter.Read(bytes.NewReader(data)) {
			if err != nil {
				m.Errorf("%s: %v", f.Path, err)
				continue
			}
			letters = append(letters, e)
		}
	}
	return letters
}

var day = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func letterOf(i int, reason string) deadletter.Entry {
	return deadletter.Entry{At: day, ReceivedAt: day, Lane: "good", Seq: uint64(i), Reason: reason, Key: fmt.Sprint("key", i), Data: fmt.Appendf(nil, "letter %d", i)}
}

func TestRetry_deliversTheChosenAndKeepsTheRest(t *testing.T) {
	m := newMorgue(t, letterOf(1, "mended"), letterOf(2, "still broken"), letterOf(3, "mended"))
	if r := m.retry(func(r *Retry) { r.DryRun, r.Match = true, "mended" }); r.Chosen != 2 || r.Delivered != 0 || len(m.rest()) != 3 || m.kinesis.Count("good") != 0 {
		t.Errorf("a dry run: %+v", r)
	}
	r := m.retry(func(r *Retry) { r.Match = "mended" })
	if r.Chosen != 2 || r.Delivered != 2 || r.Kept != 1 {
		t.Errorf("got %+v, want two of two delivered and one kept", r)
	}
	if left := m.rest(); len(left) != 1 || string(left[0].Data) != "letter 2" || left[0].Reason != "still broken" || !left[0].At.Equal(day) {
		t.Errorf("what stays is %+v", left)
	}
	if n := m.kinesis.Count("good"); n != 2 {
		t.Errorf("%d records arrived, want 2", n)
	}
}

func TestRetry_refusedAgainStaysWithTheNewReason(t *testing.T) {
	m := newMorgue(t, letterOf(1, "old"), letterOf(2, "old"))
	if err := m.kinesis.Break(fault.Fault{Kind: fault.Error, Code: "ValidationException", Match: "letter 1"}); err != nil {
		t.Fatal(err)
	}
	if r := m.retry(nil); r.Delivered != 1 || r.Kept != 1 || len(r.Reasons) != 1 {
		t.Errorf("got %+v, want one delivered and one kept", r)
	}
	if left := m.rest(); len(left) != 1 || string(left[0].Data) != "letter 1" || !strings.Contains(left[0].Reason, "ValidationException") {
		t.Errorf("what stays is %+v", left)
	}
}

// Lines torn by a crash are kept for a person, and a retry that died after its
// claim is taken up by the next.
func TestRetry_takesUpAnInterruptedOneAndKeepsDamagedLines(t *testing.T) {
	m := newMorgue(t, letterOf(1, "r"))
	name := filepath.Join(m.dir, "good-2026-12-01.ndjson")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("{\"at\":\"2026-12-01T11:0"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := deadletter.Claim(name); err != nil {
		t.Fatal(err)
	}
	r := m.retry(nil)
	if r.Delivered != 1 || r.Damaged != 1 || r.Moved == "" || len(m.rest()) != 0 {
		t.Errorf("got %+v and %d letters left", r, len(m.rest()))
	}
	if data, err := os.ReadFile(r.Moved); err != nil || string(data) != "{\"at\":\"2026-12-01T11:0" {
		t.Errorf("the damaged line is kept as %q (%v)", data, err)
	}
	if list, err := os.ReadDir(m.dir); err != nil || len(list) != 1 {
		t.Errorf("the directory holds %v (%v), want the damaged line only", list, err)
	}
}

// A whole request that was too large is cut by the limits of now; if it still
// cannot be, the answer says what to raise.
func TestRetry_cutsAnOversizePayloadOrSaysWhatToRaise(t *testing.T) {
	event := func(n int) string { return `{"e":"pv","x":"` + strings.Repeat("x", n) + `"}` }
	p := payload.Payload{Body: []byte(`{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[` + event(3000) + "," + event(3000) + "," + event(6000) + `]}`)}
	whole := letterOf(1, "too large")
	whole.Code, whole.Data = "size_violation", p.AppendThrift(nil)
	m := newMorgue(t, whole)
	m.config.HTTP.MaxRecordBytes = 5 * configfile.KiB
	r := m.retry(nil)
	if r.Delivered != 0 || len(m.rest()) != 1 || m.kinesis.Count("good") != 0 {
		t.Errorf("with an event that is too large: %+v", r)
	}
	for reason := range r.Reasons {
		if !strings.Contains(reason, "raise http.max_record_bytes to 6") {
			t.Errorf("it does not say what to raise: %s", reason)
		}
	}
	m.config.HTTP.MaxRecordBytes = 7 * configfile.KiB
	if r := m.retry(nil); r.Delivered != 1 || len(m.rest()) != 0 || m.kinesis.Count("good") != 2 {
		t.Errorf("with a higher limit: %+v, %d records", r, m.kinesis.Count("good"))
	}
}
