package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/fault"
	"spillway/shared/rig/kinesis"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
	"spillway/shared/rig/tracker"
)

// Nearly every record of every call is refused, another one each time, in answers
// that say 200.
func TestCollector_partialFailures_sendNoRecordTwice(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true})
	if err := p.Rig.Kinesis.Break(fault.Fault{Kind: fault.Record, Code: kinesis.InternalFailure, Share: 0.94}); err != nil {
		t.Fatal(err)
	}
	tr := send(t, p, tracker.Config{Connections: 16, Events: 600})
	tr.acked(t, 600)
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	health(t, p, "an empty backlog", empty)
	r := audit(t, p, tr.Ledger())
	if r.InKinesis != 600 || r.Duplicates() > 0 {
		t.Errorf("600 events were taken and none was ever in doubt: %v", r)
	}
}

func TestCollector_oneStreamFailing_doesNotHoldUpTheOther(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true, Collector: "http: {max_record_bytes: 8KiB}\n"})
	if err := p.Rig.Kinesis.Break(fault.Fault{Kind: fault.Hang, Target: rig.GoodStream}); err != nil {
		t.Fatal(err)
	}
	tr := sendAll(t, p, 50)
	tooLarge := fmt.Sprintf(`{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[{"e":"pv","p":"web","page":%q}]}`, strings.Repeat("x", 20<<10))
	for range 20 {
		if status, _ := answer(t, http.MethodPost, p.URL()+tp2, tooLarge); status != http.StatusOK {
			t.Fatalf("an event that is too large is answered %d", status)
		}
	}
	if err := p.Rig.Kinesis.Wait(limited(t), rig.BadStream, 20); err != nil {
		t.Errorf("bad rows do not arrive while the good stream hangs: %v", err)
	}
	if n := p.Rig.Kinesis.Count(rig.GoodStream); n > 0 {
		t.Errorf("%d records arrived in a stream that hangs", n)
	}
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	health(t, p, "an empty backlog", empty)
	audit(t, p, tr.Ledger())
}

// What is damaged is lost, once, and said; everything else is delivered by a
// collector that simply starts.
func TestCollector_startedOnADamagedSpool_deliversTheRest(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true, Collector: "spool: {segment_bytes: 64KiB}\nhttp: {max_record_bytes: 40KiB}\n"})
	if err := p.CutKinesis(); err != nil {
		t.Fatal(err)
	}
	tr := sendAll(t, p, 400)
	p.Collector.Kill()
	segments, err := filepath.Glob(filepath.Join(p.DataDir(), "spool", "good", "*.seg"))
	if err != nil || len(segments) < 3 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	noise := strings.Repeat("bad sector ", 40)
	for i, damage := range []func(name string) error{
		func(name string) error { return overwrite(name, 8192+4096, noise) },
		func(name string) error { return os.Truncate(name, 0) },
		func(name string) error { return overwrite(name, 8192+8192, string(make([]byte, 8192))) },
	} {
		if err := damage(segments[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	if err := p.StartCollector(limited(t)); err != nil {
		t.Fatal(err)
	}
	r := health(t, p, "an empty backlog", empty)
	if l := r.Lanes["good"]; l.CorruptTotal == 0 {
		t.Errorf("the report says nothing of the damage: %+v", l)
	}
	found, err := p.Audit(tr.Ledger())
	if err != nil {
		t.Fatal(err)
	}
	// A segment of 64 KiB holds fewer than 60 events; one was emptied whole.
	if n := len(found.Lost); n == 0 || n > 80 {
		t.Errorf("%d of 400 events are lost, want those in the damaged places only: %v", n, found)
	}
	sendAll(t, p, 20)
	health(t, p, "an empty backlog again", empty)
}

func overwrite(name string, off int64, with string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte(with), off); err != nil {
		return err
	}
	return f.Close()
}

func TestCollector_startedWithAFullSpool_drainsAndTakesAgain(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true, Collector: "spool: {max_bytes: 4MiB, segment_bytes: 256KiB}\nhttp: {max_record_bytes: 200KiB}\nadmission: {max_backlog_percent: 100, pixels_at: 1}\n"})
	if err := p.CutKinesis(); err != nil {
		t.Fatal(err)
	}
	fill(t, p, func() (int, http.Header) {
		return answer(t, http.MethodPost, p.URL()+tp2, `{"data":"`+strings.Repeat("p", 60<<10)+`"}`)
	})
	taken := health(t, p, "a full spool", backlogOf(1)).Backlog.Events
	p.Collector.Kill()
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	if err := p.StartCollector(limited(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.Rig.Kinesis.Wait(limited(t), rig.GoodStream, int(taken)); err != nil {
		t.Errorf("the full spool is not delivered: %v", err)
	}
	tr := sendAll(t, p, 20)
	health(t, p, "an empty backlog", empty)
	audit(t, p, tr.Ledger())
}

// The destination has what was sent but never says so: nothing of it may be
// forgotten, and waiting for it must not hold up the stop.
func TestCollector_stoppedInAnOutage_keepsWhatWasNotConfirmed(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true})
	if err := p.Rig.Kinesis.Break(fault.Fault{Kind: fault.Hang}); err != nil {
		t.Fatal(err)
	}
	tr := sendAll(t, p, 200)
	health(t, p, "writes under way", func(r *healthapi.Report) bool { return r.Backlog.Events > 0 })
	asked := time.Now()
	exit, err := p.Collector.Stop(limited(t))
	if err != nil || exit.Code != 0 {
		t.Errorf("it ended with %v, %v, want exit code 0", exit, err)
	}
	if took := exit.At.Sub(asked); took > 20*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}
	if err := p.StartCollector(limited(t)); err != nil {
		t.Fatal(err)
	}
	proc.Eventually(t, patience, func() error {
		r, err := p.Audit(tr.Ledger())
		if err == nil && len(r.Lost) > 0 {
			err = fmt.Errorf("not there yet: %v", r)
		}
		return err
	})
}
