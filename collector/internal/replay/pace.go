package replay

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	// slice is how much of a second's records are lent at once while there is a
	// rate, so that they do not go out as a burst.
	slice = 0.1
	// yieldTo is what is left of the rate when the destination throttles. Live
	// delivery keeps more and grows back faster: what it takes, replay leaves.
	yieldTo = 0.5
	// leastRate, in records per second, is what replay goes down to.
	leastRate = 10
	// throttlePause is how long nothing is lent after throttling.
	throttlePause = time.Second
	// longestWait bounds one wait, since a hold may end at any time.
	longestWait = 250 * time.Millisecond
)

// Pace says how fast records are lent. It keeps to the rates it was given, and
// makes way for live traffic: when the destination throttles what is replayed it
// halves its rate and lets it grow back slowly, and while a Hold is on it lends
// nothing. One pace may serve several replays. It is safe for concurrent use, and
// a nil one never waits.
type Pace struct {
	records float64 // per second; 0 is not limited
	bytes   float64 // per second; 0 is not limited
	log     *logrus.Entry

	mu     sync.Mutex // guards what follows
	nextAt time.Time
	rate   float64   // found by throttling; 0 before the first time
	cutAt  time.Time // when the rate was last cut
	grewAt time.Time
	taken  float64 // records lent lately, forgotten with a time constant of 1 s
	sawAt  time.Time
	held   string // why nothing is lent; empty: no hold
}

// NewPace returns a pace of at most that many records and bytes per second; zero
// is no limit.
func NewPace(records, bytes float64, log *logrus.Entry) *Pace {
	return &Pace{records: records, bytes: bytes, log: log}
}

// limit returns the rate in force; 0 is none.
func (p *Pace) limit() float64 {
	switch {
	case p.rate == 0:
		return p.records
	case p.records == 0:
		return p.rate
	}
	return min(p.rate, p.records)
}

// most returns how many records may be lent at once.
func (p *Pace) most(most int) int {
	if p == nil {
		return most
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.limit(); r > 0 {
		return int(min(float64(most), max(1, r*slice)))
	}
	return most
}

// delay returns how long to wait before asking again; zero: lend now.
func (p *Pace) delay(now time.Time) time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != "" {
		return longestWait
	}
	return min(max(0, p.nextAt.Sub(now)), longestWait)
}

// lent takes note of records lent.
func (p *Pace) lent(n int, bytes int64, now time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grow(now)
	p.taken = p.lately(now) + float64(n)
	p.sawAt = now
	seconds := 0.0
	if r := p.limit(); r > 0 {
		seconds = float64(n) / r
	}
	if p.bytes > 0 {
		seconds = max(seconds, float64(bytes)/p.bytes)
	}
	if p.nextAt.Before(now) {
		p.nextAt = now
	}
	p.nextAt = p.nextAt.Add(time.Duration(seconds * float64(time.Second)))
}

func (p *Pace) lately(now time.Time) float64 {
	return p.taken * max(0, 1-now.Sub(p.sawAt).Seconds())
}

// grow lets a rate that throttling has cut recover, half as fast as live delivery
// does.
func (p *Pace) grow(now time.Time) {
	if p.rate == 0 {
		return
	}
	share := 0.05
	switch quiet := now.Sub(p.cutAt); {
	case quiet < 10*time.Second:
		share = 0.01
	case quiet < 30*time.Second:
		share = 0.025
	}
	p.rate += p.rate * share * min(1, max(0, now.Sub(p.grewAt).Seconds()))
	p.grewAt = now
}

// throttled takes note that the destination throttled a write that began at
// startedAt.
func (p *Pace) throttled(startedAt, now time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if startedAt.Before(p.cutAt) {
		return // says nothing about the present rate
	}
	before := p.limit()
	if before == 0 {
		before = max(p.lately(now), leastRate)
	}
	p.rate = max(leastRate, before*yieldTo)
	if now.Sub(p.cutAt) > time.Minute {
		p.log.Warnf("the destination throttles: replay makes way for live traffic, %.0f events a second for now", p.rate)
	}
	p.cutAt, p.grewAt = now, now
	if at := now.Add(throttlePause); p.nextAt.Before(at) {
		p.nextAt = at
	}
}

// Hold stops the lending for this reason, until it is called with an empty one.
func (p *Pace) Hold(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case why != "" && p.held == "":
		p.log.Warnf("replay waits: %s", why)
	case why == "" && p.held != "":
		p.log.Info("replay goes on")
	}
	p.held = why
}

// Held returns why nothing is lent at present; empty if something is.
func (p *Pace) Held() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
