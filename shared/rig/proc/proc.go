// Package proc builds and runs real programs for tests and the demo: it starts
// them with their output in a file, signals and kills them, waits for what they
// do, and can restart them as a supervisor does.
//
// A process never outlives the program that started it: the kernel kills it when
// its parent dies, and Kill takes its children along.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	Path string   // the program
	Args []string // without the program itself
	Env  []string // the whole environment; nil: this process's own
	Dir  string   // working directory; empty: this process's own
	Log  string   // file to which standard output and standard error are appended; required
}

// Exit is how a process ended.
type Exit struct {
	Code   int            // exit code, or -1 if a signal ended it
	Signal syscall.Signal // the signal that ended it, or 0
	At     time.Time
	Ran    time.Duration // from start to end
}

// String returns the exit in words.
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("killed by signal %d (%v) after %v", int(e.Signal), e.Signal, e.Ran.Round(time.Millisecond))
	}
	return fmt.Sprintf("exit code %d after %v", e.Code, e.Ran.Round(time.Millisecond))
}

// Process is a started process. It is safe for concurrent use.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{} // closed once exit is set
	exit Exit
}

// Start starts a process in a process group of its own.
func Start(spec Spec) (*Process, error) {
	if spec.Log == "" {
		return nil, fmt.Errorf("start %s: no log file given", spec.Path)
	}
	log, err := os.OpenFile(spec.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	p := &Process{spec: spec, cmd: exec.Command(spec.Path, spec.Args...), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = spec.Env, spec.Dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	go p.run(log, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	return p, nil
}

// run starts the process and waits for its end on one and the same thread,
// because the kernel takes the end of the starting thread for the death of the
// parent.
func (p *Process) run(log *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer log.Close()
	begun := time.Now()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.cmd.Wait() // what it returns stands in ProcessState
	p.exit = Exit{Code: p.cmd.ProcessState.ExitCode(), At: time.Now(), Ran: time.Since(begun)}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.exit.Signal = status.Signal()
	}
	close(p.done)
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns how the process ended, or ctx's error if it has not by then.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.done:
		return p.exit, nil
	case <-ctx.Done():
		return Exit{}, fmt.Errorf("wait for the end of %s: %w\n%s", p.spec.Path, ctx.Err(), p.Tail(20))
	}
}

// Signal sends a signal to the process alone. It returns os.ErrProcessDone if
// the process has ended.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill ends the process and its children by SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	select {
	case <-p.done:
		return
	default:
	}
	syscall.Kill(-p.PID(), syscall.SIGKILL) // fails only if it has just ended
	<-p.done
}

// Stop asks the process to end by SIGTERM and returns how it did. When ctx ends
// first, the process is killed and ctx's error returned as well.
func (p *Process) Stop(ctx context.Context) (Exit, error) {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return Exit{}, fmt.Errorf("stop %s: %w", p.spec.Path, err)
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		p.Kill()
		return p.exit, err
	}
	return exit, nil
}

// Output returns all that was written to the log file so far, by processes
// before this one too.
func (p *Process) Output() string {
	text, err := os.ReadFile(p.spec.Log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Tail returns the last lines of Output.
func (p *Process) Tail(lines int) string {
	all := strings.SplitAfter(strings.TrimRight(p.Output(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// WaitOutput returns when the log file contains text, or an error when ctx or
// the process ends before.
func (p *Process) WaitOutput(ctx context.Context, text string) error {
	return Until(ctx, func() error {
		ended := false
		select {
		case <-p.done:
			ended = true
		default:
		}
		out, err := os.ReadFile(p.spec.Log)
		if err != nil {
			return err
		}
		switch {
		case bytes.Contains(out, []byte(text)):
			return nil
		case ended:
			return Final(fmt.Errorf("%s ended (%v) and never wrote %q:\n%s", p.spec.Path, p.exit, text, p.Tail(20)))
		}
		return fmt.Errorf("%s has not written %q yet:\n%s", p.spec.Path, text, p.Tail(20))
	})
}
