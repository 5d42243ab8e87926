package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"

	"spillway/shared/healthapi"
	"spillway/watchdog/internal/admin"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/probe"
	"spillway/watchdog/internal/process"
)

const timeout = 5 * time.Second

// answers is a Reporter that says what the test wants.
type answers struct {
	report *healthapi.Report
	err    error
}

func (a *answers) Report(context.Context) (*healthapi.Report, error) { return a.report, a.err }

type supervisor decide.Supervisor

func (s supervisor) Look(context.Context) (decide.Supervisor, error) {
	return decide.Supervisor(s), nil
}

func report(boot string, seq uint64, id process.Identity) *healthapi.Report {
	return &healthapi.Report{
		Schema: 1, Seq: seq, Instance: "box", BootID: boot, Mode: "primary",
		PID: id.PID, PIDStartTicks: id.StartTicks, PIDNamespace: id.Namespace,
	}
}

func self(t *testing.T) process.Identity {
	t.Helper()
	id, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestProber_Observe_tellsTheWaysAPollCanEndApart(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(func() { s.CloseClientConnections(); go s.Close() })
		return strings.TrimPrefix(s.URL, "http://")
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	hijack := func(f func(c *net.TCPConn)) string {
		return serve(func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			f(c.(*net.TCPConn))
		})
	}
	cases := map[string]struct {
		address string
		timeout time.Duration
		want    decide.Reach
	}{
		"answered": {serve(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(report("a", 1, process.Identity{PID: 1}))
		}), timeout, decide.ReachOK},
		"nobody listens":        {closed.Addr().String(), timeout, decide.ReachRefused},
		"no socket file":        {"unix:" + filepath.Join(t.TempDir(), "none.sock"), timeout, decide.ReachRefused},
		"no such host":          {"collector.invalid:1", timeout, decide.ReachRefused},
		"no answer":             {serve(func(http.ResponseWriter, *http.Request) { <-hang }), 30 * time.Millisecond, decide.ReachTimeout},
		"closed without answer": {hijack(func(c *net.TCPConn) { _ = c.Close() }), timeout, decide.ReachReset},
		"reset":                 {hijack(func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() }), timeout, decide.ReachReset},
		"broken in the middle": {hijack(func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")
			_ = c.Close()
		}), timeout, decide.ReachReset},
		"another status":         {serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }), timeout, decide.ReachBadStatus},
		"something else answers": {serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }), timeout, decide.ReachBadBody},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := logrus.New()
			l.SetOutput(io.Discard)
			client, err := admin.New(admin.Config{Address: c.address}, logrus.NewEntry(l))
			if err != nil {
				t.Fatal(err)
			}
			o := probe.New(probe.Config{}, probe.Options{Reporter: client, Timeout: c.timeout}).Observe(t.Context())
			if o.Reach != c.want {
				t.Errorf("got %s (%s), want %s", o.Reach, o.Detail, c.want)
			}
			if (o.Report != nil) != (c.want == decide.ReachOK) || (o.Detail == "") != (c.want == decide.ReachOK) {
				t.Errorf("report %v, detail %q", o.Report, o.Detail)
			}
		})
	}
}

func TestProber_Observe_findsForeignReports(t *testing.T) {
	me := self(t)
	a := &answers{}
	p := probe.New(probe.Config{Instance: "box"}, probe.Options{
		Reporter: a, Timeout: timeout, Supervisor: supervisor{State: decide.SupervisorActive, MainPID: me.PID},
		Last: decide.Seen{BootID: "a", Seq: 5},
	})
	other := report("b", 9, me)
	other.Instance = "elsewhere"
	otherPID := report("b", 10, process.Identity{PID: me.PID + 1, StartTicks: 1, Namespace: me.Namespace})
	inPod := report("b", 10, process.Identity{PID: 1, StartTicks: 1, Namespace: me.Namespace + 1})
	steps := []struct {
		what   string
		report *healthapi.Report
		want   decide.Reach
	}{
		{"seen by an earlier run", report("a", 5, me), decide.ReachForeign},
		{"newer", report("a", 6, me), decide.ReachOK},
		{"again", report("a", 6, me), decide.ReachForeign},
		{"of another instance", other, decide.ReachForeign},
		{"of a new start", report("b", 1, me), decide.ReachOK},
		{"of the start before", report("a", 7, me), decide.ReachForeign},
		{"of another process than the unit's", otherPID, decide.ReachForeign},
		{"of a pid of another namespace, which is not comparable", inPod, decide.ReachOK},
	}
	for _, s := range steps {
		a.report = s.report
		if o := p.Observe(t.Context()); o.Reach != s.want {
			t.Errorf("%s: got %s (%s), want %s", s.what, o.Reach, o.Detail, s.want)
		}
	}
}

func TestProber_Observe_asksTheWitnessesOnlyWhenNotOK(t *testing.T) {
	asked := 0
	status := http.StatusOK
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/health" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(status)
	}))
	defer public.Close()
	a := &answers{report: report("a", 1, self(t))}
	r := prometheus.NewRegistry()
	p := probe.New(probe.Config{PublicAddress: strings.TrimPrefix(public.URL, "http://")},
		probe.Options{Reporter: a, Timeout: timeout, Metrics: r})
	if o := p.Observe(t.Context()); asked != 0 || o.Public != decide.PublicNotTried || o.Process.Known {
		t.Errorf("all well: asked %d times, %q, %+v", asked, o.Public, o.Process)
	}
	a.report, a.err = nil, fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	for s, want := range map[int]decide.Public{
		http.StatusOK: decide.PublicOK, http.StatusServiceUnavailable: decide.PublicOK, http.StatusBadGateway: decide.PublicFailed,
	} {
		status = s
		o := p.Observe(t.Context())
		if o.Public != want {
			t.Errorf("status %d: got %q, want %q", s, o.Public, want)
		}
		if !o.Process.Known || !o.Process.Alive || !o.Process.SameStart || !o.Process.CPUKnown {
			t.Errorf("process: got %+v", o.Process)
		}
	}
	public.Close()
	if o := p.Observe(t.Context()); o.Public != decide.PublicFailed {
		t.Errorf("closed port: got %q", o.Public)
	}
	want := `
# HELP spillway_watchdog_polls_total Questions for the health report, by how they ended.
# TYPE spillway_watchdog_polls_total counter
spillway_watchdog_polls_total{outcome="bad_body"} 0
spillway_watchdog_polls_total{outcome="bad_status"} 0
spillway_watchdog_polls_total{outcome="foreign"} 0
spillway_watchdog_polls_total{outcome="ok"} 1
spillway_watchdog_polls_total{outcome="refused"} 4
spillway_watchdog_polls_total{outcome="reset"} 0
spillway_watchdog_polls_total{outcome="timeout"} 0
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "spillway_watchdog_polls_total"); err != nil {
		t.Error(err)
	}
}

func TestProber_Observe_looksAtTheProcess(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := self(t)
	id.PID = cmd.Process.Pid
	stat, err := process.Look(id.PID)
	if err != nil {
		t.Fatal(err)
	}
	id.StartTicks = stat.StartTicks
	observe := func(id process.Identity) decide.Process {
		a := &answers{report: report("a", 1, id)}
		p := probe.New(probe.Config{}, probe.Options{Reporter: a, Timeout: timeout})
		p.Observe(t.Context())
		a.report, a.err = nil, errors.New("gone")
		return p.Observe(t.Context()).Process
	}
	if got := observe(id); !got.Alive || !got.SameStart || !got.CPUKnown || got.CPUMoved {
		t.Errorf("idle: %+v", got)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for observe(id).State != "T" {
		if t.Context().Err() != nil {
			t.Fatal("never stopped")
		}
	}
	reused := id
	reused.StartTicks--
	if got := observe(reused); !got.Known || !got.Alive || got.SameStart {
		t.Errorf("reused: %+v", got)
	}
	foreign := id
	foreign.Namespace++
	if got := observe(foreign); got.Known {
		t.Errorf("other namespace: %+v", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if got := observe(id); !got.Known || got.Alive {
		t.Errorf("gone: %+v", got)
	}
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	if err := (probe.Config{PublicAddress: "8080"}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "public_address: ") {
		t.Errorf("got %v", err)
	}
	for _, ok := range []string{"", "127.0.0.1:8080", "unix:/run/x.sock"} {
		if err := (probe.Config{PublicAddress: ok}).Validate(); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
}
