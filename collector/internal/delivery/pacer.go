package delivery

import (
	"math"
	"time"
)

const (
	// cutTo is what is left of the rate when the destination throttles.
	cutTo = 0.9
	// leastRate, in records per second, is what a destination is asked for that
	// throttles everything.
	leastRate = 1
	// slice is how much of a second's records one batch may carry while the rate
	// is limited: a batch sent at once must not be a burst.
	slice = 0.1
)

// pacer finds the rate at which a destination takes records without throttling:
// additive increase, multiplicative decrease. It does nothing until a record is
// throttled for the first time; from then on it spaces the writes.
type pacer struct {
	rate    float64   // records per second; 0 is not limited
	proven  float64   // below this rate growth is fast
	cutAt   time.Time // when the rate was last cut
	grownAt time.Time // up to when growth is accounted for
	held    bool      // the rate has made a write wait since grownAt
	nextAt  time.Time // earliest start of the next write
	taken   tally     // records accepted lately
}

// throttled cuts the rate, unless the write began before the last cut and so says
// nothing about the present rate.
func (p *pacer) throttled(startedAt, now time.Time) {
	if startedAt.Before(p.cutAt) {
		return
	}
	lately := p.taken.lastSecond(now)
	if p.rate == 0 {
		p.rate, p.proven = max(leastRate, cutTo*lately), math.Inf(1)
	} else {
		// What was taken tells better than the rate where the limit is, but with
		// little to send it would tell too low: never below half at once.
		p.rate = max(leastRate, cutTo*min(p.rate, max(lately, p.rate/2)))
	}
	if lately > 0 {
		p.proven = p.rate
	}
	p.cutAt, p.grownAt, p.held = now, now, false
	p.nextAt = now.Add(p.spacing(p.batch(math.MaxInt)))
}

// accepted counts n records that were taken, and lets the rate grow if it was
// what held writes back.
func (p *pacer) accepted(n int, now time.Time) {
	p.taken.add(n, now)
	if p.rate == 0 {
		return
	}
	if p.held {
		seconds := min(now.Sub(p.grownAt).Seconds(), 1)
		if p.rate < p.proven {
			p.rate = min(p.proven, p.rate*math.Exp2(seconds))
		} else {
			p.rate += p.rate * growth(now.Sub(p.cutAt)) * seconds
		}
	}
	p.grownAt, p.held = now, false
}

// growth is how much of the rate is added per second: cautious near the limit
// that was met last, bolder when it seems to have gone.
func growth(quiet time.Duration) float64 {
	switch {
	case quiet < 10*time.Second:
		return 0.02
	case quiet < 30*time.Second:
		return 0.05
	}
	return 0.10
}

// batch returns how many records, at most most, a write may carry now.
func (p *pacer) batch(most int) int {
	if p.rate == 0 {
		return most
	}
	return int(min(float64(most), max(1, p.rate*slice)))
}

// ready says whether a write may begin now.
func (p *pacer) ready(now time.Time) bool {
	if p.rate == 0 || !now.Before(p.nextAt) {
		return true
	}
	p.held = true
	return false
}

// started accounts for a write of n records that begins now.
func (p *pacer) started(n int, now time.Time) {
	if p.rate == 0 {
		return
	}
	if p.nextAt.Before(now) {
		p.nextAt = now
	}
	p.nextAt = p.nextAt.Add(p.spacing(n))
}

func (p *pacer) spacing(n int) time.Duration {
	return time.Duration(float64(n) / p.rate * float64(time.Second))
}

// tally counts events over the last second in tenths.
type tally struct {
	counts [11]int
	tenth  int64 // number of the tenth that counts[tenth%11] belongs to
	origin time.Time
}

func (t *tally) add(n int, now time.Time) {
	t.advance(now)
	t.counts[t.tenth%int64(len(t.counts))] += n
}

// lastSecond returns how many were counted in the last second, give or take a
// tenth.
func (t *tally) lastSecond(now time.Time) float64 {
	t.advance(now)
	sum := 0
	for i, n := range t.counts {
		if int64(i) != (t.tenth+1)%int64(len(t.counts)) { // the oldest tenth
			sum += n
		}
	}
	return float64(sum)
}

func (t *tally) advance(now time.Time) {
	if t.origin.IsZero() {
		t.origin = now
	}
	to := int64(now.Sub(t.origin) / (100 * time.Millisecond))
	for steps := min(to-t.tenth, int64(len(t.counts))); steps > 0; steps-- {
		t.counts[(to-steps+1)%int64(len(t.counts))] = 0
	}
	t.tenth = max(t.tenth, to)
}
