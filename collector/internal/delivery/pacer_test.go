package delivery

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
)

// shard takes perSecond records a second, with a second's worth in hand at most,
// and throttles the rest, as a stream does. Used as a Fake's behaviour.
type shard struct {
	mu        sync.Mutex
	perSecond float64
	tokens    float64
	at        time.Time
	offered   int
	throttled int
}

func (s *shard) step(_ int, records []sink.Record) sinktest.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.at.IsZero() {
		s.tokens = s.perSecond
	} else {
		s.tokens = min(s.perSecond, s.tokens+s.perSecond*now.Sub(s.at).Seconds())
	}
	s.at = now
	taken := int(math.Min(s.tokens, float64(len(records))))
	s.tokens -= float64(taken)
	s.offered += len(records)
	s.throttled += len(records) - taken
	step := sinktest.FailSome(sink.Throttled, sinktest.Over(), func(i int, _ sink.Record) bool { return i >= taken })
	step.Takes = 15 * time.Millisecond
	return step
}

// figures returns what was offered and throttled so far.
func (s *shard) figures() (offered, throttled float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.offered), float64(s.throttled)
}

// set changes the rate.
func (s *shard) set(perSecond float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.perSecond = perSecond
}

// A stream of 1,000 records a second, with a backlog and nothing but it, is used
// nearly fully, and of what is sent hardly anything is throttled.
func TestForwarder_settlesAtTheRateOfTheStream(t *testing.T) {
	for _, rate := range []float64{50, 1000, 5000} {
		synctest.Test(t, func(t *testing.T) {
			l := build(t, setup{limits: sink.Limits{MaxRecords: 500, MaxBytes: 5 << 20, Linger: 10 * time.Millisecond, InFlight: 8}})
			s := &shard{perSecond: rate}
			l.sink.Otherwise(s.step)
			total := int(rate * 65)
			l.queue.add(total, 10)
			l.run()
			after(5 * time.Second) // the rate is not known at first
			began, rest := time.Now(), total-len(l.sink.Written())
			offered0, throttled0 := s.figures()
			l.queue.waitAcked(total)
			took, seconds := time.Since(began).Seconds(), float64(rest)/rate
			if used := seconds / took; used < 0.85 {
				t.Errorf("at %v records a second %.0f %% of the rate was used", rate, 100*used)
			}
			offered, throttled := s.figures()
			if share := (throttled - throttled0) / (offered - offered0); share > 0.05 {
				t.Errorf("at %v records a second %.1f %% of what was sent was throttled", rate, 100*share)
			}
			l.writtenOnce(total)
		})
	}
}

// Under ten times what the stream takes, requests do not multiply: each record is
// sent less than twice.
func TestForwarder_doesNotAmplifyUnderThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{limits: sink.Limits{MaxRecords: 500, MaxBytes: 5 << 20, Linger: 10 * time.Millisecond, InFlight: 8}})
		s := &shard{perSecond: 100}
		l.sink.Otherwise(s.step)
		l.run()
		for range 600 {
			l.queue.add(1000, 10)
			after(time.Second)
		}
		written := len(l.sink.Written())
		if written < 50_000 {
			t.Errorf("%d records written in ten minutes at 100 a second", written)
		}
		if offered, _ := s.figures(); offered/float64(written) > 1.1 {
			t.Errorf("each written record was sent %.2f times", offered/float64(written))
		}
	})
}

// When the stream is given twice or half the room, delivery follows.
func TestForwarder_followsAChangingRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{limits: sink.Limits{MaxRecords: 500, MaxBytes: 5 << 20, Linger: 10 * time.Millisecond, InFlight: 8}})
		s := &shard{perSecond: 1000}
		l.sink.Otherwise(s.step)
		l.queue.add(1_000_000, 1)
		l.run()
		measure := func(long time.Duration) (perSecond, throttled float64) {
			before := len(l.sink.Written())
			offered0, throttled0 := s.figures()
			after(long)
			offered, throttled := s.figures()
			return float64(len(l.sink.Written())-before) / long.Seconds(), (throttled - throttled0) / (offered - offered0)
		}
		after(30 * time.Second)
		for _, rate := range []float64{2000, 1000, 300, 3000} {
			s.set(rate)
			after(time.Minute)
			got, throttled := measure(30 * time.Second)
			if got < 0.8*rate || throttled > 0.05 {
				t.Errorf("a minute after the stream changed to %v/s it is used at %.0f/s, %.1f %% throttled", rate, got, 100*throttled)
			}
		}
	})
}

func TestTally_lastSecond(t *testing.T) {
	var c tally
	start := time.Unix(0, 0)
	for i := range 50 { // ten a second, for five seconds
		c.add(1, start.Add(time.Duration(i)*100*time.Millisecond))
	}
	last := start.Add(4900 * time.Millisecond)
	for _, step := range []struct {
		later time.Duration
		want  float64
	}{{0, 10}, {500 * time.Millisecond, 5}, {time.Second, 0}, {time.Hour, 0}} {
		if got := c.lastSecond(last.Add(step.later)); math.Abs(got-step.want) > 1 {
			t.Errorf("%v after the last: %v, want about %v", step.later, got, step.want)
		}
	}
}
