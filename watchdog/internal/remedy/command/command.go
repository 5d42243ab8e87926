// Package command restarts the collector by a command of the operator's own.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"spillway/shared/configfile"
	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
)

// Config is the command.
type Config struct {
	// Restart is the program and its arguments, run without a shell, that makes
	// the collector start anew. It gets SPILLWAY_MODE, SPILLWAY_ACTION_ID,
	// SPILLWAY_REASON and SPILLWAY_PID (0 when unknown) in its environment.
	Restart []string `yaml:"restart"`
	// Start is the same for a collector that does not run. Default: Restart.
	Start []string `yaml:"start"`
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	if len(c.Restart) == 0 || c.Restart[0] == "" {
		return configfile.Invalid("restart", "is empty: give the program and its arguments as a list")
	}
	if len(c.Start) > 0 && c.Start[0] == "" {
		return configfile.Invalid("start", "has no program")
	}
	return nil
}

// maxOutputBytes bounds what the journal keeps of one run: the beginning.
const maxOutputBytes = 8 << 10

// Restarter runs a command.
type Restarter struct{ cfg Config }

var _ remedy.Restarter = (*Restarter)(nil)

// New returns a Restarter for cfg, which must be valid.
func New(cfg Config) *Restarter {
	if len(cfg.Start) == 0 {
		cfg.Start = cfg.Restart
	}
	return &Restarter{cfg: cfg}
}

// Name returns "command".
func (*Restarter) Name() string { return "command" }

// Switch runs the restart command and returns what it printed.
func (r *Restarter) Switch(ctx context.Context, o remedy.Order) (string, error) {
	return run(ctx, r.cfg.Restart, o)
}

// Start runs the start command and returns what it printed.
func (r *Restarter) Start(ctx context.Context, o remedy.Order) (string, error) {
	return run(ctx, r.cfg.Start, o)
}

// Check tells whether the programs can be found and executed.
func (r *Restarter) Check(context.Context, process.Identity) error {
	for _, argv := range [][]string{r.cfg.Restart, r.cfg.Start} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			return fmt.Errorf("the command cannot be run: %w", err)
		}
	}
	return nil
}

func run(ctx context.Context, argv []string, o remedy.Order) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(),
		"SPILLWAY_MODE="+string(o.Mode), "SPILLWAY_ACTION_ID="+o.ActionID,
		"SPILLWAY_REASON="+o.Reason, fmt.Sprintf("SPILLWAY_PID=%d", o.Process.PID))
	var out bounded
	cmd.Stdout, cmd.Stderr = &out, &out
	// The command gets a process group of its own, so that at the deadline its
	// children end with it; output held open by one that left is not waited for.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return out.String(), fmt.Errorf("run %s: it did not end in time and was killed: %w", argv[0], ctx.Err())
	case errors.Is(err, exec.ErrWaitDelay):
		return out.String(), nil // it ended well; something it started keeps its output open
	case err != nil:
		return out.String(), fmt.Errorf("run %s: %w", argv[0], err)
	}
	return out.String(), nil
}

// bounded keeps the beginning of what is written to it. The exec package writes
// from one goroutine when stdout and stderr are the same writer.
type bounded struct {
	kept    []byte
	dropped int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), maxOutputBytes-len(b.kept))
	b.kept = append(b.kept, p[:n]...)
	b.dropped += len(p) - n
	return len(p), nil
}

func (b *bounded) String() string {
	text := strings.ToValidUTF8(strings.TrimSpace(string(b.kept)), "?")
	if b.dropped > 0 {
		text += fmt.Sprintf(" [%d bytes more]", b.dropped)
	}
	return text
}
