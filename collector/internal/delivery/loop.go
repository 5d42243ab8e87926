package delivery

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/sink"
	"spillway/shared/healthapi"
)

// never is a time that does not come.
var never = time.Unix(1<<40, 0)

// switchGrace is how long writes at the old sink may go on after a switch.
const switchGrace = 5 * time.Second

// dryAfter is how long a read must find nothing before a round takes the queue
// for empty although its count says otherwise.
const dryAfter = time.Second

// company is how long writes to the fallback are held back at most when a probe is
// due, so that enough records come together to touch most shards.
const company = time.Second

// loop is the one goroutine that decides. It never waits for anything but its
// next event, so that its beat shows progress.
type loop struct {
	*Forwarder

	out     *outlet   // takes the records
	probing *outlet   // is probed; nil if none
	leaving []*outlet // of earlier routes, with writes still under way
	circuit circuit
	pacer   pacer
	prober  prober
	window  int // writes at a time: doubles when one succeeds, halves when one fails

	held     held
	under    undertaker
	parked   int    // let go of, unacked
	arrived  uint64 // records read
	incoming average

	round     round
	roundID   int64 // names each round, for item.flush
	completed healthapi.Flush

	reading       bool
	readAt        time.Time
	readFails     int
	readPauseTill time.Time
	readError     string

	answeredAt  time.Time // when a write last got an answer that was no fault
	fault       string    // the fault that was logged last; empty when all is well
	throttledAt time.Time
	buryError   string
	stopping    bool
	gatherTill  time.Time // records are held back for a probe; zero if not

	wants   chan want
	reads   chan got
	results chan *attempt
	buried  chan error
	gone    chan struct{} // closed when nobody receives any more
}

func newLoop(f *Forwarder) *loop {
	l := &loop{
		Forwarder: f, wants: make(chan want, 1), reads: make(chan got), results: make(chan *attempt),
		buried: make(chan error), gone: make(chan struct{}),
	}
	l.follow(f.first, time.Now())
	return l
}

func (l *loop) run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var helpers sync.WaitGroup
	helpers.Go(func() { serve(work, l.queue, l.wants, l.reads) })
	if l.primary != nil {
		helpers.Go(func() { l.primary.run(work) })
	}

	stop := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		l.step(work, &helpers, now)
		l.publish(now)
		if l.stopping && !l.round.active {
			return l.finish(cancel, &helpers)
		}
		timer.Reset(time.Until(l.wakeAt(now)))
		select {
		case g := <-l.reads:
			l.arrive(g, time.Now())
		case a := <-l.results:
			l.settle(a, time.Now())
		case err := <-l.buried:
			l.mourn(err, time.Now())
		case s := <-l.routes:
			l.reroute(s, time.Now())
		case <-l.wake:
		case <-timer.C:
		case <-stop:
			stop = nil
			l.stop(time.Now())
		}
	}
}

// step does all that can be done now.
func (l *loop) step(work context.Context, helpers *sync.WaitGroup, now time.Time) {
	if requested := l.requested.Load(); requested > l.completed.Completed && !l.round.active {
		l.begin(requested, l.cfg.FlushTimeout, now)
	}
	l.read(now)
	l.probe(now)
	l.dispatch(now)
	l.park(l.under.overflow(int64(l.cfg.MaxMemory) / 4))
	if group := l.under.next(now); group != nil {
		helpers.Go(func() {
			err := store(work, l.dead, group, l.cfg.WriteTimeout)
			select {
			case l.buried <- err:
			case <-work.Done(): // stored or not, it is not acked: the next life decides
			}
		})
	}
	dry := l.reading && now.Sub(l.readAt) >= dryAfter
	if l.round.over(now, l.arrived, l.out.inFlight == 0, l.under.resting(), dry) {
		l.end(now)
	}
	// A destination that holds every write past its end is no progress.
	if l.out.abandoned < l.out.limits.InFlight {
		l.beat(now)
	}
}

// dispatch begins as many writes as may begin now.
func (l *loop) dispatch(now time.Time) {
	// The first writes of a round go out whatever was known of the destination.
	first := l.round.active && !l.round.failed
	if l.round.active && !now.Before(l.round.deadline) {
		return
	}
	if now.Before(l.gatherTill) && !l.round.active {
		return
	}
	for {
		slots := min(l.window, l.out.limits.InFlight)
		most := l.pacer.batch(l.out.limits.MaxRecords)
		switch {
		case first:
			slots = l.out.limits.InFlight
		case l.round.hopeless() || now.Before(l.circuit.pauseTill):
			return
		case l.circuit.tripped:
			slots, most = 1, min(most, l.cfg.Circuit.Records)
		}
		hurry := l.round.active || l.room() <= 0
		// A write past its end has no say in how many may be useful, but it counts
		// for what the sink allows.
		busy := l.out.inFlight-l.out.abandoned >= slots || l.out.inFlight >= l.out.limits.InFlight
		if busy || !hurry && l.held.dueAt(l.out.limits, most).After(now) || !l.pacer.ready(now) {
			return
		}
		items, whole := l.held.cut(now, l.out.limits, most, hurry)
		if len(items) == 0 {
			return
		}
		if items = l.weed(items, now); len(items) > 0 {
			l.pacer.started(len(items), now)
			l.start(&attempt{outlet: l.out, items: items, parcel: whole, startedAt: now, timeout: l.cfg.WriteTimeout})
		}
	}
}

// weed condemns the items that the sink can never take.
func (l *loop) weed(items []*item, now time.Time) []*item {
	fit := items[:0]
	for _, it := range items {
		if tooLarge(it, l.out.limits) {
			l.round.attempted(it, l.roundID)
			l.metrics.records.WithLabelValues(sink.Permanent.String()).Inc()
			l.under.condemn(l.lane, it, oversize(it, l.out), now)
			continue
		}
		fit = append(fit, it)
	}
	return fit
}

func (l *loop) start(a *attempt) {
	a.outlet.inFlight++
	a.generation = a.outlet.generation
	a.send(l.results, l.gone)
}

// probe tries the primary if that is due.
func (l *loop) probe(now time.Time) {
	if l.probing == nil || l.stopping || !l.prober.due(now) || l.probing.inFlight > 0 {
		return
	}
	size := l.prober.size(l.incoming.perSecond(now))
	if fresh := l.held.fresh; len(fresh) > 0 && len(fresh) < size && now.Before(fresh[0].arrivedAt.Add(company)) && !l.round.active {
		l.gatherTill = fresh[0].arrivedAt.Add(company)
		return
	}
	l.gatherTill = time.Time{}
	items := l.held.sample(l.probing.limits, size)
	if l.prober.starved = len(items) == 0; l.prober.starved {
		return
	}
	l.prober.began(now)
	l.start(&attempt{outlet: l.probing, items: items, probe: true, startedAt: now, timeout: l.cfg.Probe.Deadline})
}

// wakeAt returns when there is something to do if nothing happens before.
func (l *loop) wakeAt(now time.Time) time.Time {
	at := now.Add(time.Second) // for the beat
	sooner := func(t time.Time) {
		if t.After(now) && t.Before(at) {
			at = t
		}
	}
	if !l.round.active && l.requested.Load() > l.completed.Completed {
		return now
	}
	sooner(l.circuit.pauseTill)
	sooner(l.pacer.nextAt)
	sooner(l.held.dueAt(l.out.limits, l.out.limits.MaxRecords))
	sooner(l.under.dueAt)
	sooner(l.readPauseTill)
	if l.probing != nil {
		sooner(l.prober.dueAt)
		sooner(l.gatherTill)
	}
	if l.round.active {
		sooner(l.round.deadline)
		sooner(l.readAt.Add(dryAfter))
	}
	return at
}

// begin starts a round.
func (l *loop) begin(number int64, timeout time.Duration, now time.Time) {
	unread := max(0, l.queue.Backlog()-int64(l.held.count)-int64(l.parked))
	l.roundID++
	l.round.begin(number, l.held.count, l.arrived, unread, now, timeout)
	l.round.left += int64(l.parked)   // not read again in this life, and not delivered
	for _, c := range l.under.all() { // these need no attempt, only to be stored
		l.round.attempted(c.item, l.roundID)
	}
	l.held.hurry(now)
	l.under.dueAt = time.Time{}
}

// end closes the round and says how it ended.
func (l *loop) end(now time.Time) {
	result, left := l.round.result(l.queue.Backlog())
	fields := logrus.Fields{"result": result, "remaining_events": left, "took": now.Sub(l.round.begunAt).Round(time.Millisecond).String()}
	if l.stopping {
		l.round.number = l.requested.Load()
		l.log.WithFields(fields).Infof("delivery stops: %s", ending(result, left))
	} else {
		l.log.WithFields(fields).Infof("flush %d is done: %s", l.round.number, ending(result, left))
	}
	if l.round.number > l.completed.Completed {
		l.metrics.flushes.WithLabelValues(string(result)).Inc()
		l.completed = healthapi.Flush{Completed: l.round.number, Result: result, RemainingEvents: left, CompletedAt: timeOrNil(now)}
	}
	l.round.active = false
}

func ending(result healthapi.FlushResult, left int64) string {
	if result == healthapi.FlushDrained {
		return "everything that waited was delivered"
	}
	return fmt.Sprintf("%d events could not be delivered and stay safe in the spool", left)
}

// stop begins the last round. A flush under way is part of it.
func (l *loop) stop(now time.Time) {
	l.stopping = true
	l.begin(l.requested.Load(), l.cfg.StopTimeout, now)
}

// finish gives up what is under way, waits for it to return, and syncs the acks.
func (l *loop) finish(cancel context.CancelFunc, helpers *sync.WaitGroup) error {
	late := time.NewTimer(2 * grace)
	defer late.Stop()
	outlets := append([]*outlet{l.out}, l.leaving...)
	if l.probing != nil {
		outlets = append(outlets, l.probing)
	}
	for _, o := range outlets {
		o.abort()
	}
	for waiting := true; waiting && (l.under.busy != nil || slices.ContainsFunc(outlets, func(o *outlet) bool { return o.inFlight > 0 })); {
		select {
		case a := <-l.results:
			l.settle(a, time.Now())
		case err := <-l.buried:
			l.mourn(err, time.Now())
		case <-late.C:
			waiting = false
		}
	}
	close(l.gone)
	cancel()
	helpers.Wait()
	l.publish(time.Now())
	if err := l.queue.Sync(); err != nil {
		return fmt.Errorf("sync acks of the %s lane: %w", l.lane, err)
	}
	return nil
}

func (l *loop) publish(now time.Time) {
	inFlight := l.out.inFlight
	if l.probing != nil {
		inFlight += l.probing.inFlight
	}
	l.account.publish(snapshot{
		circuit: l.circuit.word(l.out.inFlight, now), inFlight: inFlight, held: l.held.count, bytes: l.held.bytes, parked: l.parked,
		rate: l.pacer.rate, flush: l.completed, probe: l.prober.report(now), note: l.prober.note(),
	})
}

// same says whether two sinks are one.
func same(a, b sink.Sink) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}
