package systemd

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Connect returns a Bus that speaks to the box's systemd. It connects at the
// first call, and again after the connection was lost. It is safe for
// concurrent use. Close it.
func Connect() *Connection {
	c := &Connection{held: make(chan *dbus.Conn, 1)}
	c.held <- nil
	return c
}

// Connection is the Bus of the box's systemd.
type Connection struct {
	// held has the connection, nil when there is none. Whoever takes it out puts
	// it back: a lock that is waited for no longer than a context allows.
	held chan *dbus.Conn
}

var _ Bus = (*Connection)(nil)

// Close ends the connection. It does not wait for one that is being made.
func (c *Connection) Close() error {
	select {
	case conn := <-c.held:
		if conn != nil {
			conn.Close()
		}
		c.held <- nil
	default:
	}
	return nil
}

func (c *Connection) get(ctx context.Context) (*dbus.Conn, error) {
	var conn *dbus.Conn
	select {
	case conn = <-c.held:
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to systemd: %w", ctx.Err())
	}
	if conn != nil && conn.Connected() {
		c.held <- conn
		return conn, nil
	}
	if conn != nil {
		conn.Close()
	}
	type dialed struct {
		conn *dbus.Conn
		err  error
	}
	done := make(chan dialed, 1)
	go func() { // a bus that does not answer would hold the caller for ever
		conn, err := dial()
		done <- dialed{conn, err}
		c.held <- conn
	}()
	select {
	case d := <-done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to systemd: %w", ctx.Err())
	}
}

func dial() (*dbus.Conn, error) {
	// The connection ends with the context it is made with, so that is not the caller's.
	conn, err := dbus.NewWithContext(context.Background())
	if err != nil {
		return nil, fmt.Errorf("connect to systemd: %w", err)
	}
	if err := conn.Subscribe(); err != nil { // or no job would be seen to end
		conn.Close()
		return nil, fmt.Errorf("subscribe to systemd: %w", err)
	}
	return conn, nil
}

type startJob func(conn *dbus.Conn, ch chan<- string) (int, error)

func (c *Connection) job(ctx context.Context, verb, unit string, start startJob) (string, error) {
	conn, err := c.get(ctx)
	if err != nil {
		return "", err
	}
	// Buffered: a result that nobody reads would block the whole connection.
	result := make(chan string, 1)
	if _, err := start(conn, result); err != nil {
		return "", named(verb, unit, err)
	}
	select {
	case r := <-result:
		return r, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%s %s: the job did not end in time: %w", verb, unit, ctx.Err())
	}
}

// TryRestart implements Bus.
func (c *Connection) TryRestart(ctx context.Context, unit string) (string, error) {
	return c.job(ctx, "restart", unit, func(conn *dbus.Conn, ch chan<- string) (int, error) {
		return conn.TryRestartUnitContext(ctx, unit, "fail", ch)
	})
}

// Start implements Bus.
func (c *Connection) Start(ctx context.Context, unit string) (string, error) {
	return c.job(ctx, "start", unit, func(conn *dbus.Conn, ch chan<- string) (int, error) {
		return conn.StartUnitContext(ctx, unit, "fail", ch)
	})
}

// ResetFailed implements Bus.
func (c *Connection) ResetFailed(ctx context.Context, unit string) error {
	conn, err := c.get(ctx)
	if err != nil {
		return err
	}
	return named("reset the failure of", unit, conn.ResetFailedUnitContext(ctx, unit))
}

// Kill implements Bus.
func (c *Connection) Kill(ctx context.Context, unit string, sig unix.Signal) error {
	conn, err := c.get(ctx)
	if err != nil {
		return err
	}
	return named("send "+unix.SignalName(sig)+" to", unit, conn.KillUnitWithTarget(ctx, unit, dbus.Main, int32(sig)))
}

// Unit implements Bus.
func (c *Connection) Unit(ctx context.Context, unit string) (Unit, error) {
	conn, err := c.get(ctx)
	if err != nil {
		return Unit{}, err
	}
	all, err := conn.GetAllPropertiesContext(ctx, unit)
	if err != nil {
		return Unit{}, named("ask about", unit, err)
	}
	return unitOf(all), nil
}

func unitOf(all map[string]any) Unit {
	text := func(key string) string { s, _ := all[key].(string); return s }
	number := func(key string) int { n, _ := all[key].(uint32); return int(n) }
	length := func(key string) time.Duration {
		n, _ := all[key].(uint64)
		if n > math.MaxInt64/uint64(time.Microsecond) {
			return 0 // infinity
		}
		return time.Duration(n) * time.Microsecond
	}
	u := Unit{
		LoadState: text("LoadState"), ActiveState: text("ActiveState"), SubState: text("SubState"),
		Result: text("Result"), MainPID: number("MainPID"), Restart: text("Restart"),
		Watchdog: length("WatchdogUSec"), TimeoutAbort: length("TimeoutAbortUSec"),
		TimeoutStop: length("TimeoutStopUSec"), TimeoutStart: length("TimeoutStartUSec"),
		StartLimitBurst: number("StartLimitBurst"), StartLimitInterval: length("StartLimitIntervalUSec"),
		RestartPrevented: prevented(all),
	}
	if job, ok := all["Job"].([]any); ok && len(job) > 0 {
		id, _ := job[0].(uint32)
		u.Queued = id != 0
	}
	if id, ok := all["InvocationID"].([]byte); ok {
		u.InvocationID = hex.EncodeToString(id)
	}
	return u
}

// prevented tells whether RestartPreventExitStatus, a list of exit codes and a
// list of signals, has the way the main process ended.
func prevented(all map[string]any) bool {
	code, _ := all["ExecMainCode"].(int32)
	status, _ := all["ExecMainStatus"].(int32)
	lists, _ := all["RestartPreventExitStatus"].([]any)
	kind := 1 // killed, or dumped
	switch code {
	case 0:
		return false // it has not ended, or never ran
	case 1: // CLD_EXITED
		kind = 0
	}
	if len(lists) <= kind {
		return false
	}
	list, _ := lists[kind].([]int32)
	return slices.Contains(list, status)
}

// named says what was asked, and tells a queued job and a missing permission
// from other errors.
func named(verb, unit string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[godbus.Error](err); ok {
		switch e.Name {
		case "org.freedesktop.systemd1.TransactionIsDestructive", "org.freedesktop.systemd1.TransactionJobsConflicting":
			return fmt.Errorf("%w: %w", ErrBusy, err)
		case "org.freedesktop.DBus.Error.AccessDenied", "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired":
			return fmt.Errorf("%s %s: %w (install the polkit rule that lets the watchdog manage this unit)", verb, unit, err)
		}
	}
	return fmt.Errorf("%s %s: %w", verb, unit, err)
}
