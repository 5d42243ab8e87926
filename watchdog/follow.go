package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spillway/shared/mode"
	"spillway/watchdog/internal/control"
	"spillway/watchdog/internal/decide"
)

// followEvery is how often the watchdog is asked how an order goes.
const followEvery = 500 * time.Millisecond

// follow waits for the end of the order command, which is for mode m, and tells
// it. The error says why the collector was not seen running as ordered. A
// watchdog that is restarted meanwhile goes on with the order, and so does follow.
func follow(ctx context.Context, c client, command string, m mode.Mode) (string, error) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	stands := "the watchdog has not said how it goes"
	for {
		s, err := c.status(ctx)
		switch {
		case err == nil && !s.At.IsZero():
			if how := fate(s, command, m); how.over {
				return how.text, how.err
			}
			stands = s.Explain.Next
		case err != nil && ctx.Err() == nil && !errors.Is(err, errNotRunning):
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the order is not over yet, and goes on: %s", stands)
		case <-tick.C:
		}
	}
}

// outcome is how an order stands.
type outcome struct {
	over bool
	text string
	err  error
}

// fate tells what became of an order, by what the watchdog remembers.
func fate(s control.Status, command string, m mode.Mode) outcome {
	st := s.State
	if p := st.Pending; p != nil && p.ID == command {
		return outcome{}
	}
	if a := st.Action; a != nil && a.Command == command {
		return outcome{}
	}
	if last := st.Last; last != nil && last.Command == command {
		if last.End == decide.EndVerified {
			return outcome{over: true, text: fmt.Sprintf("Done: the collector was seen running %s.", m)}
		}
		return outcome{over: true, err: fmt.Errorf("not done: %s", last.Text)}
	}
	if st.Mode.File == m && st.Seen.Mode == m {
		return outcome{over: true, text: fmt.Sprintf("Done: the collector runs %s.", m)} // it was there already
	}
	return outcome{over: true, err: errors.New("not done: another order or act took its place")}
}
