// Package delivery empties a lane's spool into a sink. A Forwarder reads records,
// batches them as the sink wishes, writes several batches at once, sends again
// only what was not written, and acks each record as soon as it is: written, or
// durable among the dead letters. An ack is the one way a record leaves the
// spool, so whatever dies, and whenever, an unacked record is still there.
//
// What is wrong decides what happens next. A record that can never be accepted
// becomes a dead letter. A throttled one is sent again more slowly (pacer). A
// fault of the destination is waited for, however long it takes (circuit), and
// one log line says when it begins, changes and ends. In fallback mode a prober
// sends a little of the real traffic to the primary to learn when it is back.
//
// One goroutine owns all of this (loop.go); writes, reads and dead letters are
// done by others that only report to it. Memory is bounded by Config.MaxMemory,
// whatever the backlog.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"spillway/collector/internal/deadletter"
	"spillway/collector/internal/sink"
)

// Queue is what a Forwarder needs of a lane's spool.
type Queue interface {
	// Read returns the next records not yet handed out, at least one, and waits
	// for it. The caller owns their memory.
	Read(ctx context.Context, maxRecords int, maxBytes int64) ([]sink.Record, error)
	// Ack says that records need not be kept, in any order.
	Ack(seqs ...uint64)
	// Sync makes the acks so far durable.
	Sync() error
	// Backlog returns how many records are not acked, from memory.
	Backlog() int64
}

// DeadLetters keeps records that can never be delivered.
type DeadLetters interface {
	// Put returns nil once the entries are durable.
	Put(ctx context.Context, entries ...deadletter.Entry) error
}

// Options are what a Forwarder needs besides its config, queue and sink.
type Options struct {
	Lane sink.Lane
	// Primary remembers how the primary is; nil for a lane nobody judges it by.
	// Run keeps its file up to date.
	Primary *Primary
	Log     *logrus.Entry
	Metrics prometheus.Registerer // may be nil
}

// Route says where a lane's records go.
type Route struct {
	// Sink takes the records.
	Sink sink.Sink
	// Primary says that Sink is the primary, so that its writes count for
	// Options.Primary.
	Primary bool
	// Probe is the primary, to be tried with some of the records while Sink is the
	// fallback. Nil: it is not tried.
	Probe sink.Sink
}

// Forwarder delivers the records of one lane. Its methods are safe for concurrent
// use.
type Forwarder struct {
	cfg     Config
	queue   Queue
	dead    DeadLetters
	lane    sink.Lane
	primary *Primary
	log     *logrus.Entry
	metrics *metrics
	account *account

	requested atomic.Int64 // flushes asked for
	beatAt    atomic.Pointer[time.Time]
	wake      chan struct{}
	routes    chan switchover
	stopped   chan struct{} // closed when Run returns
	first     Route
}

// ErrNotSwitched says that a lane still delivers where it did before.
var ErrNotSwitched = errors.New("the lane has not switched")

// switchover asks the loop to take another route.
type switchover struct {
	route Route
	done  chan struct{} // closed when no write to the old sink is under way
}

// New returns a Forwarder that delivers queue's records to route once Run is
// called.
func New(cfg Config, queue Queue, route Route, dead DeadLetters, opts Options) *Forwarder {
	f := &Forwarder{
		cfg: cfg, queue: queue, dead: dead, lane: opts.Lane, primary: opts.Primary, log: opts.Log, first: route,
		wake: make(chan struct{}, 1), routes: make(chan switchover), stopped: make(chan struct{}),
	}
	f.account = newAccount(route, opts.Primary)
	f.metrics = newMetrics(opts.Metrics, f)
	f.beat(time.Now())
	return f
}

// Run delivers until ctx ends, and then stops: waits are cut short, and what is
// in the backlog gets one more attempt at once for up to Config.StopTimeout, less
// if the destination does not take it. What was not confirmed by then stays in
// the queue. Acks are synced before Run returns. Run is called once.
//
// What is in the queue at the start is delivered at once; no traffic is needed.
func (f *Forwarder) Run(ctx context.Context) error {
	defer close(f.stopped)
	return newLoop(f).run(ctx)
}

// SetRoute makes another sink take the records from now on, without a restart.
// Writes under way at the old sink have 5 s to finish and are cut short then;
// what they did not write goes to the new sink. SetRoute returns nil once nothing
// is under way at the old sink, which its caller may then close, unless it is the
// one now probed. If ctx ends before that, the error is ErrNotSwitched when the
// old route is still in force, and else that of ctx: then the new route is taken
// all the same, and only closing the old sink must wait. No order is promised
// between the two sinks.
func (f *Forwarder) SetRoute(ctx context.Context, route Route) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrNotSwitched, context.Cause(ctx))
	}
	s := switchover{route, make(chan struct{})}
	select {
	case f.routes <- s:
	case <-f.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotSwitched, context.Cause(ctx))
	}
	select {
	case <-s.done:
		return nil
	case <-f.stopped:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Flush asks that every record in the backlog now gets a delivery attempt at once
// and returns the number of this request without waiting; it is done when
// FlushStatus shows that number as completed. Requests made while a flush is
// under way are all answered by the next one. See docs/delivery.md for what
// exactly is promised.
func (f *Forwarder) Flush() int64 {
	n := f.requested.Add(1)
	f.poke()
	return n
}

func (f *Forwarder) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *Forwarder) beat(now time.Time) { f.beatAt.Store(&now) }
