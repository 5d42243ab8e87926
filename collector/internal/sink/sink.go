// Package sink is the plug between delivery and a destination: what a record is
// when it leaves the spool, what a destination must promise, and how it says
// what became of each record. It does no I/O; the adapters below it do.
package sink

import (
	"context"
	"time"
)

// Lane is one of the two streams a collector writes: payloads that are fine,
// and bad rows that describe payloads that could not be kept whole. Lanes have
// their own spool, forwarder and sink, so that one cannot block the other.
type Lane string

// The two lanes.
const (
	Good Lane = "good"
	Bad  Lane = "bad"
)

// Lanes lists both lanes in the order in which they are started.
func Lanes() []Lane { return []Lane{Good, Bad} }

// Record is one message on its way to a destination.
type Record struct {
	Seq  uint64    // number in the lane's spool; rises, never reused
	At   time.Time // when the collector received it, to the millisecond
	Key  string    // partition key, 1 to 256 characters
	Data []byte    // the message itself; a sink must not change or keep it
}

// Sink is a destination for the records of one lane.
//
// It is safe for concurrent use. A sink makes one attempt per Write and leaves
// waiting and repeating to its caller.
type Sink interface {
	// Write makes one attempt to store the records and returns exactly one
	// Outcome for each, in the order given. An Outcome of Written is a promise
	// that the destination has acknowledged the record. Anything unclear (a
	// time-out, a reset after the request was sent) is Transient: the record
	// may exist at the destination and will be sent again. Write returns soon
	// after ctx ends; what was not acknowledged by then is Transient.
	Write(ctx context.Context, records []Record) []Outcome

	// Check makes the cheapest call that proves a Write would be taken, and
	// returns an *Error that says what stands in the way if it would not be.
	Check(ctx context.Context) error

	// Info names the destination for people.
	Info() Info

	// Limits says how records should be batched for this destination.
	Limits() Limits

	// Close releases connections. It does not write anything.
	Close() error
}

// Info names a destination.
type Info struct {
	Type   string // kinesis | s3 | file
	Target string // "good", "s3://bucket/prefix", "/var/lib/spillway/out"
}

// Limits tells delivery how to cut batches for a sink.
type Limits struct {
	MaxRecords     int           // records in one Write, at most
	MaxBytes       int64         // sum of Size over one Write, at most
	MaxRecordBytes int64         // a record whose Size is larger is Permanent; 0 is no limit
	Linger         time.Duration // how long a batch may wait to fill; a flush cuts it short
	InFlight       int           // Writes at the same time, at most
}

// Size is what a record counts towards Limits: its data and its key.
func (r Record) Size() int64 { return int64(len(r.Data) + len(r.Key)) }
