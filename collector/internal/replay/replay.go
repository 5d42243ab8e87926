// Package replay brings archived objects, written while the stream took nothing,
// to the destination they were meant for.
//
// It lists the objects below a place (plan.go), claims one after the other so
// that no two replayers work on the same (store.go), reads its records and lends
// them to the delivery code by way of a Queue (queue.go), and notes in a mark
// beside the objects how far delivery is confirmed (mark.go, keeper.go).
//
// A mark is written only after the confirmations it speaks of. So a replay that
// is killed skips nothing, and sends again at most as many records as may be
// under way between two marks: Options.Window. Objects are only ever read, unless
// the caller asks for finished ones to be deleted.
//
// What is damaged is reported with object, line and reason, and stops nothing.
package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/archive"
)

// Options of a replay. Store and Log are required.
type Options struct {
	Store Store
	Log   *logrus.Entry
	// To names the destination, for the marks.
	To string
	// Window is how many records may be read and not yet confirmed by a mark: so
	// many at most are sent twice after a kill. At least 1.
	Window int
	// Objects is how many objects are open at a time. At least 1.
	Objects int
	// Pace holds back; nil does not.
	Pace *Pace
	// Delete removes objects that were replayed whole, once their mark is durable.
	Delete bool
	// RecheckEvery is how often objects that others have claimed are looked at
	// again. Default 2s.
	RecheckEvery time.Duration
	// RenewEvery is how often a claim is renewed if nothing else renews it. Default
	// 15s. A claim that could not be renewed three times in a row lends out no more
	// records until it can.
	RenewEvery time.Duration
	// Progress is told what happens; may be nil.
	Progress *Progress
	// Report gathers what happens, of several replays too; may be nil.
	Report *Report
}

// Replay replays the objects of one lane. Run is called once.
type Replay struct {
	o     Options
	queue *Queue
	twins *twins

	giveUp func(error) // ends Run

	mu       sync.Mutex // guards what follows
	waiting  []Object   // not claimed yet, in order
	taken    []taken    // claimed by others, the one looked at longest ago first
	failures int        // objects that failed in a row
}

// New returns a replay of the objects, which are all of one lane, in their order.
func New(objects []Object, o Options) *Replay {
	if o.RecheckEvery == 0 {
		o.RecheckEvery = 2 * time.Second
	}
	if o.RenewEvery == 0 {
		o.RenewEvery = 15 * time.Second
	}
	if o.Progress == nil {
		o.Progress = &Progress{}
	}
	if o.Report == nil {
		o.Report = &Report{}
	}
	return &Replay{o: o, waiting: objects, twins: newTwins(objects), queue: newQueue(max(o.Window, 1), o.Pace, o.Progress)}
}

// Queue is what the records are delivered from.
func (r *Replay) Queue() *Queue { return r.queue }

// Run replays until every object is done, by this replayer or another, or until
// ctx ends. deliver delivers from Queue until its context ends, and confirms
// what it can before it returns, as a Forwarder does. When Run returns, what was
// confirmed stands in the marks and the claims are let go of. It returns ctx's
// error if it ended early, an error if object after object failed, and otherwise
// nil: what went wrong with single objects stands in Options.Report.
func (r *Replay) Run(ctx context.Context, deliver func(context.Context) error) error {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.giveUp = cancel
	delivering, endDelivery := context.WithCancel(context.WithoutCancel(ctx))
	defer endDelivery()
	delivered := make(chan error, 1)
	go func() {
		err := deliver(delivering)
		cancel(errDeliveryEnded)
		r.queue.close() // nothing more will be confirmed
		delivered <- err
	}()
	stop := context.AfterFunc(work, func() {
		r.queue.stop()
		endDelivery()
	})
	defer stop()

	var workers sync.WaitGroup
	for range max(r.o.Objects, 1) {
		workers.Go(func() { r.work(work) })
	}
	workers.Wait()
	early := work.Err() != nil
	endDelivery()
	err := <-delivered
	switch {
	case err != nil:
		return err
	case early && ctx.Err() != nil:
		return context.Cause(ctx)
	case early:
		return context.Cause(work)
	}
	return nil
}

var errDeliveryEnded = errors.New("delivery ended before the replay")

// work replays one object after the other until none is left.
func (r *Replay) work(ctx context.Context) {
	for ctx.Err() == nil {
		o, wait, ok := r.next()
		switch {
		case !ok:
			return
		case wait > 0:
			pause(ctx, wait)
		default:
			r.one(ctx, o)
		}
	}
}

// next returns the next object to try, or how long to wait for one that another
// replayer has.
func (r *Replay) next() (o Object, wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) > 0 {
		o, r.waiting = r.waiting[0], r.waiting[1:]
		return o, 0, true
	}
	if len(r.taken) == 0 {
		return o, 0, false
	}
	first := r.taken[0]
	if wait := time.Until(first.again); wait > 0 {
		return o, wait, true
	}
	r.taken = r.taken[1:]
	return first.Object, 0, true
}

// mostFailures is how many objects may fail in a row. More of them would fail for
// the same reason, which lies elsewhere: a permission, most likely.
const mostFailures = 10

func (r *Replay) failed(key string, err error) {
	r.o.Report.failed(key, err, r.o.Log)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures++; r.failures == mostFailures {
		r.giveUp(fmt.Errorf("%d objects in a row could not be replayed, the last because: %w", r.failures, err))
	}
}

func (r *Replay) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = 0
}

// taken is an object that another replayer has, to be tried again.
type taken struct {
	Object
	again time.Time
}

// one claims an object and replays it.
func (r *Replay) one(ctx context.Context, o Object) {
	// A claim whose answer nobody waits for would have to run out.
	limited, cancel := outlast(ctx, stopGrace)
	claim, err := r.o.Store.Claim(limited, o.Entry, o.Marks(), r.o.To)
	cancel()
	if busy, ok := errors.AsType[*BusyError](err); ok {
		r.o.Report.sawBusy(o.Key, busy.By, r.o.Log)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.taken = append(r.taken, taken{o, time.Now().Add(r.o.RecheckEvery)})
		return
	}
	defer r.twins.finished(o.Key)
	switch {
	case errors.Is(err, ErrDone):
		r.o.Progress.skip(o.Size)
		r.o.Report.elsewhere()
	case err != nil:
		if ctx.Err() == nil {
			r.failed(o.Key, err)
		}
	default:
		r.keep(ctx, o, claim)
	}
}

// stopGrace is how long a claim that is being made may take after a stop.
const stopGrace = 5 * time.Second

// outlast returns a context that ends some time after ctx.
func outlast(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		pause(longer, by)
		cancel()
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Object is one object to be replayed.
type Object struct {
	Entry
	Name   archive.Name
	Prefix string // before the name, without a slash at its end
}

// Marks returns the keys of the object's marks.
func (o Object) Marks() Marks { return marksOf(o.Prefix, o.Name) }
