package delivery

import (
	"time"

	"spillway/shared/healthapi"
)

// prober decides when the primary is tried, and with how many records. Level 1
// asks seldom, level 2 more often after several good answers in a row, level 3
// sends a share of what comes in. A probe is good when every record was written,
// none throttled, before the deadline. One bad probe leads back to level 1. The
// loop owns it; a probe is never begun while another is under way.
type prober struct {
	cfg       ProbeConfig
	level     int // 0: not probing
	good      int // in a row
	levelAt   time.Time
	dueAt     time.Time
	lastAt    time.Time
	lastOKAt  time.Time
	okSince   time.Time
	lastBad   string // why the last bad one was bad; empty after a good one
	starved   bool   // due, but no record to send
	shards    int    // touched by the last probe
	allShards int    // most shards ever touched
}

// begin starts over at level 1: the first probe is due at once.
func (p *prober) begin(cfg ProbeConfig, now time.Time) {
	*p = prober{cfg: cfg, level: 1, levelAt: now, dueAt: now}
}

// end stops probing.
func (p *prober) end() { *p = prober{cfg: p.cfg} }

// due says whether a probe should begin now.
func (p *prober) due(now time.Time) bool { return p.level > 0 && !now.Before(p.dueAt) }

// size returns how many records the probe should have, given how many come in per
// second.
func (p *prober) size(perSecond float64) int {
	if p.level == 3 {
		return max(1, int(perSecond*p.cfg.Level3Share*p.cfg.Level3Every.Seconds()))
	}
	// Twice as many as shards, so that one sick shard among many is met.
	return max(p.cfg.Records, 2*p.allShards)
}

// began notes that a probe was sent.
func (p *prober) began(now time.Time) {
	p.lastAt, p.starved = now, false
	p.dueAt = now.Add(p.every())
}

func (p *prober) every() time.Duration {
	switch p.level {
	case 1:
		return p.cfg.Every
	case 2:
		return p.cfg.Level2Every
	}
	return p.cfg.Level3Every
}

// wasGood notes that the probe that began last was good.
func (p *prober) wasGood(shards int, now time.Time) {
	p.lastOKAt, p.lastBad = now, ""
	p.shards, p.allShards = shards, max(p.allShards, shards)
	if p.okSince.IsZero() {
		p.okSince = now
	}
	p.good++
	switch {
	case p.level == 1 && p.good >= p.cfg.Good:
		p.level, p.levelAt = 2, now
	case p.level == 2 && now.Sub(p.levelAt) >= p.cfg.Level2For:
		p.level, p.levelAt = 3, now
	}
	p.dueAt = p.lastAt.Add(p.every())
}

// wasBad notes that the probe that began last was not good.
func (p *prober) wasBad(why string, now time.Time) {
	if p.level != 1 {
		p.level, p.levelAt = 1, now
	}
	p.good, p.okSince, p.lastBad = 0, time.Time{}, why
	p.dueAt = p.lastAt.Add(p.every())
}

// report is the state for the health report. ok_since counts as evidence only as
// far as probes reach: with no traffic there are none, and ok_for stands still
// two intervals after the last.
func (p *prober) report(now time.Time) healthapi.Probe {
	r := healthapi.Probe{Level: p.level, LastAt: timeOrNil(p.lastAt), LastOKAt: timeOrNil(p.lastOKAt), OKSince: timeOrNil(p.okSince), ShardsTouched: p.shards}
	if !p.okSince.IsZero() {
		known := min(now.Sub(p.okSince), p.lastOKAt.Sub(p.okSince)+2*p.every()).Seconds()
		r.OKForSeconds = &known
	}
	return r
}

// note says in words what the levels do not.
func (p *prober) note() string {
	switch {
	case p.level == 0:
		return ""
	case p.starved:
		return "a probe of the primary is due, but no record waits to be sent with it"
	case p.lastBad != "":
		return "the last probe of the primary was bad: " + p.lastBad
	}
	return ""
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
