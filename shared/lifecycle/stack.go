// Package lifecycle starts and stops the parts of a daemon: a stack of named
// stops that run in reverse order, and a group of named goroutines that fall
// together.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// Stack holds what must be undone, in reverse order. Register the stop on the
// line after the start, so that a constructor that fails half way can roll back
// through the same stack. It is safe for concurrent use.
type Stack struct {
	log *logrus.Entry

	mu    sync.Mutex // guards steps
	steps []step
}

type step struct {
	name string
	stop func(context.Context) error
}

// NewStack returns an empty stack.
func NewStack(log *logrus.Entry) *Stack { return &Stack{log: log} }

// OnStop registers a step. Name is what the log says when it fails or is slow.
// The step should return soon after its context ends.
func (s *Stack) OnStop(name string, stop func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step{name, stop})
}

// Stop runs every step, the last registered first, each once however often
// Stop is called. A step that fails does not keep the others from running. The
// errors come back joined, with the names of their steps.
func (s *Stack) Stop(ctx context.Context) error {
	var errs []error
	for {
		next, ok := s.pop()
		if !ok {
			return errors.Join(errs...)
		}
		begun := time.Now()
		err := next.stop(ctx)
		entry := s.log.WithFields(logrus.Fields{"step": next.name, "took": time.Since(begun).Round(time.Millisecond).String()})
		if err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", next.name, err))
			entry.WithError(err).Warn("stop step failed")
			continue
		}
		entry.Debug("stop step done")
	}
}

func (s *Stack) pop() (step, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.steps) == 0 {
		return step{}, false
	}
	last := s.steps[len(s.steps)-1]
	s.steps = s.steps[:len(s.steps)-1]
	return last, true
}
