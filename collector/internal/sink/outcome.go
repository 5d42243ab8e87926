package sink

import (
	"errors"
	"fmt"
)

// Class is what became of one record in one attempt. It alone decides what
// delivery does next.
type Class int

const (
	// Transient: not acknowledged, for a reason that lies with the destination
	// or the way to it (server error, time-out, network, DNS, TLS, missing
	// stream or bucket, access denied, expired credentials, wrong region). The
	// record waits and is tried again for as long as it takes. It is the zero
	// value: what nobody stated is not written.
	Transient Class = iota
	// Written: the destination acknowledged the record. It may be acked.
	Written
	// Throttled: the destination is well but wants less. Try again more slowly.
	Throttled
	// Permanent: this record, by itself, can never be accepted (too large,
	// malformed). It goes to the dead letters. Faults of the destination are
	// never Permanent.
	Permanent
)

// String returns the class in the words used for metric labels.
func (c Class) String() string {
	switch c {
	case Written:
		return "written"
	case Throttled:
		return "throttled"
	case Permanent:
		return "permanent"
	case Transient:
		return "transient"
	}
	return fmt.Sprintf("class(%d)", int(c))
}

// Cause says in one word where a fault lies; it is what people and the health
// report (error_class) see. An empty Cause means there was no fault.
type Cause string

// The causes, as they stand in the health report and in metric labels.
const (
	CauseThrottled Cause = "throttled" // over the destination's rate
	CauseAuth      Cause = "auth"      // denied, expired or missing credentials, KMS refused
	CauseConfig    Cause = "config"    // no such stream or bucket, wrong region, KMS key disabled
	CauseNetwork   Cause = "network"   // DNS, connect, TLS, reset, time-out
	CauseServer    Cause = "server"    // the destination answered with a fault of its own
	CauseRecord    Cause = "record"    // this record cannot be accepted
)

// Outcome is what became of one record in one attempt.
type Outcome struct {
	Class Class
	Err   *Error // nil when Class is Written
}

// Error describes a fault in words an operator can act on.
type Error struct {
	Cause   Cause
	Code    string // the destination's own name for it, e.g. ResourceNotFoundException; may be empty
	Message string // what failed, on what, and what to do if that is known
	Err     error  // underlying error; may be nil
}

// Error returns the message with the destination's code.
func (e *Error) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Fail returns n outcomes of the same class and error, for a call that failed
// as a whole.
func Fail(n int, class Class, err *Error) []Outcome {
	out := make([]Outcome, n)
	for i := range out {
		out[i] = Outcome{Class: class, Err: err}
	}
	return out
}

// AllWritten returns n outcomes of Written.
func AllWritten(n int) []Outcome {
	out := make([]Outcome, n)
	for i := range out {
		out[i].Class = Written
	}
	return out
}

// AsError returns the *Error in err's chain, or wraps err as a server fault so
// that callers need only one form.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Cause: CauseServer, Message: err.Error(), Err: err}
}
