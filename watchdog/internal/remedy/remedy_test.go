package remedy_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/shared/healthapi"
	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
)

func TestMain(m *testing.M) {
	collectortest.Main()
	goleak.VerifyTestMain(m)
}

func TestFlush_asksBySignalAndWaits(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	done, err := remedy.Flush(t.Context(), c.Admin, remedy.Direct{})
	if err != nil || done.Way != "SIGUSR1" || done.Why != "" || done.State.Completed != 1 {
		t.Fatalf("got %+v, %v", done, err)
	}
	if got, want := done.String(), "flushed by SIGUSR1: everything was delivered"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFlush_asksByRequestWhereASignalWouldKill(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{Trapless: true})
	done, err := remedy.Flush(t.Context(), c.Admin, remedy.Direct{})
	if err != nil || done.Way != "POST /flush" || !strings.Contains(done.Why, "no handler for SIGUSR1") {
		t.Errorf("got %+v, %v", done, err)
	}
}

// changed is an admin listener whose report is not quite true.
type changed struct {
	remedy.Admin
	change func(*healthapi.Report)
}

func (c changed) Report(ctx context.Context) (*healthapi.Report, error) {
	r, err := c.Admin.Report(ctx)
	if err == nil {
		c.change(r)
	}
	return r, err
}

func TestFlush_sendsNoSignalToWhatIsNotProven(t *testing.T) {
	// A process without a handler, which SIGUSR1 would kill.
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	stat, err := process.Look(bystander.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	c := collectortest.Start(t, false, collectortest.Options{})
	cases := map[string]struct {
		change func(*healthapi.Report)
		why    string
	}{
		"the pid is another process's now": {func(r *healthapi.Report) {
			r.PID, r.PIDStartTicks = bystander.Process.Pid, stat.StartTicks-1
		}, "belongs to another process"},
		"the process has no handler": {func(r *healthapi.Report) {
			r.PID, r.PIDStartTicks = bystander.Process.Pid, stat.StartTicks
		}, "no handler"},
		"another pid namespace":       {func(r *healthapi.Report) { r.PIDNamespace++ }, "another pid namespace"},
		"handlers not yet installed":  {func(r *healthapi.Report) { r.SignalsReady = false }, "not installed"},
		"the start time is not known": {func(r *healthapi.Report) { r.PIDStartTicks = 0 }, "has not said which process"},
	}
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			done, err := remedy.Flush(t.Context(), changed{c.Admin, k.change}, remedy.Direct{})
			if err != nil || done.Way != "POST /flush" || !strings.Contains(done.Why, k.why) {
				t.Errorf("got %+v, %v", done, err)
			}
			if stat, err := process.Look(bystander.Process.Pid); err != nil || stat.State == 'Z' {
				t.Errorf("the bystander was hit: %+v, %v", stat, err)
			}
		})
	}
}

func TestFlush_endsWithItsTime(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{NeverFlushes: true})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	done, err := remedy.Flush(ctx, c.Admin, remedy.Direct{})
	if err == nil || !strings.Contains(err.Error(), "flush 1 was not done in time") || done.State.Requested != 1 {
		t.Errorf("got %+v, %v", done, err)
	}
}

func TestFlush_noticesARestart(t *testing.T) {
	c := collectortest.Start(t, true, collectortest.Options{NeverFlushes: true})
	result := make(chan error, 1)
	go func() {
		_, err := remedy.Flush(context.Background(), c.Admin, remedy.Direct{})
		result <- err
	}()
	c.Await("the flush was asked for", func(r *healthapi.Report) bool { return r.Flush.Requested == 1 })
	if err := c.Process().Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err == nil || !strings.Contains(err.Error(), "restarted while it flushed") {
		t.Errorf("got %v", err)
	}
}

func TestTerminate_endsTheProcess(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	id := c.Identity()
	if text, err := remedy.Terminate(t.Context(), remedy.Direct{}, id); err != nil || !strings.Contains(text, "ended after SIGTERM") {
		t.Fatalf("got %q, %v", text, err)
	}
	if text, err := remedy.Terminate(t.Context(), remedy.Direct{}, id); err != nil || !strings.Contains(text, "had ended already") {
		t.Errorf("again: got %q, %v", text, err)
	}
}

func TestTerminate_endsAStoppedProcess(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	id := c.Identity()
	if err := c.Process().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	collectortest.Await(t, "the process is stopped", func() bool {
		stat, err := process.Look(id.PID)
		return err == nil && stat.State == 'T'
	})
	if _, err := remedy.Terminate(t.Context(), remedy.Direct{}, id); err != nil {
		t.Error(err)
	}
}

func TestKill_endsWhatDoesNotHearTerm(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{DeafToTerm: true})
	id := c.Identity()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := remedy.Terminate(ctx, remedy.Direct{}, id); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "SIGTERM was sent but") {
		t.Fatalf("terminate: got %v", err)
	}
	if _, err := remedy.Kill(t.Context(), remedy.Direct{}, id); err != nil {
		t.Error(err)
	}
}

func TestTerminate_touchesNobodyElse(t *testing.T) {
	me, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	me.Namespace++
	if _, err := remedy.Kill(t.Context(), remedy.Direct{}, me); !errors.Is(err, remedy.ErrNotApplicable) {
		t.Errorf("other namespace: got %v", err)
	}
	reused := process.Identity{PID: os.Getpid(), StartTicks: 1, Namespace: me.Namespace - 1}
	if text, err := remedy.Kill(t.Context(), remedy.Direct{}, reused); err != nil || !strings.Contains(text, "had ended already") {
		t.Errorf("reused pid: got %q, %v", text, err)
	}
	if _, err := remedy.Kill(t.Context(), remedy.Direct{}, process.Identity{}); !errors.Is(err, remedy.ErrNotApplicable) {
		t.Errorf("nobody: got %v", err)
	}
}
