package process_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"spillway/watchdog/internal/process"
)

// TestMain lets the test binary stand in for a collector: a child process that
// catches USR1, says "ready" and waits.
func TestMain(m *testing.M) {
	switch os.Getenv("PROCESS_TEST_CHILD") {
	case "":
		os.Exit(m.Run())
	case "headless":
		headless()
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1)
	println("ready")
	for range signals {
	}
}

func init() {
	if os.Getenv("PROCESS_TEST_CHILD") == "headless" {
		runtime.LockOSThread() // so that main has the thread that stands for the process
	}
}

// headless ends the main thread only, which makes the process a zombie whose
// other threads live, as after a SIGKILL while one of them hangs in the kernel.
func headless() {
	go func() {
		for {
			if stat, err := process.Look(os.Getpid()); err == nil && stat.State == 'Z' {
				println("ready")
				select {}
			}
			runtime.Gosched()
		}
	}()
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// child starts a process that catches USR1.
func child(t *testing.T) (*exec.Cmd, process.Identity) { return childThat(t, "1") }

func childThat(t *testing.T, does string) (*exec.Cmd, process.Identity) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROCESS_TEST_CHILD="+does)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	id := start(t, cmd)
	if _, err := bufio.NewReader(stderr).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd, id
}

func start(t *testing.T, cmd *exec.Cmd) process.Identity {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	stat, err := process.Look(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := process.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	return process.Identity{PID: cmd.Process.Pid, StartTicks: stat.StartTicks, Namespace: ns}
}

func TestOpen_refusesWhatIsNotProven(t *testing.T) {
	_, id := child(t)
	cases := map[string]struct {
		change func(*process.Identity)
		want   error
	}{
		"no pid":          {func(i *process.Identity) { i.PID = 0 }, process.ErrUnknown},
		"no start time":   {func(i *process.Identity) { i.StartTicks = 0 }, process.ErrUnknown},
		"no namespace":    {func(i *process.Identity) { i.Namespace = 0 }, process.ErrUnknown},
		"other namespace": {func(i *process.Identity) { i.Namespace++ }, process.ErrForeignNamespace},
		"pid reused":      {func(i *process.Identity) { i.StartTicks-- }, process.ErrReused},
		"no such process": {func(i *process.Identity) { i.PID = 1 << 30 }, process.ErrGone},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wrong := id
			c.change(&wrong)
			if _, err := process.Open(wrong); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestHandle_Catches_seesWhetherThereIsAHandler(t *testing.T) {
	_, with := child(t)
	// Not a Go program: the Go runtime catches every signal it can.
	without := start(t, exec.Command("sleep", "1000"))
	for id, want := range map[process.Identity]bool{with: true, without: false} {
		h, err := process.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if got, err := h.Catches(unix.SIGUSR1); err != nil || got != want {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
}

func TestHandle_Signal_afterTheEndReachesNobody(t *testing.T) {
	cmd, id := child(t)
	h, err := process.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.MaySignal(); err != nil {
		t.Errorf("may signal: %v", err)
	}
	if err := h.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Open(id); !errors.Is(err, process.ErrGone) {
		t.Errorf("open of a zombie: got %v, want ErrGone", err)
	}
	_ = cmd.Wait()
	if err := h.Signal(unix.SIGTERM); !errors.Is(err, process.ErrGone) {
		t.Errorf("signal after the end: got %v, want ErrGone", err)
	}
}

// A killed process whose threads hang still holds its files and locks.
func TestCheck_aZombieWithLivingThreadsIsDyingNotGone(t *testing.T) {
	_, id := childThat(t, "headless")
	stat, err := id.Check()
	if err != nil || !stat.Dying || stat.State != 'Z' {
		t.Fatalf("got %+v, %v; want it to be dying", stat, err)
	}
	h, err := process.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("wait while it dies: got %v", err)
	}
	if err := h.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stat, err := id.Check(); !errors.Is(err, process.ErrGone) || stat.Dying {
		t.Errorf("after its end: got %+v, %v; want ErrGone", stat, err)
	}
}
