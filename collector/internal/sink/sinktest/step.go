package sinktest

import (
	"context"
	"time"

	"spillway/collector/internal/sink"
)

// Step says what one Write of a Fake does. The zero value writes everything.
type Step struct {
	// Hang, if set, holds the Write until the channel is closed (then it goes on)
	// or ctx ends (then every record is Transient).
	Hang <-chan struct{}
	// Takes is how long the Write lasts; ctx may cut it short like Hang.
	Takes time.Duration
	// Each gives the outcome of each record; nil: Written.
	Each func(i int, r sink.Record) sink.Outcome
	// Applied: the destination stores every record, whatever the outcomes say: the
	// answer was lost.
	Applied bool
}

// OK writes everything.
func OK() Step { return Step{} }

// Slow writes everything after a while.
func Slow(takes time.Duration) Step { return Step{Takes: takes} }

// Fail gives every record the same class and error; nothing is applied.
func Fail(class sink.Class, err *sink.Error) Step {
	return Step{Each: func(int, sink.Record) sink.Outcome { return sink.Outcome{Class: class, Err: err} }}
}

// FailSome fails the records that match and writes the others.
func FailSome(class sink.Class, err *sink.Error, match func(i int, r sink.Record) bool) Step {
	return Step{Each: func(i int, r sink.Record) sink.Outcome {
		if match(i, r) {
			return sink.Outcome{Class: class, Err: err}
		}
		return sink.Outcome{Class: sink.Written}
	}}
}

// Lost applies everything and then says that it failed, as when the answer does
// not arrive.
func Lost(err *sink.Error) Step {
	s := Fail(sink.Transient, err)
	s.Applied = true
	return s
}

// Hang holds the Write until release is closed, then writes everything.
func Hang(release <-chan struct{}) Step { return Step{Hang: release} }

// Down is the error of a destination that cannot be reached.
func Down() *sink.Error {
	return &sink.Error{Cause: sink.CauseNetwork, Message: "reach the fake destination: connection refused"}
}

// Denied is the error of a destination that may not be written.
func Denied() *sink.Error {
	return &sink.Error{Cause: sink.CauseAuth, Code: "AccessDeniedException", Message: "write to the fake destination: not allowed"}
}

// Over is the error of a destination that wants less.
func Over() *sink.Error {
	return &sink.Error{Cause: sink.CauseThrottled, Code: "ProvisionedThroughputExceededException", Message: "write to the fake destination: over its rate"}
}

// Unfit is the error of a record that can never be written.
func Unfit() *sink.Error {
	return &sink.Error{Cause: sink.CauseRecord, Code: "ValidationException", Message: "write to the fake destination: the record is not acceptable"}
}

// wait holds the Write as the step says, and returns an error if ctx ended it.
func (s Step) wait(ctx context.Context) *sink.Error {
	if err := ctx.Err(); err != nil {
		return interruption(err)
	}
	if s.Hang != nil {
		select {
		case <-s.Hang:
		case <-ctx.Done():
			return interruption(ctx.Err())
		}
	}
	if s.Takes > 0 {
		timer := time.NewTimer(s.Takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return interruption(ctx.Err())
		}
	}
	return nil
}

func interruption(err error) *sink.Error {
	return &sink.Error{Cause: sink.CauseNetwork, Message: "write to the fake destination: " + err.Error(), Err: err}
}
