package tracker_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"spillway/shared/rig/tracker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is a fake that keeps what it was sent and answers as told.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	bodies [][]byte
	answer func(n int) int // HTTP status of request n; 0 stores and resets the connection
	n      int
}

func newCollector(t *testing.T, answer func(n int) int) *collector {
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		c.mu.Lock()
		c.n++
		status := c.answer(c.n)
		if status == 200 || status == 0 {
			c.bodies = append(c.bodies, append(body, r.URL.RawQuery...))
		}
		c.mu.Unlock()
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(c.Close)
	return c
}

func ok(int) int { return 200 }

func run(t *testing.T, c tracker.Config) *tracker.Ledger {
	t.Helper()
	tr, err := tracker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tr.Ledger()
}

func TestTracker_Run_sendsEachEventOnce(t *testing.T) {
	c := newCollector(t, ok)
	l := run(t, tracker.Config{URL: c.URL, Connections: 4, Events: 200, EventsPerPost: 3, PixelShare: 0.25})
	r := tracker.Audit(l, slices.Values(c.bodies), nil)
	if r.Acked != 200 || r.InKinesis != 200 || r.Duplicates() != 0 || len(r.Lost) != 0 || r.Foreign != 0 {
		t.Errorf("%v", r)
	}
	pixels := 0
	for _, b := range c.bodies {
		if bytes.HasPrefix(b, []byte("aid=")) {
			pixels++
		}
	}
	if share := float64(pixels) / float64(len(c.bodies)); share < 0.2 || share > 0.3 {
		t.Errorf("%d of %d requests were pixels, want a quarter", pixels, len(c.bodies))
	}
}

func TestTracker_Run_sendsWhatTrackersSend(t *testing.T) {
	c := newCollector(t, ok)
	run(t, tracker.Config{URL: c.URL, Events: 1, EventBytes: 1500})
	var post struct {
		Schema string
		Data   []map[string]string
	}
	if err := json.Unmarshal(c.bodies[0], &post); err != nil {
		t.Fatalf("%v in %s", err, c.bodies[0])
	}
	if !strings.HasPrefix(post.Schema, "iglu:com.snowplowanalytics.snowplow/payload_data/") || len(post.Data) != 1 {
		t.Fatalf("%s", c.bodies[0])
	}
	e := post.Data[0]
	if parsed, err := uuid.Parse(e["eid"]); err != nil || parsed.Version() != 4 {
		t.Errorf("event id %q: %v", e["eid"], err)
	}
	for _, field := range []string{"ue_px", "cx"} {
		inner, err := base64.RawURLEncoding.DecodeString(e[field])
		if err != nil || !json.Valid(inner) {
			t.Errorf("%s: %q, %v", field, inner, err)
		}
	}
	size := len(c.bodies[0]) - len(`{"schema":"","data":[]}`) - len(post.Schema)
	if size < 1490 || size > 1510 {
		t.Errorf("the event has %d bytes, want about 1500", size)
	}
}

func TestTracker_Run_comesAgainAfterARefusal(t *testing.T) {
	c := newCollector(t, func(n int) int { return []int{200, 503, 0, 500}[n%4] })
	l := run(t, tracker.Config{URL: c.URL, Connections: 3, Events: 40, Resend: true, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond})
	r := tracker.Audit(l, slices.Values(c.bodies), nil)
	if r.Acked != 40 || r.Open != 0 || len(r.Lost) != 0 || r.InKinesis != 40 {
		t.Errorf("%v", r)
	}
	// net/http itself sends a POST again only if nothing of it was read, so that
	// each answer the fake withheld is one unclear attempt and one copy too many.
	if r.Refused == 0 || r.Unclear == 0 || r.Duplicates() != r.Unclear || r.Attempts != r.Acked+r.Refused+r.Unclear {
		t.Errorf("%v", r)
	}
}

func TestTracker_Run_withoutResend_leavesEventsOpen(t *testing.T) {
	c := newCollector(t, func(n int) int { return []int{200, 503, 400}[n%3] })
	l := run(t, tracker.Config{URL: c.URL, Events: 30})
	counts := l.Counts()
	if counts.Acked != 10 || counts.Refused != 10 || counts.Dropped != 10 || counts.Open != 10 || counts.Attempts != 30 {
		t.Errorf("%v", counts)
	}
	if len(l.Acked()) != 10 || len(l.Open()) != 10 || counts.Statuses[503] != 10 || counts.Statuses[400] != 10 {
		t.Errorf("%v", counts)
	}
}

func TestTracker_Settle_deliversWhatIsOpen(t *testing.T) {
	c := newCollector(t, func(n int) int {
		if n <= 7 { // the 5 requests of Run and 2 of Settle
			return 503
		}
		return 200
	})
	tr, err := tracker.New(tracker.Config{URL: c.URL, Connections: 2, Events: 50, EventsPerPost: 10, BackoffMin: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := tr.Ledger().Counts().Open; n != 50 {
		t.Fatalf("%d open, want 50", n)
	}
	if err := tr.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := tracker.Audit(tr.Ledger(), slices.Values(c.bodies), nil)
	if r.Acked != 50 || r.InKinesis != 50 || r.Duplicates() != 0 {
		t.Errorf("%v", r)
	}
}

func TestTracker_Settle_endsWithItsContext(t *testing.T) {
	c := newCollector(t, func(int) int { return 503 })
	tr, err := tracker.New(tracker.Config{URL: c.URL, Events: 3, BackoffMin: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := tr.Settle(ctx); !errors.Is(err, context.DeadlineExceeded) || tr.Ledger().Counts().Open != 3 {
		t.Errorf("%v, %v", err, tr.Ledger().Counts())
	}
}

func TestTracker_Run_whenNobodyListens_countsItApart(t *testing.T) {
	c := newCollector(t, ok)
	c.Close()
	l := run(t, tracker.Config{URL: c.URL, Events: 5})
	if n := l.Counts().Unreachable; n != 5 {
		t.Errorf("%v, want 5 unreachable", l.Counts())
	}
}

func TestTracker_Run_keepsToTheRate(t *testing.T) {
	c := newCollector(t, ok)
	begun := time.Now()
	l := run(t, tracker.Config{URL: c.URL, Connections: 2, Events: 100, EventsPerSecond: 400})
	if took := time.Since(begun); took < 240*time.Millisecond {
		t.Errorf("100 events at 400 a second took %v", took)
	}
	if l.Counts().Acked != 100 {
		t.Errorf("%v", l.Counts())
	}
}

func TestTracker_New_refusesWhatIsImpossible(t *testing.T) {
	for _, c := range []tracker.Config{{}, {URL: "http://x", PixelShare: 2}, {URL: "http://x", EventsPerSecond: -1}} {
		if _, err := tracker.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

func TestAudit_tellsLostAndDuplicateAndForeign(t *testing.T) {
	c := newCollector(t, func(n int) int { return map[bool]int{true: 200, false: 503}[n <= 4] })
	l := run(t, tracker.Config{URL: c.URL, Events: 5})
	acked, open := l.Acked(), l.Open()
	kinesis := [][]byte{
		fmt.Appendf(nil, "\x0b\x00\x64%s\x00%s", acked[0], acked[0]), // twice in one record
		[]byte(open[0]),                       // refused, yet there
		[]byte(acked[1][:len(acked[1])-1]),    // cut short: not an id
		[]byte("5b111a00-0000-4000-8000-xyz"), // looks like one only at first
		[]byte(strings.Replace(acked[2], "-4", "-5", 1)),
	}
	s3 := [][]byte{fmt.Appendf(nil, `{"body":"{\"eid\":\"%s\"}"}`+"\n"+`{"body":"{\"eid\":\"%s\"}"}`, acked[0], acked[2])}
	r := tracker.Audit(l, slices.Values(kinesis), slices.Values(s3))
	if r.InKinesis != 2 || r.InS3 != 2 || r.InBoth != 1 || r.Copies != 5 || r.Duplicates() != 2 || r.Unasked != 1 || r.Foreign != 1 {
		t.Errorf("%+v", r)
	}
	if want := []string{acked[1], acked[3]}; !slices.Equal(r.Lost, want) {
		t.Errorf("lost %v, want %v", r.Lost, want)
	}
	if text := r.String(); !strings.Contains(text, "lost 2") || !strings.Contains(text, acked[3]) {
		t.Errorf("report %s", text)
	}
	if got := string(tracker.Keep(kinesis[0])); got != acked[0]+"\n"+acked[0] {
		t.Errorf("kept %q", got)
	}
}

func FuzzIDs_neverPanicsAndFindsItsOwn(f *testing.F) {
	f.Add([]byte("5b111a00-5b111a00-0000-4000-8000-000000000001"))
	f.Add([]byte("5b111a00-0000-4000-8000-00000000000"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, eid := range tracker.IDs(data) {
			if !bytes.Contains(data, []byte(eid)) || len(eid) != 36 {
				t.Errorf("%q is not in %q", eid, data)
			}
		}
		const own = "5b111a00-0123-4567-8009-000000000042"
		found := tracker.IDs(append(append(slices.Clone(data), ' '), own...))
		if len(found) == 0 || found[len(found)-1] != own {
			t.Errorf("%s not found behind %q", own, data)
		}
	})
}
