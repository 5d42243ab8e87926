package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Handle holds on to one proven process: whatever happens to its pid, signals
// go to that process or to none. It is not safe for concurrent use.
type Handle struct {
	id Identity
	fd int
}

// Open proves that id is alive and the process that is meant. Close the handle.
func Open(id Identity) (*Handle, error) {
	if _, err := id.Check(); err != nil {
		return nil, err
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", id.PID, err)
	}
	// The pid may have changed hands between the check and the open; from here
	// on the descriptor stands for one process, so one more look settles which.
	if _, err := id.Check(); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &Handle{id: id, fd: fd}, nil
}

// Identity says which process it is.
func (h *Handle) Identity() Identity { return h.id }

// Close lets go of the process.
func (h *Handle) Close() error { return unix.Close(h.fd) }

// Signal sends sig. It returns ErrGone when the process has ended.
func (h *Handle) Signal(sig unix.Signal) error {
	err := unix.PidfdSendSignal(h.fd, sig, nil, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return ErrGone
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("send %s to process %d: %w (run the watchdog as the collector's user or give it CAP_KILL)", unix.SignalName(sig), h.id.PID, err)
	case err != nil:
		return fmt.Errorf("send %s to process %d: %w", unix.SignalName(sig), h.id.PID, err)
	}
	return nil
}

// MaySignal tells, without sending one, whether the process may be signalled.
func (h *Handle) MaySignal() error { return h.Signal(0) }

// Catches tells whether the process has a handler for sig.
func (h *Handle) Catches(sig unix.Signal) (bool, error) {
	data, err := os.ReadFile(procFile(h.id.PID, "status"))
	if err != nil {
		return false, fmt.Errorf("read the signal handlers of process %d: %w", h.id.PID, err)
	}
	for line := range strings.Lines(string(data)) {
		text, ok := strings.CutPrefix(line, "SigCgt:")
		if !ok {
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		if err != nil {
			return false, fmt.Errorf("read the signal handlers of process %d: %w", h.id.PID, err)
		}
		return mask>>(uint(sig)-1)&1 == 1, nil
	}
	return false, fmt.Errorf("read the signal handlers of process %d: /proc does not tell", h.id.PID)
}

// Wait returns nil when the process has ended, or the end of ctx.
func (h *Handle) Wait(ctx context.Context) error {
	for {
		// A pidfd turns readable when its process ends. The wait is cut into
		// slices because poll knows nothing of ctx.
		slice := 50 * time.Millisecond
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}, int(slice.Milliseconds()))
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("wait for process %d: %w", h.id.PID, err)
		case n > 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("process %d is still there: %w", h.id.PID, ctx.Err())
		}
	}
}
