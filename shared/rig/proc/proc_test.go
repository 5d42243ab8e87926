package proc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/shared/rig/proc"
)

// The test binary is its own child: RIG_ROLE says what it plays.
func TestMain(m *testing.M) {
	switch os.Getenv("RIG_ROLE") {
	case "":
		goleak.VerifyTestMain(m)
	case "sleeper": // ends by its first TERM
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		fmt.Println("ready")
		fmt.Fprintln(os.Stderr, "signal", <-term)
		os.Exit(7)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case "quitter":
		fmt.Println("run")
		os.Exit(0)
	case "parent": // starts a sleeper by way of this package and never ends it
		spec := child("sleeper", os.Getenv("RIG_LOG"))
		p, err := proc.Start(spec)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("child", p.PID())
		select {}
	}
}

func child(role, log string) proc.Spec {
	return proc.Spec{Path: os.Args[0], Env: append(os.Environ(), "RIG_ROLE="+role), Log: log}
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestProcess_Stop_returnsTheExitCodeAndKeepsTheOutput(t *testing.T) {
	p := proc.Run(t, child("sleeper", ""))
	if err := p.WaitOutput(limited(t), "ready"); err != nil {
		t.Fatal(err)
	}
	exit, err := p.Stop(limited(t))
	if err != nil || exit.Code != 7 || exit.Signal != 0 {
		t.Errorf("%v, %v, want exit code 7", exit, err)
	}
	if got := p.Output(); got != "ready\nsignal terminated\n" {
		t.Errorf("output %q", got)
	}
	if got := p.Tail(1); got != "signal terminated" {
		t.Errorf("tail %q", got)
	}
	if err := p.Signal(syscall.SIGUSR1); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to the dead: %v", err)
	}
	if err := p.WaitOutput(limited(t), "never"); err == nil || !strings.Contains(err.Error(), "exit code 7") {
		t.Errorf("waiting for what never comes: %v", err)
	}
}

func TestProcess_Stop_killsWhenTheTimeIsOver(t *testing.T) {
	p := proc.Run(t, child("stubborn", ""))
	if err := p.WaitOutput(limited(t), "ready"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	exit, err := p.Stop(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || exit.Signal != syscall.SIGKILL {
		t.Errorf("%v, %v, want a kill and the context's error", exit, err)
	}
}

func TestProcess_diesWithItsParent(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RIG_ROLE=parent", "RIG_LOG="+log)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, perr := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "child ")))
	if err != nil || perr != nil {
		t.Fatalf("the parent said %q", line)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the child does not run: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	proc.Eventually(t, 30*time.Second, func() error {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !strings.Contains(string(status), ") Z ") {
			return errors.New("the child lives on")
		}
		return nil
	})
}

func TestStart_withoutProgramOrLog_fails(t *testing.T) {
	if _, err := proc.Start(proc.Spec{Path: "/nonexistent", Log: filepath.Join(t.TempDir(), "log")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing program: %v", err)
	}
	if _, err := proc.Start(proc.Spec{Path: os.Args[0]}); err == nil {
		t.Error("a process without a log file was started")
	}
}

func TestBuilder_Build_buildsOnceAndCleansUp(t *testing.T) {
	src := t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "main.go"), []byte("package main\n\nfunc main() { println(\"built\") }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var b proc.Builder
	path, err := b.Build(filepath.Join(src, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.Build(filepath.Join(src, "main.go"))
	if err != nil || again != path {
		t.Errorf("second build: %s, %v, want %s", again, err, path)
	}
	p := proc.Run(t, proc.Spec{Path: path})
	if exit, err := p.Wait(limited(t)); err != nil || exit.Code != 0 || p.Output() != "built\n" {
		t.Errorf("%v, %v, output %q", exit, err, p.Output())
	}
	if _, err := b.Build(filepath.Join(src, "missing.go")); err == nil {
		t.Error("a missing program was built")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}

func TestHTTP_waitsForTheCondition(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) < 3 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "ok")
	}))
	defer server.Close()
	body, err := proc.HTTP(limited(t), server.URL, nil)
	if err != nil || string(body) != "ok" || calls.Load() != 3 {
		t.Errorf("%q, %v after %d calls", body, err, calls.Load())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = proc.HTTP(ctx, server.URL, func(status int, body []byte) bool { return status == 404 })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "200 OK: ok") {
		t.Errorf("error %v, want the deadline with the last answer", err)
	}
}

func TestSupervisor_startsAgainHoweverTheProcessEnds(t *testing.T) {
	s := proc.RunSupervised(t, child("sleeper", ""), proc.Fast())
	first := s.Process()
	if err := first.WaitOutput(limited(t), "ready"); err != nil {
		t.Fatal(err)
	}
	first.Kill()
	if err := s.WaitRestarts(limited(t), 1); err != nil {
		t.Fatal(err)
	}
	second := s.Process()
	if second.PID() == first.PID() {
		t.Error("the process is still the first one")
	}
	proc.Eventually(t, 30*time.Second, func() error { // the log is shared; the second "ready" is the second process's
		if strings.Count(second.Output(), "ready") < 2 {
			return errors.New("the second process is not ready")
		}
		return nil
	})
	if err := second.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitRestarts(limited(t), 2); err != nil {
		t.Fatal(err)
	}
	restarts := s.Restarts()
	if restarts[0].Exit.Signal != syscall.SIGKILL || restarts[0].Wait != 0 || restarts[1].Exit.Code != 7 || restarts[1].Wait != proc.Fast().Base {
		t.Errorf("restarts %+v", restarts)
	}
}

func TestSupervisor_Stop_endsTheProcessForGood(t *testing.T) {
	s := proc.RunSupervised(t, child("sleeper", ""), proc.Fast())
	p := s.Process()
	if err := p.WaitOutput(limited(t), "ready"); err != nil {
		t.Fatal(err)
	}
	exit, err := s.Stop(limited(t))
	if err != nil || exit.Code != 7 || s.Process() != p || len(s.Restarts()) != 0 {
		t.Errorf("%v, %v, restarts %v", exit, err, s.Restarts())
	}
}

func TestSupervisor_cleanExitsBackOffToo(t *testing.T) {
	backoff := proc.Backoff{Base: time.Millisecond, Max: 4 * time.Millisecond, ResetAfter: time.Hour}
	s := proc.RunSupervised(t, child("quitter", ""), backoff)
	if err := s.WaitRestarts(limited(t), 5); err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{0, time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond, 4 * time.Millisecond}
	for i, r := range s.Restarts()[:5] {
		if r.Wait != want[i] || r.Exit.Code != 0 || r.Err != nil {
			t.Errorf("restart %d: %+v, want a wait of %v", i, r, want[i])
		}
	}
}
