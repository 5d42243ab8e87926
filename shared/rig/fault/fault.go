// Package fault breaks the rig's stand-ins on purpose, the way real services
// break, and mends them again while they run.
//
// A Board holds the faults in force. A stand-in asks it what happens to each
// call: nothing, an error of the service's own, or trouble on the wire (no
// answer, half an answer, a reset before or after the call took effect). A
// Listener can go away and come back on the same port. Control lets a person do
// all of this with curl.
package fault

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind names a way to fail.
type Kind string

// The kinds. "Applied" means that the call took effect although the caller does
// not hear of it.
const (
	Down        Kind = "down"         // connection refused; open connections are cut
	Hang        Kind = "hang"         // accepted, never answered, not applied
	HangApplied Kind = "hang_applied" // applied, never answered
	Reset       Kind = "reset"        // connection reset, not applied
	Lost        Kind = "lost"         // applied, then the connection is reset: the answer is lost
	Trickle     Kind = "trickle"      // applied, the answer comes one byte every By (default 100ms)
	Delay       Kind = "delay"        // waits By, then works
	Garbage     Kind = "garbage"      // 200 with a body that is not the protocol, not applied
	Empty       Kind = "empty"        // 200 with no body, not applied
	Status      Kind = "status"       // the bare HTTP status in Status (default 500) with Message as its body, not applied
	Error       Kind = "error"        // the service's error Code for the whole call, not applied
	Record      Kind = "record"       // Kinesis only: the error Code for single records of a call, the others are applied
	Skew        Kind = "skew"         // the service's clock is ahead by By and it refuses signatures made too far from it
)

// Kinds lists every kind.
func Kinds() []Kind {
	return []Kind{Down, Hang, HangApplied, Reset, Lost, Trickle, Delay, Garbage, Empty, Status, Error, Record, Skew}
}

// Fault is one way to fail, and for which calls. Fields that do not belong to
// the kind are ignored.
type Fault struct {
	Kind    Kind          `json:"kind"`
	Code    string        `json:"code,omitempty"`    // the service's name for the error (Error, Record)
	Message string        `json:"message,omitempty"` // its text; empty takes a plausible one
	Status  int           `json:"status,omitempty"`  // HTTP status (Status; with Error it overrides the code's usual one)
	By      time.Duration `json:"by,omitempty"`      // how long or how far (Trickle, Delay, Skew)

	Op     string  `json:"op,omitempty"`     // only this operation, e.g. PutRecords; empty: all
	Target string  `json:"target,omitempty"` // only this stream or bucket; empty: all
	Match  string  `json:"match,omitempty"`  // only calls (Record: records) whose data contains this; empty: all
	Share  float64 `json:"share,omitempty"`  // of the calls (Record: records) that fit, this part fails; 0 means all
	Times  int     `json:"times,omitempty"`  // mended by itself after so many calls (Record: records) failed; 0: never

	// MatchFunc is Match for tests in Go: it is asked about each record's data.
	MatchFunc func(data []byte) bool `json:"-"`
}

// String returns the fault as the parameters that Control takes.
func (f Fault) String() string {
	q := url.Values{}
	add := func(name, value, zero string) {
		if value != zero {
			q.Set(name, value)
		}
	}
	add("code", f.Code, "")
	add("message", f.Message, "")
	add("status", strconv.Itoa(f.Status), "0")
	add("by", f.By.String(), "0s")
	add("op", f.Op, "")
	add("target", f.Target, "")
	add("match", f.Match, "")
	add("share", strconv.FormatFloat(f.Share, 'g', -1, 64), "0")
	add("times", strconv.Itoa(f.Times), "0")
	return strings.TrimSuffix("kind="+string(f.Kind)+"&"+q.Encode(), "&")
}

// Validate says what is wrong with a fault.
func (f Fault) Validate() error {
	switch {
	case !slices.Contains(Kinds(), f.Kind):
		return fmt.Errorf("kind: %q is none of %v", f.Kind, Kinds())
	case (f.Kind == Error || f.Kind == Record) && f.Code == "":
		return fmt.Errorf("code: kind %q needs the service's name for the error", f.Kind)
	case f.Kind == Skew && f.By == 0:
		return fmt.Errorf("by: kind %q needs how far the clock is off", f.Kind)
	case f.Share < 0 || f.Share > 1:
		return fmt.Errorf("share: %v is not between 0 and 1", f.Share)
	case f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("status: %d is not an HTTP status of an answer", f.Status)
	case f.Times < 0:
		return fmt.Errorf("times: %d is negative", f.Times)
	}
	return nil
}

// Call is what a Board needs to know about a request to choose its fault.
type Call struct {
	Op     string
	Target string
	Data   [][]byte // the records it carries; may be nil
}

func (f *Fault) fits(c Call) bool {
	if f.Op != "" && f.Op != c.Op || f.Target != "" && f.Target != c.Target {
		return false
	}
	if f.Match == "" && f.MatchFunc == nil {
		return true
	}
	return slices.ContainsFunc(c.Data, f.matches)
}

func (f *Fault) matches(data []byte) bool {
	if f.Match != "" && !bytes.Contains(data, []byte(f.Match)) {
		return false
	}
	return f.MatchFunc == nil || f.MatchFunc(data)
}
