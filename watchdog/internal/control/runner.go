package control

import (
	"context"
	"time"

	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/process"
)

// Doer does one step of an action and returns by the end of ctx. known is the
// collector's process as last seen, zero when it never was.
type Doer interface {
	Do(ctx context.Context, a decide.Action, known process.Identity) decide.Result
}

// runner runs steps one at a time, apart from the loop, which never waits for
// them. A step ordered while another runs ends that one and begins when it has
// ended; what the first still reports carries its own action and step, by which
// it is known to be late. Only the loop calls its methods.
type runner struct {
	doer    Doer
	results chan finished

	key    stepKey
	cancel context.CancelFunc
	ended  chan struct{} // closed when the step ordered last has ended
}

type stepKey struct {
	action string
	step   decide.Step
	rung   decide.Rung
}

func keyOf(a decide.Action) stepKey { return stepKey{a.ID, a.Step, a.Rung} }

// finished is a step that was done.
type finished struct {
	action decide.Action
	result decide.Result
	took   time.Duration
}

func newRunner(doer Doer) *runner {
	ended := make(chan struct{})
	close(ended)
	return &runner{doer: doer, results: make(chan finished), cancel: func() {}, ended: ended}
}

// order begins the step that a is at, unless it is being done already. The
// result is sent on results unless ctx, the loop's own, ends before.
func (r *runner) order(ctx context.Context, a decide.Action, known process.Identity) {
	if keyOf(a) == r.key {
		return
	}
	r.abort()
	before, ended := r.ended, make(chan struct{})
	stepCtx, cancel := context.WithTimeout(ctx, a.Timeout)
	r.key, r.cancel, r.ended = keyOf(a), cancel, ended
	go func() {
		defer close(ended)
		defer cancel()
		<-before
		begun := time.Now()
		done := finished{action: a, result: r.doer.Do(stepCtx, a, known)}
		done.took = time.Since(begun)
		select {
		case r.results <- done:
		case <-ctx.Done():
		}
	}()
}

// took notes that the loop has a step's result: the step may be ordered again.
func (r *runner) took(f finished) {
	if keyOf(f.action) == r.key {
		r.key = stepKey{}
	}
}

// abort ends the step being done, if any.
func (r *runner) abort() {
	r.cancel()
	r.key = stepKey{}
}

// stop ends the step being done and returns when it has ended.
func (r *runner) stop() {
	r.abort()
	<-r.ended
}
