package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/sink"
	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/fault"
	"spillway/shared/rig/kinesis"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
	"spillway/shared/rig/tracker"
)

const patience = 2 * time.Minute

func limited(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// self is a name under which this test's own program is the collector: see
// TestMain.
func self(t testing.TB) string {
	t.Helper()
	tests, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "spillway-collector")
	if err := os.Symlink(tests, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// outage is what an outage of Kinesis left behind: objects in S3, in several
// dozen pieces, and the books of what was answered 200. Kinesis is well again and
// empty, and the collector has stopped.
type outage struct {
	*pair.Pair
	program string
	tracker *tracker.Tracker
}

func afterOutage(t testing.TB, events int) *outage {
	t.Helper()
	program := self(t)
	p, err := pair.Start(limited(t), pair.Options{
		Programs: pair.Programs{Collector: program}, Alone: true,
		Fallback: "sink: {s3: {max_records: 150, linger: 100ms}}\n",
		Before:   func(r *rig.Rig) error { return r.Kinesis.Break(fault.Fault{Kind: fault.Down}) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Tail(20))
		}
		if err := p.Close(); err != nil {
			t.Errorf("stop the pair: %v", err)
		}
	})
	mode := `{"schema":1,"mode":"fallback","rev":1,"since":"2026-12-01T00:00:00Z","by":"person test","reason":"an outage"}`
	if err := os.WriteFile(p.ModeFile(), []byte(mode), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.RestartCollector(limited(t)); err != nil {
		t.Fatal(err)
	}
	tr, err := tracker.New(tracker.Config{URL: p.URL(), Connections: 8, Events: events, EventsPerPost: 1, PixelShare: 0.2, Resend: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Run(limited(t)); err != nil {
		t.Fatal(err)
	}
	if err := tr.Settle(limited(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.WaitHealth(limited(t), func(r *healthapi.Report) error {
		if r.Backlog.Events > 0 {
			return fmt.Errorf("%d events wait", r.Backlog.Events)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Collector.Stop(limited(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	if n := p.Rig.Kinesis.Count(rig.GoodStream); n != 0 {
		t.Fatalf("%d records are in Kinesis before the replay", n)
	}
	return &outage{p, program, tr}
}

// replay starts a replay of the outage.
func (o *outage) replay(t testing.TB, args ...string) *proc.Process {
	t.Helper()
	base := []string{"replay"}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		base, args = append(base, args[0]), args[1:]
	}
	base = append(base, "--config", o.CollectorConfig(), "--fallback-config", o.FallbackConfig())
	return proc.Run(t, proc.Spec{Path: o.program, Args: append(base, args...), Env: o.Rig.Env(), Dir: o.Dir(), Log: filepath.Join(t.TempDir(), "replay.log")})
}

// finish waits for a replay and returns its report, which --json printed.
func finish(t testing.TB, p *proc.Process, code int) (s summary) {
	t.Helper()
	exit, err := p.Wait(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if exit.Code != code {
		t.Errorf("exit %v, want code %d:\n%s", exit, code, p.Tail(30))
	}
	report(t, p, &s)
	return s
}

// report reads the JSON at the end of a process's output.
func report(t testing.TB, p *proc.Process, into any) {
	t.Helper()
	out := p.Output()
	if at := strings.LastIndex("\n"+out, "\n{\n"); at < 0 {
		t.Fatalf("there is no report in:\n%s", out)
	} else if err := json.NewDecoder(strings.NewReader(out[at:])).Decode(into); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
}

// audit compares Kinesis, and nothing else, with the books.
func (o *outage) audit(t testing.TB) tracker.Report {
	t.Helper()
	r := tracker.Audit(o.tracker.Ledger(), func(yield func([]byte) bool) {
		for record := range o.Rig.Kinesis.All(rig.GoodStream) {
			if !yield(record.Data) {
				return
			}
		}
	}, nil)
	if len(r.Lost) > 0 || r.Acked == 0 || r.Foreign > 0 {
		t.Errorf("what is in Kinesis is not what was answered 200: %v", r)
	}
	t.Log(r)
	return r
}

func TestReplay_afterAnOutage_bringsEveryEventOnce(t *testing.T) {
	t.Parallel()
	o := afterOutage(t, 1500)
	before := o.Rig.S3.Objects(rig.Bucket, pair.Prefix+"/good/")

	dry := finish(t, o.replay(t, "--dry-run", "--json"), 0)
	verified := finish(t, o.replay(t, "--verify", "--json"), 0)
	if dry.Waiting != len(before) || verified.Objects.Finished != len(before) || verified.Events.Delivered != 1500 || o.Rig.Kinesis.Count(rig.GoodStream) != 0 {
		t.Errorf("of %d objects and 1500 events a dry run found %d, a verification read %d and %d", len(before), dry.Waiting, verified.Objects.Finished, verified.Events.Delivered)
	}
	s := finish(t, o.replay(t, "--json"), 0)
	if s.Objects.Finished != len(before) || s.Events.Delivered != 1500 || len(s.Faults) > 0 {
		t.Errorf("the report: %+v", s)
	}
	if r := o.audit(t); r.Duplicates() != 0 {
		t.Errorf("%d duplicates", r.Duplicates())
	}
	// What is in Kinesis is byte for byte what stands in the objects.
	o.comparesWithObjects(t)

	again := finish(t, o.replay(t, "--json"), 0)
	if again.Waiting != 0 || again.Objects.DoneSoFar != len(before) || o.Rig.Kinesis.Count(rig.GoodStream) != 1500 {
		t.Errorf("a second replay: %+v", again)
	}
	if after := o.Rig.S3.Objects(rig.Bucket, pair.Prefix+"/good/"); len(after) != len(before) {
		t.Errorf("of %d objects %d are left", len(before), len(after))
	}
	var status replayStatus
	p := o.replay(t, "status", "--json")
	if _, err := p.Wait(limited(t)); err != nil {
		t.Fatal(err)
	}
	report(t, p, &status)
	if l := status.Lanes[0]; l.Waiting != 0 || l.Claimed != 0 || l.Done != len(before) {
		t.Errorf("status %+v", status)
	}
}

// comparesWithObjects decodes the objects with nothing but the standard library.
func (o *outage) comparesWithObjects(t testing.TB) {
	t.Helper()
	contents, err := o.Rig.S3.Contents(rig.Bucket, pair.Prefix+"/good/")
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]int{}
	for key, content := range contents {
		for line := range strings.Lines(string(content)) {
			var event struct {
				PartitionKey string
				Timestamp    int64
				Querystring  string
				Body         string
			}
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			for _, eid := range tracker.IDs([]byte(event.Querystring + event.Body)) {
				wanted[event.PartitionKey+" "+eid]++
			}
		}
	}
	for record := range o.Rig.Kinesis.All(rig.GoodStream) {
		for _, eid := range tracker.IDs(record.Data) {
			wanted[record.Key+" "+eid]--
		}
	}
	for what, n := range wanted {
		if n != 0 {
			t.Fatalf("%s: %+d in the objects", what, n)
		}
	}
}

// Two replayers, one of which is killed again and again wherever it happens to be.
func TestReplay_killedManyTimes_skipsNothingAndRepeatsLittle(t *testing.T) {
	t.Parallel()
	const events, kills, window = 4000, 20, 100
	o := afterOutage(t, events)
	run := func() *proc.Process {
		return o.replay(t, "--json", "--claim-expiry", "2s", "--objects", "2", "--window", fmt.Sprint(window), "--rate", "1000/s")
	}
	var at []int // how many records are in Kinesis when one is killed
	for range kills {
		at = append(at, rand.IntN(events*9/10))
	}
	slices.Sort(at)
	replayers := []*proc.Process{run(), run()}
	for _, n := range at {
		if err := o.Rig.Kinesis.Wait(limited(t), rig.GoodStream, n); err != nil {
			t.Fatal(err)
		}
		victim := rand.IntN(2)
		replayers[victim].Kill()
		replayers[victim] = run()
	}
	var over int
	for _, p := range replayers {
		over += finish(t, p, 0).Objects.TakenOver
	}
	r := o.audit(t)
	if most := (kills + over) * window; r.Duplicates() > most || r.InKinesis != events {
		t.Errorf("%d duplicates after %d kills, at most %d are allowed; %d of %d events arrived", r.Duplicates(), kills, most, r.InKinesis, events)
	}
	t.Logf("%d kills, %d duplicates, %d objects taken over from a living replayer", kills, r.Duplicates(), over)
}

func TestReplay_stopped_repeatsNothing(t *testing.T) {
	t.Parallel()
	o := afterOutage(t, 1500)
	var skipped int64
	for _, n := range []int{100, 500, 900} {
		p := o.replay(t, "--json", "--rate", "1000/s", "--window", "200")
		if err := o.Rig.Kinesis.Wait(limited(t), rig.GoodStream, n); err != nil {
			t.Fatal(err)
		}
		exit, err := p.Stop(limited(t))
		if err != nil || exit.Code != 1 {
			t.Fatalf("stopped: %v, %v:\n%s", exit, err, p.Tail(20))
		}
		var s summary
		report(t, p, &s)
		if !s.Stopped {
			t.Errorf("the report does not say that it was stopped: %+v", s)
		}
		skipped += s.Events.Skipped
	}
	s := finish(t, o.replay(t, "--json"), 0)
	if r := o.audit(t); r.Duplicates() != 0 || r.InKinesis != 1500 {
		t.Errorf("stopped three times: %v", r)
	}
	if skipped += s.Events.Skipped; skipped == 0 {
		t.Errorf("no object was gone on with in its middle: %+v", s)
	}
	if s.Seconds > 50 {
		t.Errorf("it took %.0f s: a claim was not let go of", s.Seconds)
	}
}

func TestReplay_throughFaultsOfBothServices_losesNothing(t *testing.T) {
	t.Parallel()
	o := afterOutage(t, 900)
	for _, f := range []fault.Fault{
		{Kind: fault.Error, Code: "SlowDown", Share: 0.2},
		{Kind: fault.Error, Code: "InternalError", Share: 0.05},
		{Kind: fault.Reset, Op: "GetObject", Share: 0.1},
		{Kind: fault.Lost, Op: "PutObject", Share: 0.1},
		{Kind: fault.Lost, Op: "GetObject", Share: 0.1},
	} {
		if err := o.Rig.S3.Break(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Rig.Kinesis.Break(fault.Fault{Kind: fault.Record, Code: kinesis.Throttled, Share: 0.1, Times: 5}); err != nil {
		t.Fatal(err)
	}
	s := finish(t, o.replay(t, "--json", "--claim-expiry", "30s"), 0)
	if s.Objects.Failed > 0 || s.Objects.TakenOver > 0 {
		t.Errorf("the report: %+v", s)
	}
	if r := o.audit(t); r.Duplicates() != 0 || r.InKinesis != 900 {
		t.Errorf("through faults: %v", r)
	}
}

func TestReplay_toADirectoryAndOn_bringsEveryEventOnce(t *testing.T) {
	t.Parallel()
	o := afterOutage(t, 1000)
	dir := filepath.Join(t.TempDir(), "copy") + "/"
	first := finish(t, o.replay(t, "--json", "--to", dir), 0)
	if first.Events.Delivered != 1000 {
		t.Errorf("to a directory: %+v", first)
	}
	// Two at once, from the directory.
	var both sync.WaitGroup
	var delivered [2]int64
	for i := range delivered {
		p := o.replay(t, "--json", "--from", dir, "--delete-done")
		both.Go(func() { delivered[i] = finish(t, p, 0).Events.Delivered })
	}
	both.Wait()
	if r := o.audit(t); r.Duplicates() != 0 || r.InKinesis != 1000 || delivered[0]+delivered[1] != 1000 {
		t.Errorf("%d and %d were delivered: %v", delivered[0], delivered[1], r)
	}
	left, err := filepath.Glob(dir + "good/*/*/*/*.gz")
	if err != nil || len(left) > 0 {
		t.Errorf("left after --delete-done: %v, %v", left, err)
	}
}

func TestReplay_damage_isReportedAndStopsNothing(t *testing.T) {
	t.Parallel()
	o := afterOutage(t, 1000)
	dir := filepath.Join(t.TempDir(), "copy")
	finish(t, o.replay(t, "--json", "--to", dir), 0)
	files, err := filepath.Glob(dir + "/good/*/*/*/*.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(filepath.Dir(files[0]), "1-2-00000000.ndjson.gz")
	for path, body := range map[string][]byte{cut: whole[:len(whole)*2/3], filepath.Join(dir, "good", "notes.txt"): []byte("mine")} {
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := finish(t, o.replay(t, "--json", "--from", dir, "--to", "kinesis"), 1)
	if s.Objects.Damaged != 1 || s.Objects.Foreign != 1 || s.Objects.Finished != len(files)+1 || len(s.Faults) != 2 {
		t.Errorf("the report: %+v", s)
	}
	for _, f := range s.Faults {
		if strings.HasSuffix(f.Object, "notes.txt") && f.Line == 0 || f.Object == cut && f.Line > 1 && f.Reason != "" {
			continue
		}
		t.Errorf("fault %+v", f)
	}
	if r := o.audit(t); r.InKinesis != 1000 {
		t.Errorf("beside the damage: %v", r)
	}
	again := finish(t, o.replay(t, "--json", "--from", dir, "--to", "kinesis", "--lane", "bad"), 1) // the foreign file is still there
	if again.Objects.Damaged != 0 || again.Waiting != 0 {
		t.Errorf("again: %+v", again)
	}
	var status replayStatus
	p := o.replay(t, "status", "--json", "--from", dir)
	if _, err := p.Wait(limited(t)); err != nil {
		t.Fatal(err)
	}
	report(t, p, &status)
	if len(status.Damaged) != 1 || status.Damaged[0].Object != cut || status.Damaged[0].Mark.Damaged != 1 {
		t.Errorf("status %+v", status)
	}
}

func TestReplay_bothLanes_andWhatCanNeverBeDelivered(t *testing.T) {
	t.Parallel()
	program := self(t)
	r, err := rig.Start(t.Context(), rig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	from, data := t.TempDir(), t.TempDir()
	at := time.Date(2026, 12, 1, 5, 0, 0, 0, time.UTC)
	for lane, records := range map[sink.Lane][]sink.Record{
		sink.Good: {{Seq: 41, At: at, Key: "a", Data: []byte("no payload at all")}, {Seq: 42, At: at, Key: "b", Data: make([]byte, 2<<20)}, {Seq: 43, At: at, Key: "c"}},
		sink.Bad:  {{Seq: 41, At: at, Key: "d", Data: []byte(`{"schema":"iglu:x"}`)}},
	} {
		o, err := archive.Pack(lane, "box", records)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(from, o.Name.String())
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, o.Body, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(t.TempDir(), "collector.yaml")
	text := fmt.Sprintf("data_dir: %s\nsink:\n  type: kinesis\n  kinesis: {good_stream: good, bad_stream: bad, endpoint: %q}\n", data, r.Kinesis.URL())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := proc.Run(t, proc.Spec{Path: program, Args: []string{"replay", "--json", "--config", config, "--from", from}, Env: r.Env(), Dir: data})
	if s := finish(t, p, 0); s.Objects.Finished != 2 || s.Events.Delivered != 3 || s.Events.DeadLetters != 1 {
		t.Errorf("the report: %+v", s)
	}
	var got []string
	for _, stream := range []string{rig.GoodStream, rig.BadStream} {
		for _, record := range r.Kinesis.Records(stream) {
			got = append(got, fmt.Sprintf("%s %s %q", stream, record.Key, record.Data))
		}
	}
	slices.Sort(got)
	want := []string{`bad d "{\"schema\":\"iglu:x\"}"`, `good a "no payload at all"`, `good c ""`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	letters, err := filepath.Glob(filepath.Join(data, "dead-letters", "good-*.ndjson"))
	if err != nil || len(letters) != 1 {
		t.Fatalf("dead letters: %v, %v", letters, err)
	}
	letter, err := os.ReadFile(letters[0])
	if err != nil || !strings.Contains(string(letter), `"seq":42,`) || !strings.Contains(string(letter), `"partitionKey":"b"`) {
		t.Errorf("the dead letter: %.200s, %v", letter, err)
	}
}
