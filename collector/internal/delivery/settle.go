package delivery

import (
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
)

// settle does with each record of an attempt what its outcome calls for.
func (l *loop) settle(a *attempt, now time.Time) {
	switch {
	case a.returned:
		a.outlet.abandoned--
		l.release(a)
		return
	case a.abandoned:
		a.outlet.abandoned++
	default:
		l.release(a)
	}

	v := a.verdict()
	for _, it := range a.items {
		it.tries++
		l.round.attempted(it, l.roundID)
	}
	l.ack(v.written)
	for _, it := range v.condemned {
		l.under.condemn(l.lane, it, v.reasons[it], now)
	}
	l.account.count(v, now)
	l.metrics.observe(a, v)
	l.tellPrimary(a, v, now)

	switch {
	case a.probe:
		l.judge(a, v, now)
		fallthrough
	case a.outlet != l.out:
		// The sink in use has not tried these: at once, in batches of its own.
		l.held.retry(&parcel{items: append(v.throttled, v.failed...), dueAt: now})
	default:
		l.learn(a, v, now)
	}
}

// release frees the slot of a write that has returned.
func (l *loop) release(a *attempt) {
	o := a.outlet
	o.inFlight--
	if a.generation < o.generation {
		o.stale--
	}
	if o.stale == 0 {
		for _, d := range o.waiting {
			if d.outlets--; d.outlets == 0 {
				close(d.done)
			}
		}
		o.waiting = nil
	}
	l.forgetLeft()
}

// ack lets go of items that are safe elsewhere.
func (l *loop) ack(items []*item) {
	if len(items) == 0 {
		return
	}
	seqs := make([]uint64, len(items))
	for i, it := range items {
		seqs[i] = it.Seq
		l.held.drop(it)
		l.round.acked(it)
	}
	l.queue.Ack(seqs...)
}

// learn draws the conclusions from a write to the sink in use, and keeps what is
// to be tried again.
func (l *loop) learn(a *attempt, v verdict, now time.Time) {
	failedFor, failures := l.account.learn(v, now)
	if v.whole() {
		l.circuit.failed(a.startedAt, now)
		l.window = max(1, l.window/2)
		if l.round.active && !a.startedAt.Before(l.round.begunAt) {
			l.round.failed = true
		}
		l.tellFault(v, now)
		l.keepWhole(a, now)
		return
	}
	l.circuit.answered()
	l.answeredAt = now
	if l.fault != "" {
		l.log.WithFields(logrus.Fields{"failed_writes": failures, "for": failedFor.Round(time.Millisecond).String()}).
			Infof("%s takes writes again after %s and %d failed writes", l.name(), failedFor.Round(time.Second), failures)
		l.fault = ""
	}
	if len(v.written) > 0 {
		l.round.written = true
		l.window = min(2*l.window, l.out.limits.InFlight)
		l.pacer.accepted(len(v.written), now)
	}
	if len(v.throttled) > 0 {
		l.pacer.throttled(a.startedAt, now)
		l.tellThrottle(v, now)
		// The pacer holds them back; the wait only spreads them.
		l.keep(v.throttled, min(l.cfg.MaxBackoff, maxThrottleWait), now)
	}
	l.keep(v.failed, l.cfg.MaxBackoff, now)
}

// maxThrottleWait bounds the wait of a throttled record.
const maxThrottleWait = 2 * time.Second

// keep holds single records of a batch until they are tried again.
func (l *loop) keep(items []*item, longest time.Duration, now time.Time) {
	if len(items) > 0 {
		l.held.retry(&parcel{items: items, dueAt: now.Add(backoff(l.cfg.MinBackoff, longest, tries(items)))})
	}
}

// keepWhole holds a batch that failed as one, to be sent again as it was. If it
// has failed before, and other writes got an answer in between, the fault may lie
// in one of its records: it is halved, time after time until that one is alone
// and holds up nothing but itself.
func (l *loop) keepWhole(a *attempt, now time.Time) {
	dueAt := now.Add(backoff(l.cfg.MinBackoff, l.cfg.MaxBackoff, tries(a.items)))
	if dueAt.Before(l.circuit.pauseTill) {
		dueAt = l.circuit.pauseTill
	}
	halves := [][]*item{a.items}
	if p := a.parcel; p != nil && len(a.items) > 1 && l.answeredAt.After(p.failedAt) {
		middle := len(a.items) / 2
		for _, it := range a.items {
			it.tries = 0 // the search must not take a back-off for each step
		}
		dueAt = now.Add(l.cfg.MinBackoff)
		halves = [][]*item{a.items[:middle:middle], a.items[middle:]}
	}
	for _, items := range halves {
		l.held.retry(&parcel{items: items, dueAt: dueAt, whole: true, failedAt: now})
	}
}

func tries(items []*item) int {
	most := 1
	for _, it := range items {
		most = max(most, it.tries)
	}
	return most
}

// judge takes note of a probe.
func (l *loop) judge(a *attempt, v verdict, now time.Time) {
	if a.outlet != l.probing {
		return // the route has changed since
	}
	took := a.endedAt.Sub(a.startedAt)
	why := ""
	switch {
	case v.fault != nil:
		why = v.fault.Error()
	case v.throttle != nil:
		why = v.throttle.Error()
	case took >= a.timeout:
		why = fmt.Sprintf("it took %s and may take %s", took.Round(time.Millisecond), a.timeout)
	}
	if why == "" && len(v.written) > 0 {
		l.metrics.probes.WithLabelValues("good").Inc()
		l.prober.wasGood(touched(a), now)
		return
	}
	if why == "" { // nothing but records that can never be written: says nothing
		return
	}
	l.metrics.probes.WithLabelValues("bad").Inc()
	if l.prober.lastBad != why {
		l.log.Infof("a probe of the primary was bad: %s", why)
	}
	l.prober.wasBad(why, now)
}

// touched returns how many shards took records of this probe, if the sink knows.
func touched(a *attempt) int {
	if s, ok := a.outlet.sink.(interface{ ShardsTouched(since time.Time) int }); ok {
		return s.ShardsTouched(a.startedAt)
	}
	return 0
}

// tellPrimary passes on what a write to the primary showed.
func (l *loop) tellPrimary(a *attempt, v verdict, now time.Time) {
	switch {
	case l.primary == nil || !a.outlet.primary:
	case len(v.written) > 0:
		l.primary.wrote(now)
	case v.throttle != nil:
		l.primary.throttled(v.throttle, now)
	case v.whole():
		l.primary.failed(v.fault, now)
	}
}

// tellFault logs a fault of the sink in use if it differs from the last.
func (l *loop) tellFault(v verdict, _ time.Time) {
	kind := string(v.fault.Cause) + " " + v.fault.Code
	if kind == l.fault {
		return
	}
	l.fault = kind
	l.log.WithFields(logrus.Fields{"cause": v.fault.Cause, "code": v.fault.Code}).
		Warnf("%s takes no writes: %s; events wait on disk and are tried again until it does", l.name(), v.fault)
}

// tellThrottle logs throttling when it begins after a quiet time.
func (l *loop) tellThrottle(v verdict, now time.Time) {
	if l.throttledAt.IsZero() || now.Sub(l.throttledAt) > 5*time.Minute {
		l.log.Warnf("%s throttles: %s; sending more slowly, %.0f records a second for now", l.name(), v.throttle, l.pacer.rate)
	}
	l.throttledAt = now
}

func (l *loop) name() string {
	info := l.out.sink.Info()
	return info.Type + " " + info.Target
}

// mourn settles an attempt to store dead letters.
func (l *loop) mourn(err error, now time.Time) {
	safe := l.under.settled(err, l.cfg, now)
	l.ack(safe)
	l.account.buried(len(safe), now)
	if err == nil {
		if l.buryError != "" {
			l.log.Info("records that can never be delivered are stored as dead letters again")
			l.buryError = ""
		}
		return
	}
	l.metrics.burials.Inc()
	if l.buryError == "" {
		l.log.WithError(err).Error("records that can never be delivered cannot be stored as dead letters; they stay in the spool, the others go on")
	}
	l.buryError = err.Error()
}

// park lets go of items without acking them.
func (l *loop) park(items []*item) {
	if len(items) == 0 {
		return
	}
	for _, it := range items {
		l.held.drop(it)
	}
	if l.parked == 0 {
		l.log.Error("too many records can neither be delivered nor stored as dead letters: some are let go of from memory; they stay in the spool and are tried again after a restart")
	}
	l.parked += len(items)
}
