// Package health gathers what the collector's parts know of themselves into one
// report (healthapi.Report), works out what no part can know alone (the state in
// one word, growth, time to full, drain rate) and offers every figure as a
// metric too. It answers from memory: a hung disk or destination cannot make it
// wait.
package health

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"spillway/shared/healthapi"
)

// Sources are the parts' own accounts of themselves. Each is called for every
// report; it must be quick, must not do I/O and must be safe for concurrent use.
// What a part cannot know (ages that need a rate, the state) it leaves empty.
type Sources struct {
	Intake   func() healthapi.Intake
	Backlog  func() healthapi.Backlog
	Kinesis  func() healthapi.Kinesis
	Fallback func() healthapi.Fallback
	Sink     func() healthapi.Sink
	Lanes    func() map[string]healthapi.Lane
	Flush    func() healthapi.Flush
	Parts    func() map[string]healthapi.Part
	Mode     func() Mode
	Totals   func() Totals
	Broken   func() string // what of the collector itself does not work, in words; empty when nothing
	Problems func() []string
}

// Mode is the config in use and who chose it.
type Mode struct {
	Name      string
	Rev       int64
	By        string
	FileError string
}

// Totals are the counters from which rates are worked out.
type Totals struct {
	AcceptedEvents uint64 // records stored in the spool
	LeftEvents     uint64 // records acked: written or dead-lettered
}

// Reporter makes reports. It is safe for concurrent use.
type Reporter struct {
	identity Identity
	sources  Sources
	seq      atomic.Uint64

	signalsReady atomic.Bool
	phase        atomic.Int32

	mu     sync.Mutex // guards what follows
	trend  trend
	state  healthapi.State
	since  time.Time
	change func(from, to healthapi.State, why string)
}

type phase int32

const (
	starting phase = iota
	running
	stopping
)

// New returns a Reporter in state starting. onChange, if not nil, is called
// with a sentence each time the state changes, from whoever asked for a report.
func New(identity Identity, sources Sources, onChange func(from, to healthapi.State, why string)) *Reporter {
	return &Reporter{
		identity: identity, sources: sources, change: onChange,
		state: healthapi.StateStarting, since: time.Now(),
	}
}

// SignalsReady says that signal handlers are installed: from now on a watchdog
// may send signals.
func (r *Reporter) SignalsReady() { r.signalsReady.Store(true) }

// Started says that the collector takes requests.
func (r *Reporter) Started() { r.phase.CompareAndSwap(int32(starting), int32(running)) }

// Stopping says that a graceful stop has begun.
func (r *Reporter) Stopping() { r.phase.Store(int32(stopping)) }

// Sample records the counters for rates and growth. Run calls it every second.
func (r *Reporter) Sample() {
	backlog, totals := r.sources.Backlog(), r.sources.Totals()
	r.mu.Lock()
	r.trend.add(sample{at: time.Now(), bytes: backlog.Bytes, accepted: totals.AcceptedEvents, left: totals.LeftEvents})
	r.mu.Unlock()
	_ = r.Peek() // so that a change of state is logged though nobody polls
}

// Report returns the present report with a Seq higher than any before.
func (r *Reporter) Report() healthapi.Report {
	rep := r.Peek()
	rep.Seq = r.seq.Add(1)
	return rep
}

// Peek returns the present report without raising Seq: for who shows it on.
func (r *Reporter) Peek() healthapi.Report {
	m := r.sources.Mode()
	rep := healthapi.Report{
		Schema: healthapi.Schema, Seq: r.seq.Load(),
		Instance: r.identity.Instance, Version: r.identity.Version,
		PID: r.identity.PID, PIDStartTicks: r.identity.PIDStartTicks, PIDNamespace: r.identity.PIDNamespace,
		SignalsReady: r.signalsReady.Load(), BootID: r.identity.BootID, StartedAt: r.identity.StartedAt.UTC(),
		Mode: m.Name, ModeRev: m.Rev, ModeBy: m.By, ModeFileError: m.FileError,
		Intake: r.sources.Intake(), Backlog: r.sources.Backlog(), Kinesis: r.sources.Kinesis(),
		Fallback: r.sources.Fallback(), Sink: r.sources.Sink(), Lanes: r.sources.Lanes(),
		Flush: r.sources.Flush(), Parts: r.sources.Parts(), Problems: r.sources.Problems(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rates := r.trend.rates()
	rep.Intake.EventsPerSecond = rates.accepted
	rep.Backlog.GrowthBytesPerSecond = rates.growth
	rep.Backlog.SecondsToFull = secondsToFull(rep.Backlog)
	rep.Drain = drain(rep.Backlog, rates)
	r.settle(&rep)
	return rep
}

// settle works out the state and remembers when it changed.
func (r *Reporter) settle(rep *healthapi.Report) {
	state, why := r.judge(rep)
	if state != r.state {
		from := r.state
		r.state, r.since = state, time.Now()
		if r.change != nil {
			r.change(from, state, why)
		}
	}
	rep.State, rep.StateSince = r.state, r.since.UTC()
}

func (r *Reporter) judge(rep *healthapi.Report) (healthapi.State, string) {
	switch phase(r.phase.Load()) {
	case starting:
		return healthapi.StateStarting, "not listening yet"
	case stopping:
		return healthapi.StateStopping, "a stop was asked for"
	}
	if !rep.Intake.Accepting || !rep.Intake.AcceptingPixels {
		return healthapi.StateRefusing, rep.Intake.Reason
	}
	if rep.Sink.ConsecutiveFailures > 0 && rep.Sink.Circuit != "closed" {
		return healthapi.StateDegraded, fmt.Sprintf("%s %s: %s", rep.Sink.Type, rep.Sink.Target, rep.Sink.LastError)
	}
	for name, lane := range rep.Lanes {
		if lane.Sink.ConsecutiveFailures > 0 && lane.Sink.Circuit != "closed" {
			return healthapi.StateDegraded, fmt.Sprintf("%s lane, %s %s: %s", name, lane.Sink.Type, lane.Sink.Target, lane.Sink.LastError)
		}
	}
	for name, part := range rep.Parts {
		if !part.Alive {
			return healthapi.StateDegraded, fmt.Sprintf("%s has made no progress for %.0f s", name, part.BeatAgeSeconds)
		}
	}
	if why := r.sources.Broken(); why != "" {
		return healthapi.StateDegraded, why
	}
	if rep.ModeFileError != "" {
		return healthapi.StateDegraded, rep.ModeFileError
	}
	return healthapi.StateOK, "everything works"
}
