package systemd

import (
	"context"
	"errors"
	"math"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
	"spillway/watchdog/internal/remedy/remedytest"
)

const unit = "spillway-collector.service"

// bus is a systemd with one unit. It fails the test when it is asked for
// something that systemd would refuse to understand.
type bus struct {
	t       *testing.T
	unit    Unit
	result  string // of the next job
	err     error
	hang    bool // jobs do not end
	calls   []string
	signals []unix.Signal
}

func (b *bus) job(ctx context.Context, call, name string, done func()) (string, error) {
	if name != unit {
		b.t.Errorf("asked about %q", name)
	}
	b.calls = append(b.calls, call)
	if b.hang {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if b.err == nil && b.result == "done" {
		done()
	}
	return b.result, b.err
}

func (b *bus) TryRestart(ctx context.Context, name string) (string, error) {
	return b.job(ctx, "try-restart", name, func() { b.unit.InvocationID += "+" })
}

func (b *bus) Start(ctx context.Context, name string) (string, error) {
	if b.unit.ActiveState == "failed" && b.unit.Result == decide.ResultStartLimit {
		b.t.Error("started a unit over its start limit without resetting it")
	}
	return b.job(ctx, "start", name, func() { b.unit.ActiveState = "active"; b.unit.InvocationID += "+" })
}

func (b *bus) ResetFailed(context.Context, string) error {
	b.calls = append(b.calls, "reset-failed")
	b.unit.ActiveState, b.unit.Result = "inactive", "success"
	return nil
}

func (b *bus) Kill(_ context.Context, _ string, sig unix.Signal) error {
	b.signals = append(b.signals, sig)
	return nil
}

func (b *bus) Unit(context.Context, string) (Unit, error) { return b.unit, nil }

func newBus(t *testing.T) *bus {
	return &bus{t: t, result: "done", unit: Unit{
		LoadState: "loaded", ActiveState: "active", SubState: "running", Result: "success", InvocationID: "a", MainPID: 42,
	}}
}

func TestRestarter_keepsTheContract(t *testing.T) {
	remedytest.Run(t, func(t *testing.T) remedytest.Bench {
		b := newBus(t)
		return remedytest.Bench{
			Restarter: New(Config{Unit: unit}, b), Acts: func() int { return len(b.calls) },
			Switched: func() bool { return b.unit.InvocationID == "a+" },
			Blocked:  func() remedy.Order { b.hang = true; return remedy.Order{} },
		}
	})
}

func TestRestarter_Switch_leavesAStoppedUnitAlone(t *testing.T) {
	for _, state := range []string{"inactive", "failed"} {
		b := newBus(t)
		b.unit.ActiveState = state
		_, err := New(Config{Unit: unit}, b).Switch(t.Context(), remedy.Order{})
		if !errors.Is(err, remedy.ErrNotApplicable) || b.calls != nil {
			t.Errorf("%s: got %v after %v", state, err, b.calls)
		}
	}
}

func TestRestarter_Switch_letsAPersonsJobWin(t *testing.T) {
	canceled := newBus(t)
	canceled.result = "canceled"
	busy := newBus(t)
	busy.err = named("restart", unit, godbus.Error{Name: "org.freedesktop.systemd1.TransactionIsDestructive"})
	for name, b := range map[string]*bus{"canceled": canceled, "queued": busy} {
		if _, err := New(Config{Unit: unit}, b).Switch(t.Context(), remedy.Order{}); !errors.Is(err, remedy.ErrCanceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestRestarter_Switch_tellsHowAJobFailed(t *testing.T) {
	for result, want := range map[string]error{"failed": nil, "timeout": nil, "dependency": nil, "skipped": remedy.ErrNotApplicable} {
		b := newBus(t)
		b.result = result
		_, err := New(Config{Unit: unit}, b).Switch(t.Context(), remedy.Order{})
		if err == nil || (want != nil) != errors.Is(err, remedy.ErrNotApplicable) {
			t.Errorf("%s: got %v", result, err)
		}
		if want == nil && !strings.Contains(err.Error(), `the job ended as "`+result+`", the unit is active`) {
			t.Errorf("%s: got %v", result, err)
		}
	}
}

func TestRestarter_Start_resetsTheStartLimit(t *testing.T) {
	b := newBus(t)
	b.unit.ActiveState, b.unit.Result = "failed", decide.ResultStartLimit
	if _, err := New(Config{Unit: unit}, b).Start(t.Context(), remedy.Order{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"reset-failed", "start"}, b.calls); diff != "" {
		t.Error(diff)
	}
}

func TestRestarter_Check_knowsAnAbsentUnit(t *testing.T) {
	b := newBus(t)
	b.unit.LoadState = "not-found"
	if err := New(Config{Unit: unit}, b).Check(t.Context(), process.Identity{}); err == nil || !strings.Contains(err.Error(), "not-found") {
		t.Errorf("got %v", err)
	}
}

func TestRestarter_Send_onlyToTheProvenMainProcess(t *testing.T) {
	me, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Open(me)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b := newBus(t)
	r := New(Config{Unit: unit}, b)
	if err := r.Send(t.Context(), p, unix.SIGUSR1); err == nil || b.signals != nil {
		t.Errorf("got %v, sent %v", err, b.signals)
	}
	b.unit.MainPID = me.PID
	if err := r.Send(t.Context(), p, unix.SIGUSR1); err != nil || len(b.signals) != 1 || b.signals[0] != unix.SIGUSR1 {
		t.Errorf("got %v, sent %v", err, b.signals)
	}
}

func TestRestarter_Look_readsTheUnit(t *testing.T) {
	cases := []struct {
		active, sub, result string
		want                decide.SupervisorState
	}{
		{"active", "running", "success", decide.SupervisorActive},
		{"reloading", "reload", "success", decide.SupervisorActive},
		{"activating", "start", "success", decide.SupervisorActivating},
		{"activating", "auto-restart", "exit-code", decide.SupervisorAutoRestart},
		{"activating", "auto-restart-queued", "exit-code", decide.SupervisorAutoRestart},
		{"deactivating", "stop-sigterm", "success", decide.SupervisorDeactivating},
		{"failed", "failed", "start-limit-hit", decide.SupervisorFailed},
		{"inactive", "dead", "success", decide.SupervisorStopped},
		{"inactive", "dead", "exit-code", decide.SupervisorFailed},
		{"maintenance", "x", "", decide.SupervisorUnknown},
	}
	for _, c := range cases {
		b := newBus(t)
		b.unit.ActiveState, b.unit.SubState, b.unit.Result = c.active, c.sub, c.result
		got, err := New(Config{Unit: unit}, b).Look(t.Context())
		want := decide.Supervisor{State: c.want, Result: c.result, InvocationID: "a", MainPID: 42}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s/%s: %v %s", c.active, c.sub, err, diff)
		}
	}
}

func TestRestarter_Look_knowsAStopThatEndedBadly(t *testing.T) {
	for _, c := range []struct {
		what string
		unit Unit
		want decide.SupervisorState
	}{
		{"the stop took too long", Unit{Restart: "always", Result: "timeout"}, decide.SupervisorStopped},
		{"the process failed while it stopped", Unit{Restart: "always", Result: "exit-code"}, decide.SupervisorStopped},
		{"a bad config", Unit{Restart: "always", Result: "exit-code", RestartPrevented: true}, decide.SupervisorFailed},
		{"the start limit", Unit{Restart: "always", Result: decide.ResultStartLimit}, decide.SupervisorFailed},
		{"a unit that stays down", Unit{Restart: "no", Result: "exit-code"}, decide.SupervisorFailed},
	} {
		b := newBus(t)
		c.unit.LoadState, c.unit.ActiveState = "loaded", "failed"
		b.unit = c.unit
		got, err := New(Config{Unit: unit}, b).Look(t.Context())
		if err != nil || got.State != c.want {
			t.Errorf("%s: got %v, %v; want %v", c.what, got.State, err, c.want)
		}
	}
}

// A look between the stop and the start of somebody's restart sees a unit that is
// as inactive as one that was stopped for good.
func TestRestarter_Look_takesNoRestartForAStop(t *testing.T) {
	b := newBus(t)
	b.unit.ActiveState, b.unit.SubState = "inactive", "dead"
	for queued, want := range map[bool]decide.SupervisorState{true: decide.SupervisorActivating, false: decide.SupervisorStopped} {
		b.unit.Queued = queued
		if got, err := New(Config{Unit: unit}, b).Look(t.Context()); err != nil || got.State != want {
			t.Errorf("job queued %v: got %v, %v; want %v", queued, got.State, err, want)
		}
	}
	for id, want := range map[uint32]bool{0: false, 17: true} {
		if got := unitOf(map[string]any{"Job": []any{id, godbus.ObjectPath("/")}}).Queued; got != want {
			t.Errorf("job %d: queued is %v", id, got)
		}
	}
}

func TestUnitOf_knowsWhatPreventsARestart(t *testing.T) {
	const exited, killed = int32(1), int32(2)
	lists := []any{[]int32{2, 3}, []int32{11}}
	for _, c := range []struct {
		code, status int32
		want         bool
	}{{exited, 2, true}, {exited, 3, true}, {exited, 1, false}, {exited, 11, false}, {killed, 11, true}, {killed, 2, false}, {0, 2, false}} {
		got := unitOf(map[string]any{"ExecMainCode": c.code, "ExecMainStatus": c.status, "RestartPreventExitStatus": lists})
		if got.RestartPrevented != c.want {
			t.Errorf("code %d, status %d: got %v", c.code, c.status, got.RestartPrevented)
		}
	}
	if unitOf(map[string]any{"ExecMainCode": exited, "ExecMainStatus": int32(2)}).RestartPrevented {
		t.Error("a unit without the setting prevents a restart")
	}
}

func TestUnitOf_readsTheProperties(t *testing.T) {
	got := unitOf(map[string]any{
		"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "Result": "success",
		"InvocationID": []byte{0xab, 0x01}, "MainPID": uint32(7), "Other": 1,
		"Restart": "always", "WatchdogUSec": uint64(30_000_000), "TimeoutStopUSec": uint64(math.MaxUint64),
		"StartLimitBurst": uint32(10), "StartLimitIntervalUSec": uint64(600_000_000),
	})
	want := Unit{
		LoadState: "loaded", ActiveState: "active", SubState: "running", Result: "success", InvocationID: "ab01", MainPID: 7,
		Restart: "always", Watchdog: 30 * time.Second, StartLimitBurst: 10, StartLimitInterval: 10 * time.Minute,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRestarter_Surroundings_wantsAUnitThatAlwaysRestarts(t *testing.T) {
	for restart, troubled := range map[string]bool{"always": false, "on-failure": true, "no": true} {
		b := newBus(t)
		b.unit.Restart, b.unit.Watchdog = restart, time.Minute
		s, trouble, err := New(Config{Unit: unit}, b).Surroundings(t.Context())
		if err != nil || s.WatchdogSec != time.Minute || (trouble != "") != troubled {
			t.Errorf("%s: got %+v, %q, %v", restart, s, trouble, err)
		}
	}
}

func TestNamed_saysWhatToDoAboutPermission(t *testing.T) {
	err := named("restart", unit, godbus.Error{Name: "org.freedesktop.DBus.Error.AccessDenied"})
	if !strings.Contains(err.Error(), "polkit") {
		t.Errorf("got %v", err)
	}
	if named("restart", unit, nil) != nil {
		t.Error("nil became an error")
	}
}

func TestConnection_toADeafBusReturnsInTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+path)
	c := Connect()
	for range 2 { // the second caller waits for the first one's connection
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := c.Unit(ctx, unit); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	// With the listener, who would have answered is gone too.
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	for _, bad := range []string{"", "spillway", "a/b.service", "x.socket"} {
		if err := (Config{Unit: bad}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "unit: ") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}
