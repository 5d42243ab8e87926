package remedy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"spillway/shared/healthapi"
	"spillway/watchdog/internal/process"
)

// Admin is what a flush needs of the collector's private listener.
type Admin interface {
	Report(ctx context.Context) (*healthapi.Report, error)
	Flush(ctx context.Context) (healthapi.Flush, error)
}

// Flushed tells how a flush went.
type Flushed struct {
	Way   string // "SIGUSR1" or "POST /flush"
	Why   string // why the flush was not asked for by signal; empty when it was
	State healthapi.Flush
}

// String is a sentence for the journal.
func (f Flushed) String() string {
	text := "flushed by " + f.Way
	if f.Why != "" {
		text += " (no signal: " + f.Why + ")"
	}
	if f.State.Result == healthapi.FlushKept {
		return fmt.Sprintf("%s: %d events could not be delivered and stay in the spool", text, f.State.RemainingEvents)
	}
	return text + ": everything was delivered"
}

const (
	// flushPoll is how often the collector is asked whether the flush is done.
	flushPoll = 100 * time.Millisecond
	// oneQuestion is how long it may take to answer: one lost answer must not
	// cost the whole time of the flush.
	oneQuestion = 2 * time.Second
)

// Flush asks the collector to deliver what it can at once and returns when that
// is done. It asks by SIGUSR1 when the process is proven and catches the
// signal, and else on the admin listener. An error means that the flush was not
// seen to complete; nothing is lost by that, the spool keeps every event.
func Flush(ctx context.Context, admin Admin, via Signals) (Flushed, error) {
	before, err := ask(ctx, admin.Report)
	if err != nil {
		return Flushed{}, fmt.Errorf("the collector cannot be asked to flush: %w", err)
	}
	done := Flushed{Way: "SIGUSR1"}
	number := before.Flush.Requested + 1
	if err := signalFlush(ctx, via, before); err != nil {
		asked, postErr := ask(ctx, admin.Flush)
		if postErr != nil {
			return Flushed{}, fmt.Errorf("no signal was sent (%w) and no request was taken: %w", err, postErr)
		}
		done.Way, done.Why, number = "POST /flush", err.Error(), asked.Requested
	}
	return done, awaitFlush(ctx, admin, before.BootID, number, &done.State)
}

var errNotReady = errors.New("the collector has not installed its signal handlers yet")

// signalFlush sends SIGUSR1, whose default is to end the process, only to the
// very process that wrote the report, and only when it has a handler for it.
func signalFlush(ctx context.Context, via Signals, r *healthapi.Report) error {
	if !r.SignalsReady {
		return errNotReady
	}
	p, err := process.Open(ProcessOf(r))
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	catches, err := p.Catches(unix.SIGUSR1)
	if err != nil {
		return err
	}
	if !catches {
		return fmt.Errorf("process %d has no handler for SIGUSR1, which would kill it", r.PID)
	}
	return via.Send(ctx, p, unix.SIGUSR1)
}

func awaitFlush(ctx context.Context, admin Admin, bootID string, number int64, state *healthapi.Flush) error {
	tick := time.NewTicker(flushPoll)
	defer tick.Stop()
	for {
		now, err := ask(ctx, admin.Report)
		if err == nil {
			if now.BootID != bootID {
				return errors.New("the collector was restarted while it flushed: the rest is in the spool")
			}
			*state = now.Flush
			if now.Flush.Completed >= number {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("flush %d was not done in time (%d of %d completed): the rest is in the spool", number, state.Completed, state.Requested)
		case <-tick.C:
		}
	}
}

func ask[T any](ctx context.Context, question func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, oneQuestion)
	defer cancel()
	return question(ctx)
}

// ProcessOf is the process that wrote the report.
func ProcessOf(r *healthapi.Report) process.Identity {
	return process.Identity{PID: r.PID, StartTicks: r.PIDStartTicks, Namespace: r.PIDNamespace}
}
