package lifecycle

import (
	"context"
	"errors"
	"sync"
)

// Group runs named goroutines that fall together: the first that returns an
// error ends the context of all. A panic in one is not caught: what it held may
// be half done, and only a restart from disk is safe.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

// NewGroup returns a group whose goroutines get a context that ends with ctx,
// with Stop, or with the first error.
func NewGroup(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// Context ends when the group does.
func (g *Group) Context() context.Context { return g.ctx }

// failure is why a group ended by itself.
type failure struct {
	name string
	err  error
}

func (f *failure) Error() string { return f.name + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Go runs f. An error other than the end of the context is the group's error.
func (g *Group) Go(name string, f func(ctx context.Context) error) {
	g.wg.Go(func() {
		err := f(g.ctx)
		if err != nil && !(g.ctx.Err() != nil && errors.Is(err, g.ctx.Err())) {
			g.cancel(&failure{name, err})
		}
	})
}

// Stop ends the context and waits for every goroutine.
func (g *Group) Stop() error {
	g.cancel(context.Canceled)
	return g.Wait()
}

// Wait waits for every goroutine and returns the first error, or nil when the
// group ended because it was stopped or its parent's context ended, whatever the
// cause of that.
func (g *Group) Wait() error {
	g.wg.Wait()
	cause := context.Cause(g.ctx)
	g.cancel(context.Canceled) // releases the context
	if f, ok := errors.AsType[*failure](cause); ok {
		return f
	}
	return nil
}
