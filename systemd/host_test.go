package systemd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/bed"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/port"
	"spillway/shared/rig/proc"
	"spillway/shared/rig/tracker"
)

// The configs of the tests: as the examples, with stand-ins for AWS, and what
// takes minutes or hours on a real host takes seconds.
const (
	collectorYAML = `instance: bed
data_dir: /var/lib/spillway
listen: systemd:trackers
admin: {listen: "%[1]s"}
log: {format: journal}
sink:
  type: kinesis
  kinesis: {good_stream: good, bad_stream: bad, region: us-east-1, endpoint: "%[2]s", request_timeout: 2s, linger: 50ms}
spool: {max_bytes: 64MiB, segment_bytes: 4MiB, min_free_disk: 0}
bad_spool: {max_bytes: 16MiB, segment_bytes: 1MiB, min_free_disk: 0}
admission: {min_free_disk: 0}
delivery:
  max_backoff: 1s
  flush_timeout: 2s
  stop_timeout: 2s
  circuit: {after: 2s}
  probe: {every: 500ms, good: 3, deadline: 3s, level2_every: 300ms, level2_for: 1s, level3_every: 300ms}
`
	fallbackYAML = `extends: collector.yaml
sink:
  type: s3
  s3: {bucket: ` + rig.Bucket + `, prefix: bed, region: us-east-1, endpoint: "%[1]s", path_style: true, linger: 1s}
`
	watchdogYAML = `instance: bed
listen: "%[1]s"
collector: {address: "%[2]s", public_address: "%[3]s"}
restarter: {use: systemd}
log: {format: journal}
poll: {interval: 500ms, timeout: 400ms}
startup_grace: 2s
settle: 2s
flush: {timeout: 5s}
restart: {timeout: 2m}
verify: {hold: 1s}
recover: {for: 3s, early_for: 2s, stale: 10s, min_hold: 5s, max_hold: 1m, max_backlog: 30s, probation: 3s}
flap: {window: 30s, decay: 30s}
budget: {tokens: 3, refill: 10s, per_hour: 100}
rules:
  last_write_age: {threshold: 3s, for: 2s}
  unreachable: {for: %[4]s}
`
	patient     = "60s" // for rules.unreachable.for: longer than any test has to wait
	credentials = "AWS_ACCESS_KEY_ID=rig\nAWS_SECRET_ACCESS_KEY=rig\nAWS_EC2_METADATA_DISABLED=true\n"
)

// host is a booted systemd with spillway installed and configured for stand-ins.
type host struct {
	*bed.Bed
	t                     *testing.T
	rig                   *rig.Rig
	listen, admin, status string // addresses
}

// newHost boots a host. Nothing of spillway runs yet. Drop-ins are laid over the
// units.
func newHost(t *testing.T, dropIns map[string]string, unreachableFor string) *host {
	t.Helper()
	h := &host{Bed: boot(t), t: t}
	var err error
	if h.rig, err = rig.Start(t.Context(), rig.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []*string{&h.listen, &h.admin, &h.status} {
		free, err := port.Free()
		if err != nil {
			t.Fatal(err)
		}
		*addr = port.Addr(free)
	}
	h.write("/etc/spillway/collector.yaml", fmt.Sprintf(collectorYAML, h.admin, h.rig.Kinesis.URL()))
	h.write("/etc/spillway/collector-fallback.yaml", fmt.Sprintf(fallbackYAML, h.rig.S3.URL()))
	h.write("/etc/spillway/watchdog.yaml", fmt.Sprintf(watchdogYAML, h.status, h.admin, h.listen, unreachableFor))
	h.write("/etc/spillway/collector.env", credentials)
	h.write("/etc/systemd/system/"+socket+".d/port.conf", "[Socket]\nListenStream=\nListenStream="+h.listen+"\n")
	for unit, text := range dropIns {
		h.write("/etc/systemd/system/"+unit+".d/test.conf", text)
	}
	h.do("systemctl", "enable", "--quiet", socket, collector, watchdog)
	h.do("systemctl", "daemon-reload")
	return h
}

func (h *host) write(file, text string) {
	h.t.Helper()
	if err := h.Write(file, text); err != nil {
		h.t.Fatal(err)
	}
}

// do runs a program as root; it must succeed.
func (h *host) do(argv ...string) string {
	h.t.Helper()
	return must(h.t, h.Bed, argv...)
}

// is waits until a property of a unit has a value.
func (h *host) is(unit, name, want string) {
	h.t.Helper()
	proc.Eventually(h.t, patience, func() error {
		got, err := h.Property(h.t.Context(), unit, name)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s of %s is %q, want %q", name, unit, got, want)
		}
		return nil
	})
}

// start starts the target and returns when all of it runs.
func (h *host) start() {
	h.t.Helper()
	h.do("systemctl", "start", target)
	for _, unit := range []string{collector, watchdog} {
		h.is(unit, "ActiveState", "active")
	}
}

// health waits for a report that fits.
func (h *host) health(what string, fits func(*healthapi.Report) bool) *healthapi.Report {
	h.t.Helper()
	return ask(h.t, "http://"+h.admin+healthapi.PathHealth, what, fits)
}

// watchdogSays waits for a status that fits.
func (h *host) watchdogSays(what string, fits func(*pair.Status) bool) *pair.Status {
	h.t.Helper()
	return ask(h.t, "http://"+h.status+"/status", what, fits)
}

func ask[T any](t *testing.T, url, what string, fits func(*T) bool) *T {
	t.Helper()
	var last T
	_, err := proc.HTTP(limited(t), url, func(status int, body []byte) bool {
		last = *new(T)
		return status == 200 && json.Unmarshal(body, &last) == nil && fits(&last)
	})
	if err != nil {
		t.Fatalf("%s: %v; last: %+v", what, err, last)
	}
	return &last
}

func runs(mode string) func(*healthapi.Report) bool {
	return func(r *healthapi.Report) bool { return r.Mode == mode }
}

func authority(phase string) func(*pair.Status) bool {
	return func(s *pair.Status) bool { return s.State.Authority.Phase == phase }
}

// traffic is trackers at work that send again what was not taken.
type traffic struct {
	*tracker.Tracker
	host *host
	stop func()
}

func (h *host) send(c tracker.Config) *traffic {
	h.t.Helper()
	c.URL, c.Resend = "http://"+h.listen, true
	tr, err := tracker.New(c)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- tr.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	})
	h.t.Cleanup(stop)
	return &traffic{tr, h, stop}
}

// acked waits until n more events were answered 200.
func (tr *traffic) acked(n int) {
	tr.host.t.Helper()
	before := tr.Ledger().Counts().Acked
	proc.Eventually(tr.host.t, patience, func() error {
		if c := tr.Ledger().Counts(); c.Acked < before+n {
			return fmt.Errorf("%d of %d more events were answered 200: %v", c.Acked-before, n, c)
		}
		return nil
	})
}

// settle ends the traffic and fails the test if a connection was ever refused or
// an event that was answered 200 is nowhere.
func (tr *traffic) settle() tracker.Report {
	h := tr.host
	h.t.Helper()
	tr.stop()
	if err := tr.Settle(limited(h.t)); err != nil {
		h.t.Fatal(err)
	}
	h.health("an empty backlog", func(r *healthapi.Report) bool { return r.Backlog.Events == 0 })
	if c := tr.Ledger().Counts(); c.Unreachable > 0 || c.Dropped > 0 {
		h.t.Errorf("connections were refused, or events dropped: %v", c)
	}
	r, err := h.rig.Audit(tr.Ledger(), rig.GoodStream, rig.Bucket, "bed")
	if err != nil {
		h.t.Fatal(err)
	}
	if len(r.Lost) > 0 || r.Acked == 0 {
		h.t.Errorf("events that were answered 200 are lost, or there were none:\n%v", r)
	}
	h.t.Log(strings.TrimSpace(r.String()))
	return r
}
