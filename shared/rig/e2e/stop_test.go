package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
	"spillway/shared/rig/tracker"
)

func TestCollector_stoppedUnderLoad_losesNothing(t *testing.T) {
	t.Parallel()
	const connections = 16
	const grace, timeout = time.Second, 10 * time.Second
	p := start(t, pair.Options{Alone: true, Collector: fmt.Sprintf("stop: {grace: %v, timeout: %v}\n", grace, timeout)})
	tr := send(t, p, tracker.Config{Connections: connections, PixelShare: 0.1})
	tr.acked(t, 1000)

	asked := time.Now()
	exit, err := p.Collector.Stop(limited(t))
	if err != nil || exit.Code != 0 {
		t.Errorf("it ended with %v, %v, want exit code 0", exit, err)
	}
	if took := exit.At.Sub(asked); took < grace || took > grace+timeout {
		t.Errorf("the stop took %v, want %v of grace and at most %v", took, grace, timeout)
	}
	// Once every connection has been refused, none waits for an answer any more.
	gone := tr.Ledger().Counts().Unreachable
	proc.Eventually(t, patience, func() error {
		if c := tr.Ledger().Counts(); c.Unreachable < gone+1000 {
			return fmt.Errorf("not every connection was refused yet: %v", c)
		}
		return nil
	})
	// These trackers never turn away, so when the port closes the kernel resets
	// what it had not yet handed to the collector: at most one request for each.
	if c := tr.Ledger().Counts(); c.Unclear > connections {
		t.Errorf("%d requests were not answered: %v", c.Unclear, c)
	}
	tr.stop()

	// What it could not deliver any more it delivers after the next start.
	if err := p.StartCollector(limited(t)); err != nil {
		t.Fatal(err)
	}
	health(t, p, "an empty backlog", empty)
	audit(t, p, tr.Ledger())
}

func TestCollector_stopped_answersEveryRequestThatHadBegun(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true})
	const body = `{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[{"e":"pv","p":"web","tv":"raw"}]}`
	var open []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "POST /com.snowplowanalytics.snowplow/tp2 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:10]); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	// The requests have begun once memory is set aside for each: 16 KiB at least.
	proc.Eventually(t, patience, func() error {
		return metricAtLeast(t.Context(), p, "spillway_collector_ingest_in_flight_bytes", 20*16<<10)
	})

	process := p.Collector.Process()
	if err := process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	health(t, p, "that it is stopping", func(r *healthapi.Report) bool { return r.State == healthapi.StateStopping })
	for i, c := range open {
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(c, body[10:]); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("request %d: %s", i, resp.Status)
		}
	}
	if exit, err := process.Wait(limited(t)); err != nil || exit.Code != 0 {
		t.Errorf("it ended with %v, %v, want exit code 0", exit, err)
	}
	if err := p.Rig.Kinesis.Wait(limited(t), "good", 20); err != nil {
		t.Error(err)
	}
}
