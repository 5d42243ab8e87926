// Package admission decides whether a request may come in. There is room or
// there is not: when events pile up on disk because nothing takes them, it is
// kinder to say 503 while the tracker still holds its events than to accept what
// cannot be kept.
//
// The gate stands in one of three levels. Accepting takes everything. Shedding
// refuses POSTs, whose trackers keep their events and try again, and still takes
// pixels, which nobody repeats. Refusing takes nothing. It climbs the moment a
// limit is reached and comes down only when the load has fallen well below it
// (accept_again_at) and some time has passed (min_dwell), so that it does not
// flap. Why it stands where it stands is always there in words.
package admission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
)

// Kind is what asks to come in.
type Kind uint8

// The kinds of request that carry events.
const (
	Post  Kind = iota // the tracker keeps its events and repeats a refused request
	Pixel             // a refused GET is lost: refused last
)

// Level is how far the gate is shut.
type Level int32

// The levels, in rising order of refusal.
const (
	Accepting Level = iota
	Shedding        // POSTs refused, pixels taken
	Refusing        // everything refused
)

// String returns the level in the word used for metrics and logs.
func (l Level) String() string {
	switch l {
	case Accepting:
		return "accepting"
	case Shedding:
		return "shedding"
	}
	return "refusing"
}

// interval is how often the load is looked at.
const interval = 50 * time.Millisecond

// verdict is what Admit answers until the next look at the load.
type verdict struct {
	level Level
	short string // to the tracker; a fixed phrase, safe as a metric label
}

// Gate admits or refuses requests. Admit may be called from any number of
// goroutines; it costs one atomic load and no allocation.
type Gate struct {
	cfg     Config
	probe   func() Load
	log     *logrus.Entry
	metrics *metrics
	wake    chan struct{}

	current atomic.Pointer[verdict]

	mu       sync.Mutex // guards what follows
	level    Level      // what the load alone says
	changed  time.Time  // when level last changed
	reason   string     // why level is not accepting, in a sentence
	short    string
	override string    // reason given to Refuse; empty when there is none
	full     string    // last hint that an append failed for room
	fullAt   time.Time // when it came
	since    time.Time // when the level in force last changed
}

// New returns a gate that accepts until the first look at the load. probe is
// called about every 50 ms by Run; it must be quick and must not do I/O.
// registerer may be nil.
func New(cfg Config, probe func() Load, log *logrus.Entry, registerer prometheus.Registerer) *Gate {
	now := time.Now()
	g := &Gate{cfg: cfg, probe: probe, log: log, metrics: newMetrics(registerer), wake: make(chan struct{}, 1), changed: now, since: now}
	g.current.Store(&verdict{})
	return g
}

// Run looks at the load until ctx ends. Before it runs the gate stays as it is.
func (g *Gate) Run(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		g.look()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-g.wake:
		}
	}
}

// Admit says whether a request of this kind may come in. If not, reason is a
// short phrase from a small fixed set (or what Refuse was given), fit for a
// response body and a metric label, and retryAfter is what the tracker should
// wait, differing from call to call.
func (g *Gate) Admit(kind Kind) (ok bool, reason string, retryAfter time.Duration) {
	v := g.current.Load()
	if v.level == Accepting || v.level == Shedding && kind == Pixel {
		return true, "", 0
	}
	return false, v.short, g.RetryAfter()
}

// RetryAfter returns what a tracker refused now should wait: the configured
// time give or take half, at least one second.
func (g *Gate) RetryAfter() time.Duration {
	base := g.cfg.RetryAfter
	return max(time.Second, base/2+time.Duration(rand.Int64N(int64(base)+1)))
}

// Full tells the gate that an append has just failed for want of room, and why.
// Everything is refused at once, without waiting for the next look at the load,
// and for min_dwell at least; then, if no measured limit says otherwise, requests
// are let in again to find out.
func (g *Gate) Full(why string) {
	g.mu.Lock()
	g.full, g.fullAt = why, time.Now()
	g.metrics.full.Inc()
	shut := g.level == Refusing
	g.mu.Unlock()
	if shut {
		return
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Refuse shuts the gate to everything, whatever the load, until Resume: while
// starting, stopping, or draining for a person. reason is told to trackers and in
// the health report.
func (g *Gate) Refuse(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.override == "" {
		g.log.WithField("reason", reason).Info("refusing all requests: " + reason)
	}
	g.override = reason
	g.publish()
}

// Resume ends Refuse: from here on the load decides again.
func (g *Gate) Resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.override == "" {
		return
	}
	g.log.WithField("reason", g.override).Infof("no longer refusing all requests for: %s; now %s", g.override, g.level)
	g.override = ""
	g.publish()
}

// State is where the gate stands, for the health report.
type State struct {
	Level           Level
	Accepting       bool      // POSTs are taken
	AcceptingPixels bool      // pixels are taken
	Reason          string    // why not, in a sentence; empty when accepting
	Since           time.Time // when Level last changed
}

// State returns where the gate stands. It is safe for concurrent use.
func (g *Gate) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	level, reason := g.level, g.reason
	if g.override != "" {
		level, reason = Refusing, g.override
	}
	return State{Level: level, Accepting: level == Accepting, AcceptingPixels: level != Refusing, Reason: reason, Since: g.since}
}

// look asks for the load and moves the level if it must.
func (g *Gate) look() {
	load, now := g.probe(), time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	pressures := g.cfg.pressures(load)
	if recent := g.full != "" && now.Sub(g.fullAt) < max(g.cfg.MinDwell, interval); recent {
		pressures = append(pressures, pressure{"full", g.cfg.PixelsAt, "the spool is full", func() string { return "the spool is full: " + g.full }})
	} else {
		g.full = ""
	}
	g.metrics.observe(pressures)

	to, why := g.next(pressures, now)
	switch {
	case to == Accepting:
		g.reason, g.short = "", ""
	case why.limit != "": // else only the dwell keeps it shut: the reason stays what it was
		g.reason = fmt.Sprintf("%s (%s; taken again below %.3g of it)", why.detail(), why.limit, g.cfg.AcceptAgainAt)
		g.short = why.short
	}
	if to != g.level {
		g.announce(g.level, to, now)
		g.level, g.changed = to, now
		g.metrics.transitions.WithLabelValues(to.String()).Inc()
	}
	g.publish()
}

// next returns the level that the pressures call for, and the pressure that
// holds it there, which is empty when only the dwell does. Climbing is immediate; coming down wants the dwell to be over
// and every pressure below accept_again_at of the mark that was passed.
func (g *Gate) next(pressures []pressure, now time.Time) (Level, pressure) {
	var worst pressure
	for _, p := range pressures {
		if p.ratio > worst.ratio {
			worst = p
		}
	}
	marks := [...]float64{Shedding: 1, Refusing: g.cfg.PixelsAt}
	dwelt := now.Sub(g.changed) >= g.cfg.MinDwell
	for level := Refusing; level > Accepting; level-- {
		mark := marks[level]
		if level <= g.level {
			mark *= g.cfg.AcceptAgainAt // already this far shut: harder to open than it was to shut
		}
		if worst.ratio >= mark {
			return level, worst
		}
		if level == g.level && !dwelt {
			return level, pressure{}
		}
	}
	return Accepting, worst
}

// announce says in a sentence what changes for trackers, and why.
func (g *Gate) announce(from, to Level, now time.Time) {
	entry := g.log.WithFields(logrus.Fields{"from": from.String(), "to": to.String()})
	switch {
	case to == Accepting:
		entry.Infof("accepting all requests again after %s of %s", now.Sub(g.changed).Round(time.Second), from)
	case to == Shedding && from == Refusing:
		entry.Warnf("taking pixels again; POSTs are still answered 503: %s", g.reason)
	case to == Shedding:
		entry.Warnf("answering POSTs 503, pixels are still taken: %s", g.reason)
	default:
		entry.Warnf("answering all requests 503: %s", g.reason)
	}
}

// publish makes the level in force what Admit sees. The caller holds mu.
func (g *Gate) publish() {
	v := verdict{g.level, g.short}
	if g.override != "" {
		v = verdict{Refusing, g.override}
	}
	old := g.current.Load()
	if *old == v {
		return
	}
	if old.level != v.level {
		g.since = time.Now()
	}
	g.current.Store(&v)
	g.metrics.level.Set(float64(v.level))
}

// String says where the gate stands, for logs.
func (s State) String() string {
	if s.Reason == "" {
		return s.Level.String()
	}
	return fmt.Sprintf("%s: %s", s.Level, s.Reason)
}
