package delivery

import "time"

// circuit watches one destination. While writes succeed it is closed. When they
// fail as a whole, several in a row or for some time, it trips: then one write at
// a time asks, after a wait that grows to MaxBackoff, and the first answer that
// is not a fault of the destination closes it. A throttled write is an answer.
type circuit struct {
	cfg       Config
	failures  int       // whole failures in a row
	rounds    int       // the same, writes that were under way together counted once
	failingAt time.Time // when the first of them was seen
	countedAt time.Time // when the last round was counted
	tripped   bool
	pauseTill time.Time // no write begins before
}

// failed notes that a write begun at startedAt failed as a whole.
func (c *circuit) failed(startedAt, now time.Time) {
	c.failures++
	if c.failures == 1 {
		c.failingAt = now
	}
	if c.failures == 1 || !startedAt.Before(c.countedAt) {
		c.rounds++
		c.countedAt = now
		c.pauseTill = now.Add(backoff(c.cfg.MinBackoff, c.cfg.MaxBackoff, c.rounds))
	}
	if c.failures >= c.cfg.Circuit.Failures || c.cfg.Circuit.After > 0 && now.Sub(c.failingAt) >= c.cfg.Circuit.After {
		c.tripped = true
	}
}

// answered notes that the destination took records, or said that it wants fewer.
func (c *circuit) answered() {
	c.failures, c.rounds, c.tripped = 0, 0, false
	c.failingAt, c.countedAt, c.pauseTill = time.Time{}, time.Time{}, time.Time{}
}

// word returns the state as it stands in the health report.
func (c *circuit) word(inFlight int, now time.Time) string {
	switch {
	case !c.tripped:
		return "closed"
	case inFlight > 0 || !now.Before(c.pauseTill):
		return "half_open"
	}
	return "open"
}
