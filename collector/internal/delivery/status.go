package delivery

import (
	"math"
	"sync"
	"time"

	"spillway/collector/internal/sink"
	"spillway/shared/healthapi"
)

// Status is a lane's delivery as it stands, ready for the health report.
type Status struct {
	Sink    healthapi.Sink     // the sink in use
	Primary *healthapi.Kinesis // nil unless Options.Primary was given; Stream is the caller's to fill in
	Probe   string             // what there is to say of the probe in words; may be empty
	Flush   healthapi.Flush

	WrittenTotal     uint64 // records acknowledged by a sink
	DeadLettersTotal uint64 // records stored as dead letters instead
	ThrottledTotal   uint64 // times a record was throttled
	FailedTotal      uint64 // times a record was not written for another reason that may pass

	InFlight       int     // writes under way
	HeldRecords    int     // in memory, in writes too
	HeldBytes      int64   // what they take up
	ParkedRecords  int     // cannot be delivered nor stored as dead letters; a restart tries again
	RateLimit      float64 // records per second the sink is asked for at most; 0 is no limit
	DrainPerSecond float64 // records leaving the backlog, over about 10 s
	OutageFor      time.Duration
	BeatAge        time.Duration // since the loop last made progress
}

// account is what the loop tells the world. It is safe for concurrent use.
type account struct {
	mu          sync.Mutex // guards what follows
	info        sink.Info
	lastWriteAt time.Time
	failingAt   time.Time // first of the whole failures in a row; zero if the last write did not fail
	failures    int64
	lastError   string
	class       sink.Cause
	leaving     average
	now         snapshot
	totals      totals
}

// snapshot is what the loop publishes after each step.
type snapshot struct {
	circuit  string
	inFlight int
	held     int
	bytes    int64
	parked   int
	rate     float64
	flush    healthapi.Flush
	probe    healthapi.Probe
	note     string
}

type totals struct{ written, deadLetters, throttled, failed uint64 }

func newAccount(route Route, primary *Primary) *account {
	a := &account{now: snapshot{circuit: "closed"}}
	a.route(route)
	if primary != nil && route.Primary {
		a.failingAt, _ = primary.OutageSince()
	}
	return a
}

// route begins the account of another sink.
func (a *account) route(r Route) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.info = r.Sink.Info()
	a.lastWriteAt, a.failingAt, a.failures, a.lastError, a.class = time.Time{}, time.Time{}, 0, "", ""
}

// count adds what came of an attempt, whichever sink it was made at.
func (a *account) count(v verdict, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.totals.written += uint64(len(v.written))
	a.totals.throttled += uint64(len(v.throttled))
	a.totals.failed += uint64(len(v.failed))
	a.leaving.add(len(v.written), now)
}

// buried adds records stored as dead letters.
func (a *account) buried(n int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.totals.deadLetters += uint64(n)
	a.leaving.add(n, now)
}

// learn takes note of an attempt at the sink in use. It returns for how long and
// how often writes had been failing if this one ended that.
func (a *account) learn(v verdict, now time.Time) (failedFor time.Duration, failures int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(v.written) > 0 {
		a.lastWriteAt = now
	}
	switch {
	case v.fault != nil:
		a.lastError, a.class = v.fault.Error(), v.fault.Cause
	case v.throttle != nil:
		a.lastError, a.class = v.throttle.Error(), sink.CauseThrottled
	default:
		a.class = ""
	}
	if v.whole() {
		if a.failingAt.IsZero() {
			a.failingAt = now
		}
		a.failures++
		return 0, 0
	}
	failures = a.failures
	if !a.failingAt.IsZero() {
		failedFor = now.Sub(a.failingAt)
	}
	a.failures, a.failingAt = 0, time.Time{}
	return failedFor, failures
}

func (a *account) publish(s snapshot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = s
}

// Status returns how delivery stands, from memory but for one call of
// Queue.Backlog.
func (f *Forwarder) Status() Status {
	s := f.account.status(time.Now())
	s.Flush.Requested = f.requested.Load()
	s.OutageFor = f.OutageFor()
	s.BeatAge = max(0, time.Since(*f.beatAt.Load()))
	if f.primary != nil {
		k := f.primary.Report()
		k.Probe = f.account.probe()
		s.Primary = &k
	}
	return s
}

// FlushStatus returns how far the flushes asked for have got.
func (f *Forwarder) FlushStatus() healthapi.Flush {
	f.account.mu.Lock()
	flush := f.account.now.flush
	f.account.mu.Unlock()
	flush.Requested = f.requested.Load()
	return flush
}

// OutageFor returns how long the sink in use has failed every write while records
// wait; zero if none waits or the last write did not fail. Throttling is no
// outage. At the primary an outage goes on through a restart.
func (f *Forwarder) OutageFor() time.Duration {
	f.account.mu.Lock()
	since := f.account.failingAt
	f.account.mu.Unlock()
	if since.IsZero() || f.queue.Backlog() == 0 {
		return 0
	}
	return max(0, time.Since(since))
}

func (a *account) probe() healthapi.Probe {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now.probe
}

func (a *account) status(now time.Time) Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Status{
		Sink: healthapi.Sink{
			Type: a.info.Type, Target: a.info.Target, LastWriteAt: timeOrNil(a.lastWriteAt), LastWriteAgeSeconds: ageOrNil(a.lastWriteAt),
			LastError: a.lastError, ErrorClass: string(a.class), ConsecutiveFailures: a.failures, Circuit: a.now.circuit,
		},
		Probe: a.now.note, Flush: a.now.flush,
		WrittenTotal: a.totals.written, DeadLettersTotal: a.totals.deadLetters, ThrottledTotal: a.totals.throttled, FailedTotal: a.totals.failed,
		InFlight: a.now.inFlight, HeldRecords: a.now.held, HeldBytes: a.now.bytes, ParkedRecords: a.now.parked,
		RateLimit: a.now.rate, DrainPerSecond: a.leaving.perSecond(now),
	}
}

// average is a rate per second that forgets with a time constant of 10 s.
type average struct {
	rate float64
	at   time.Time
}

const forget = 10.0

func (a *average) add(n int, now time.Time) {
	a.rate = a.perSecond(now) + float64(n)/forget
	a.at = now
}

func (a *average) perSecond(now time.Time) float64 {
	if a.at.IsZero() {
		return 0
	}
	return a.rate * math.Exp(-max(0, now.Sub(a.at).Seconds())/forget)
}
