// Package remedytest is the contract that every Restarter passes.
package remedytest

import (
	"context"
	"errors"
	"testing"
	"time"

	"spillway/shared/mode"
	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
)

// Bench is a Restarter with a collector to work on.
type Bench struct {
	Restarter remedy.Restarter
	// Order is one that Switch can carry out.
	Order remedy.Order
	// Switched tells whether the collector runs the mode of the order.
	Switched func() bool
	// Acts counts what was done to the collector: starts, ends, switches.
	Acts func() int
	// Blocked is an order whose Switch would wait for ever. Nil when the
	// Restarter never waits.
	Blocked func() remedy.Order
}

// Run tests the Restarter that build returns, a new one for each promise.
func Run(t *testing.T, build func(t *testing.T) Bench) {
	t.Run("has a name", func(t *testing.T) {
		if build(t).Restarter.Name() == "" {
			t.Error("the name is empty")
		}
	})
	t.Run("check has no effect", func(t *testing.T) {
		b := build(t)
		before := b.Acts()
		if err := b.Restarter.Check(t.Context(), b.Order.Process); err != nil {
			t.Errorf("check: %v", err)
		}
		if after := b.Acts(); after != before {
			t.Errorf("%d acts, want none", after-before)
		}
	})
	t.Run("switch makes the collector run the mode", func(t *testing.T) {
		b := build(t)
		text, err := b.Restarter.Switch(t.Context(), b.Order)
		if err != nil {
			t.Fatalf("switch: %q, %v", text, err)
		}
		collectortest.Await(t, "the collector runs "+string(b.Order.Mode), b.Switched)
	})
	t.Run("switch without a known process touches nobody", func(t *testing.T) {
		b := build(t)
		before := b.Acts()
		order := b.Order
		order.Process, order.Fresh = process.Identity{}, true
		if _, err := b.Restarter.Switch(t.Context(), order); errors.Is(err, remedy.ErrNotApplicable) {
			if after := b.Acts(); after != before {
				t.Errorf("it cannot be used here, but %d acts were done", after-before)
			}
		}
	})
	t.Run("switch returns by the end of its context", func(t *testing.T) {
		b := build(t)
		if b.Blocked == nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		done := make(chan error, 1)
		go func() { _, err := b.Restarter.Switch(ctx, b.Blocked()); done <- err }()
		select {
		case err := <-done:
			if err == nil {
				t.Error("an order that was not carried out in time gave no error")
			}
		case <-time.After(10 * time.Second):
			t.Error("it goes on after its context has ended")
		}
	})
	t.Run("start starts or says that it cannot", func(t *testing.T) {
		b := build(t)
		if _, err := b.Restarter.Start(t.Context(), b.Order); err != nil && !errors.Is(err, remedy.ErrNotApplicable) {
			t.Errorf("start: %v", err)
		}
	})
}

// Order is one to move c to the fallback, which the mode file names already.
func Order(c *collectortest.Collector) remedy.Order {
	c.SetMode(mode.File{Mode: mode.Fallback, By: "watchdog test", Reason: "contract"})
	return remedy.Order{
		ActionID: "a1", Mode: mode.Fallback, By: "watchdog test", Reason: "contract", Process: c.Identity(),
	}
}
