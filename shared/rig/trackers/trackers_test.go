package trackers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
)

var builder proc.Builder

func TestMain(m *testing.M) {
	code := m.Run()
	if err := builder.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// need returns the path of the first command that exists, and skips or fails the
// test when there is none or when one of the files is missing.
func need(t *testing.T, commands []string, files ...string) string {
	t.Helper()
	missing := func(what string) {
		t.Helper()
		if os.Getenv("SPILLWAY_NO_SKIP") == "1" {
			t.Fatalf("%s is missing: run .ci/run, or install it and run `make trackers`", what)
		}
		t.Skipf("%s is missing: install it and run `make trackers`", what)
	}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			missing(file)
		}
	}
	for _, command := range commands {
		if path, err := exec.LookPath(command); err == nil {
			return path
		}
	}
	missing(strings.Join(commands, " or "))
	return ""
}

// Where the trackers are installed.
const (
	node4    = "node/node_modules/@snowplow/node-tracker"
	node3    = "node/node_modules/node-tracker-3"
	browser4 = "node/node_modules/@snowplow/browser-tracker/dist/index.umd.min.js"
	python   = "../../../dist/python/bin/python3"
)

// fewest is how many records wait when a collector refuses everything: more than
// the events of a test that are under way.
const fewest = 60

// start starts a collector that is full soon.
func start(t *testing.T) *pair.Pair {
	t.Helper()
	collector, err := builder.Build("spillway/collector")
	if err != nil {
		t.Fatal(err)
	}
	p, err := pair.Start(limited(t), pair.Options{
		Programs: pair.Programs{Collector: collector}, Alone: true,
		Collector: fmt.Sprintf("admission: {max_backlog_events: %d, pixels_at: 1, min_dwell: 100ms, retry_after: 1s}\n", fewest) +
			"spool: {max_bytes: 8MiB, segment_bytes: 256KiB}\nhttp: {max_record_bytes: 200KiB}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Tail(40))
		}
		if err := p.Close(); err != nil {
			t.Errorf("stop the pair: %v", err)
		}
	})
	return p
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// health waits for a report that fits.
func health(t *testing.T, p *pair.Pair, what string, fits func(*healthapi.Report) bool) {
	t.Helper()
	if _, err := p.WaitHealth(limited(t), func(r *healthapi.Report) error {
		if !fits(r) {
			return fmt.Errorf("not yet: %s: backlog %d, intake %+v, kinesis %+v", what, r.Backlog.Events, r.Intake, r.Kinesis)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// cut cuts Kinesis off and sends until the collector refuses pixels and POSTs.
func cut(t *testing.T, p *pair.Pair) {
	t.Helper()
	health(t, p, "nothing waits", func(r *healthapi.Report) bool { return r.Backlog.Events == 0 })
	if err := p.CutKinesis(); err != nil {
		t.Fatal(err)
	}
	ctx := limited(t)
	if err := proc.Until(ctx, func() error {
		for range fewest {
			resp, err := http.Post(p.URL()+"/filler/v1", "text/plain", strings.NewReader("filler"))
			if err != nil {
				return proc.Final(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		r, err := p.Health(ctx)
		if err != nil {
			return err
		}
		if r.Intake.Accepting || r.Intake.AcceptingPixels || r.Backlog.Events < fewest || r.Kinesis.ConsecutiveFailures == 0 {
			return fmt.Errorf("it is not full yet: backlog %d, intake %+v", r.Backlog.Events, r.Intake)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// mend ends the outage and waits until the collector takes requests again.
func mend(t *testing.T, p *pair.Pair) {
	t.Helper()
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	health(t, p, "requests are taken again", func(r *healthapi.Report) bool {
		return r.Intake.Accepting && r.Intake.AcceptingPixels && r.Backlog.Events == 0
	})
}

// arrived returns what the stream has of the tracker's: the events in the order
// of arrival, and the records they came in.
func arrived(t *testing.T, p *pair.Pair) (all []event, records []record) {
	t.Helper()
	for _, raw := range p.Rig.Kinesis.Records(rig.GoodStream) {
		r, err := readRecord(raw.Data)
		if err != nil {
			t.Fatalf("record %q: %v", raw.Data, err)
		}
		if strings.HasPrefix(r[fieldPath], "/filler/") {
			continue
		}
		events, err := r.events()
		if err != nil {
			t.Fatal(err)
		}
		all, records = append(all, events...), append(records, r)
	}
	return all, records
}

// number returns the number under which a driver tracked the event.
func number(e event) (int, error) {
	for n := range 1000 {
		if checkEvent(e, n) == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("event %v is none that was asked for: as number 0 %v, as 1 %v, as 2 %v", e, checkEvent(e, 0), checkEvent(e, 1), checkEvent(e, 2))
}

// waitArrived waits for exactly the events with these numbers, each once, each
// as it was asked for.
func waitArrived(t *testing.T, p *pair.Pair, want map[int]bool) []event {
	t.Helper()
	var events []event
	proc.Eventually(t, patience, func() error {
		if events, _ = arrived(t, p); len(events) < len(want) {
			return fmt.Errorf("%d events have arrived, want %d", len(events), len(want))
		}
		return nil
	})
	ids, numbers := map[string]bool{}, map[int]bool{}
	for _, e := range events {
		n, err := number(e)
		if err != nil {
			t.Fatal(err)
		}
		if ids[e["eid"]] || numbers[n] || !want[n] {
			t.Errorf("event %d (%s) has arrived twice, or should not have", n, e["eid"])
		}
		ids[e["eid"]], numbers[n] = true, true
	}
	if len(events) != len(want) {
		t.Errorf("%d events have arrived, want %d", len(events), len(want))
	}
	if t.Failed() {
		for _, raw := range p.Rig.Kinesis.Records(rig.GoodStream) {
			all := sentAt.FindAll(raw.Data, -1)
			t.Logf("at %s a record of %d events: %s", raw.At.Format("15:04:05.000"), len(all), slices.CompactFunc(all, bytes.Equal))
		}
	}
	return events
}

var sentAt = regexp.MustCompile(`"stm":"(\d+)"`)

// numbers returns first up to, but not including, end.
func numbers(first, end int) map[int]bool {
	all := map[int]bool{}
	for n := first; n < end; n++ {
		all[n] = true
	}
	return all
}

// checkSent compares what arrived with what the tracker says it has delivered.
// The time of sending is written into a copy that the tracker does not report.
func checkSent(t *testing.T, events []event, sent map[string]event) {
	t.Helper()
	if len(events) != len(sent) {
		t.Errorf("%d events have arrived, but the tracker has delivered %d", len(events), len(sent))
	}
	for _, e := range events {
		for name, value := range e {
			if was := sent[e["eid"]][name]; was != value && name != "stm" {
				t.Errorf("event %s arrived with %s=%q, sent was %q", e["eid"], name, value, was)
			}
		}
		for name := range sent[e["eid"]] {
			if _, ok := e[name]; !ok {
				t.Errorf("event %s arrived without %s", e["eid"], name)
			}
		}
	}
}

// keeps is the story of every tracker that keeps what is refused: events arrive;
// during an outage it sees 503 and keeps its events; afterwards all of them
// arrive, each once. meanwhile is called during the outage.
func keeps(t *testing.T, p *pair.Pair, d *driver, meanwhile func()) {
	t.Helper()
	d.track(t, 0, 30)
	waitArrived(t, p, numbers(0, 30))

	cut(t, p)
	before := len(d.heard())
	d.track(t, 30, 30)
	f := d.failure(t, before)
	if f.Status != http.StatusServiceUnavailable || !f.WillRetry {
		t.Errorf("the tracker saw status %d (%s) and repeats: %v; want 503 and true", f.Status, f.Message, f.WillRetry)
	}
	meanwhile()
	if events, _ := arrived(t, p); len(events) != 30 {
		t.Errorf("%d events have arrived during the outage, want the 30 before it", len(events))
	}

	mend(t, p)
	d.track(t, 60, 1)
	events := waitArrived(t, p, numbers(0, 61))
	proc.Eventually(t, patience, func() error {
		if n := len(d.sent(t)); n < len(events) {
			return fmt.Errorf("the tracker knows of %d delivered events, want %d", n, len(events))
		}
		return nil
	})
	checkSent(t, events, d.sent(t))
}

func nothing() {}

func TestNode4_keepsWhatIsRefused(t *testing.T) {
	t.Parallel()
	node := need(t, []string{"node", "nodejs"}, node4, "node/node4.js", "node/events.js", "node/lines.js")
	p := start(t)
	keeps(t, p, program(t, node, "node/node4.js", p.URL()), nothing)
}

func TestPython_keepsWhatIsRefused(t *testing.T) {
	t.Parallel()
	path := need(t, []string{python}, python, "python/driver.py")
	p := start(t)
	keeps(t, p, program(t, path, "python/driver.py", p.URL()), nothing)
}

// A browser sees the status of a refusal because it carries the CORS headers. The
// visitor leaves the page during the outage; the next page sends what the first
// one kept.
func TestBrowser4_keepsWhatIsRefused(t *testing.T) {
	t.Parallel()
	chromium := need(t, []string{"chromium", "chromium-browser", "google-chrome"}, browser4)
	p := start(t)
	d := browser(t, chromium, p.URL())
	keeps(t, p, d, func() { d.do(t, command{Do: "reload"}) })

	_, records := arrived(t, p)
	for _, r := range records {
		if r[fieldUser] == "" || r[fieldUser] != records[0][fieldUser] {
			t.Errorf("the browser is user %q, then %q: it does not keep the cookie", records[0][fieldUser], r[fieldUser])
		}
		if !strings.Contains(r[fieldUserAgent], "Chrome") {
			t.Errorf("the user agent is %q", r[fieldUserAgent])
		}
	}
}

// The Node tracker 3 keeps nothing that was refused as a POST: the only tracker
// here that needs the room on our disk.
func TestNode3_POST_losesWhatIsRefused(t *testing.T) {
	t.Parallel()
	node := need(t, []string{"node", "nodejs"}, node3, "node/node3.js", "node/events.js", "node/lines.js")
	p := start(t)
	d := program(t, node, "node/node3.js", p.URL(), "post")
	d.track(t, 0, 30)
	waitArrived(t, p, numbers(0, 30))

	cut(t, p)
	before := len(d.heard())
	d.track(t, 30, 10)
	if f := d.failure(t, before); f.Status != http.StatusServiceUnavailable {
		t.Errorf("the tracker saw status %d (%s), want 503", f.Status, f.Message)
	}
	mend(t, p)
	d.track(t, 40, 10)
	want := numbers(0, 30)
	for n := range numbers(40, 50) {
		want[n] = true
	}
	waitArrived(t, p, want)
}

// A GET of the Node tracker 3 is repeated by itself and arrives after the outage.
func TestNode3_GET_repeatsWhatIsRefused(t *testing.T) {
	t.Parallel()
	node := need(t, []string{"node", "nodejs"}, node3, "node/node3.js", "node/events.js", "node/lines.js")
	p := start(t)
	d := program(t, node, "node/node3.js", p.URL(), "get")
	d.track(t, 0, 6)
	waitArrived(t, p, numbers(0, 6))

	cut(t, p)
	var refused uint64
	health(t, p, "a report", func(r *healthapi.Report) bool { refused = r.Intake.RefusedTotal; return true })
	d.track(t, 6, 3)
	health(t, p, "three more are refused", func(r *healthapi.Report) bool { return r.Intake.RefusedTotal >= refused+3 })
	mend(t, p)
	waitArrived(t, p, numbers(0, 9))
	for _, n := range d.heard() {
		if n.Failed != nil {
			t.Errorf("the tracker gave up: %+v", *n.Failed)
		}
	}
}

func TestNeed_findsWhatExists(t *testing.T) {
	if got := need(t, []string{"no-such-command", "go"}, "doc.go"); !filepath.IsAbs(got) {
		t.Errorf("found %q", got)
	}
	if _, err := exec.LookPath("no-such-command"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("err is %v", err)
	}
}
