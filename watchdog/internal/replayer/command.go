package replayer

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	maxReportBytes = 4 << 20
	maxOutputBytes = 8 << 10
	// grace is how long a replay that was told to stop may take to note how far
	// it came. It fits into the time that a supervisor gives the watchdog to stop.
	grace = 10 * time.Second
)

// Command replays by a child process. It is safe for concurrent use.
type Command struct {
	Config Config
	Admin  string // the address of the collector's admin listener
}

// Run replays what instance wrote and returns when the process has ended. At the
// end of ctx it is told to stop, by SIGTERM to its process group, and is killed
// after a grace of ten seconds. It ends with the watchdog, however that ends.
func (c Command) Run(ctx context.Context, instance string) Outcome {
	argv := c.Config.argv(instance, c.Admin)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "SPILLWAY_INSTANCE="+instance)
	var report head
	var said tail
	cmd.Stdout, cmd.Stderr = &report, &said
	// The kernel sends the parent's death signal when the thread that started the
	// child ends, so this one is kept until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	begun := time.Now()
	err := cmd.Start()
	if err == nil {
		// When memory is short the replay has to go before the collector and the
		// watchdog. Where the kernel refuses, it is as good as they are.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("500"), 0)
		err = cmd.Wait()
	}
	o := Outcome{Err: err, Report: report.parse(), Output: said.String(), Took: time.Since(begun)}
	switch {
	case cmd.ProcessState != nil && cmd.ProcessState.Success():
		o.Err = nil // stopped too late, or something it started keeps its output open
	case ctx.Err() != nil:
		o.Err = context.Cause(ctx)
	}
	if o.Err != nil {
		o.Err = fmt.Errorf("run %s: %w", argv[0], o.Err)
	}
	return o
}

// head keeps what is written to it unless that is too much.
type head struct {
	kept    bytes.Buffer
	tooMuch bool
}

func (h *head) Write(p []byte) (int, error) {
	if h.tooMuch = h.tooMuch || h.kept.Len()+len(p) > maxReportBytes; !h.tooMuch {
		h.kept.Write(p)
	}
	return len(p), nil
}

func (h *head) parse() *Report {
	if h.tooMuch {
		return nil
	}
	return parseReport(h.kept.Bytes())
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	p = p[max(0, n-maxOutputBytes):]
	t.kept = append(t.kept[max(0, len(t.kept)+len(p)-maxOutputBytes):], p...)
	return n, nil
}

func (t *tail) String() string { return strings.ToValidUTF8(strings.TrimSpace(string(t.kept)), "?") }
