// Package control is the watchdog's loop: it observes, lets package decide say
// what that means, remembers, tells, and has the steps of an action done.
//
//	observe -> decide.Next -> state on disk -> journal -> step
//
// The order is the promise. The state that a decision leads to is on stable
// storage before anything is done for it, so that a watchdog that died anywhere
// goes on where it was, and one that cannot remember does nothing. A step runs
// apart from the loop; its result is part of a later observation.
package control

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/journal"
	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
)

// Observer looks at the collector once. What it returns lacks what the loop
// itself knows: the clock, the mode file, commands and results.
type Observer interface {
	Observe(ctx context.Context) decide.Observation
}

// Memory is what a watchdog must not forget. It is one JSON object on disk.
type Memory struct {
	decide.State
	// Process is the collector as it was last seen, so that a watchdog that is
	// started beside a hung one still knows which process that is.
	Process process.Identity `json:"process,omitzero"`
}

// Since returns what of m still holds in the boot of the box with bootID. After a
// reboot a pid may be that of any process.
func (m Memory) Since(bootID string) Memory {
	if m.Clock.BootID != bootID {
		m.Process = process.Identity{}
	}
	return m
}

// Store keeps the memory. An error of Save forbids to act.
type Store interface {
	Save(Memory) error
}

// Recorder keeps the journal.
type Recorder interface {
	Append(journal.Entry) error
}

// Mind is decide.Next, or what a test puts in its place.
type Mind func(decide.Policy, decide.State, decide.Observation) (decide.State, decide.Decision, decide.Explain)

// Options is what a loop needs.
type Options struct {
	Policy   decide.Policy
	Memory   Memory
	Mind     Mind
	Observer Observer
	Doer     Doer
	Store    Store
	Journal  Recorder
	Inbox    *Inbox
	Clock    func() decide.Clock
	ModePath string
	Name     string // how the mode file names this watchdog
	// Notify is handed what people are to be told. It must not block. May be nil.
	Notify  func(decide.Note)
	Log     *logrus.Entry
	Metrics prometheus.Registerer
}

// Loop watches one collector.
type Loop struct {
	opts    Options
	log     *logrus.Entry
	metrics *metrics
	runner  *runner

	// Owned by Run.
	memory     Memory
	explain    decide.Explain
	last       *healthapi.Report // the last good one
	result     *decide.Result    // to be part of the next observation
	stateError string
	expected   time.Duration
	ticks      int
	faults     map[string]string // what the watchdog itself suffers from, to say changes only

	policy   atomic.Pointer[decide.Policy]
	snapshot atomic.Pointer[Snapshot]
	wake     chan struct{}
}

// New returns a loop that begins with opts.Memory.
func New(opts Options) *Loop {
	l := &Loop{
		opts: opts, log: opts.Log, runner: newRunner(opts.Doer),
		memory: opts.Memory, faults: map[string]string{}, wake: make(chan struct{}, 1),
	}
	l.metrics = newMetrics(opts.Metrics, l.Snapshot)
	l.policy.Store(&opts.Policy)
	l.snapshot.Store(&Snapshot{State: opts.Memory.State, Policy: opts.Policy})
	return l
}

// SetPolicy makes p, which must be valid, hold from the next tick on.
func (l *Loop) SetPolicy(p decide.Policy) {
	l.policy.Store(&p)
	l.poke()
}

// Policy returns the policy in force.
func (l *Loop) Policy() decide.Policy { return *l.policy.Load() }

// Snapshot returns what the last tick knew. It must not be changed.
func (l *Loop) Snapshot() *Snapshot { return l.snapshot.Load() }

func (l *Loop) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run watches until ctx ends. A step that is being done then is ended, and done
// again at the next start; the collector is not touched.
func (l *Loop) Run(ctx context.Context) error {
	defer l.runner.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-l.wake:
		case <-l.opts.Inbox.arrived:
		case done := <-l.runner.results:
			l.took(done)
		}
		begun := time.Now()
		l.tick(ctx)
		interval := l.Policy().Poll.Interval
		l.expected = jitter(interval)
		// The time that the questions took is part of the interval, so that polls
		// which run into their timeouts do not come less often than good ones.
		timer.Reset(max(l.expected-time.Since(begun), interval/4))
	}
}

// jitter spreads the polls of many watchdogs by ten percent.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

func (l *Loop) took(done finished) {
	l.runner.took(done)
	l.metrics.step(done)
	if awaited(done.action.Step) {
		l.result = &done.result
	}
	if done.result.Text == "" && done.result.Outcome == decide.StepOK {
		return // there was nothing to do, and nothing to tell
	}
	e := resultEntry(done)
	l.record(e)
	l.log.WithFields(logrus.Fields{
		"event": e.Event, "action": done.action.ID, "step": done.action.Step, "rung": done.action.Rung,
		"outcome": done.result.Outcome, "took": done.took.Round(time.Millisecond),
	}).Info(e.Sentence)
}

// awaited tells whether an action waits for the result of a step.
func awaited(step decide.Step) bool {
	return slices.ContainsFunc(decide.Steps(), func(s decide.StepInfo) bool { return s.Step == step && s.Reports })
}

// tick is one round.
func (l *Loop) tick(ctx context.Context) {
	commands := l.opts.Inbox.take()
	o := l.observe(ctx, commands)
	if ctx.Err() != nil {
		l.opts.Inbox.putBack(commands)
		return // the watchdog is stopping: a poll cut short is no observation
	}
	policy := l.Policy()
	memory := l.memory
	if o.Report != nil {
		l.last, memory.Process = o.Report, remedy.ProcessOf(o.Report)
	}
	var decision decide.Decision
	var explain decide.Explain
	memory.State, decision, explain = l.opts.Mind(policy, l.memory.State, o)
	saved := l.save(memory)
	if !saved && len(commands) > 0 {
		// An order that is not on disk was not given: it is given again, so what
		// came of it must not be remembered either.
		o.Commands, o.StateError = nil, l.stateError
		memory.State, decision, explain = l.opts.Mind(policy, l.memory.State, o)
	}
	s := scene{before: l.memory.State, after: memory.State, decision: decision, explain: explain, was: l.explain, commands: o.Commands}
	first := l.ticks == 0
	l.ticks++
	l.memory, l.explain = memory, explain
	l.tell(s, first)
	l.show(o, decision, policy) // before the answer, for who asks for the status after it
	if saved {
		l.opts.Inbox.settle(commands, decision, explain)
		l.act(ctx, decision)
	} else {
		l.opts.Inbox.putBack(commands)
		l.refuse(decision)
	}
	l.metrics.count(s, o)
}

// show publishes what this tick knew.
func (l *Loop) show(o decide.Observation, d decide.Decision, p decide.Policy) {
	was := l.Snapshot()
	now := &Snapshot{
		At: o.Clock.Wall, Observation: o, State: l.memory.State, Decision: d, Explain: l.explain, Policy: p,
		LastReport: l.last, LastReportAt: was.LastReportAt,
	}
	if o.Report != nil {
		now.LastReportAt = o.Clock.Wall
	}
	if before := was.Observation.Clock; before.BootID == o.Clock.BootID && o.Expected > 0 {
		now.Lag = max(0, o.Clock.SinceBoot-before.SinceBoot-o.Expected)
	}
	l.snapshot.Store(now)
}

func (l *Loop) observe(ctx context.Context, commands []pending) decide.Observation {
	o := l.opts.Observer.Observe(ctx)
	o.Clock = l.opts.Clock()
	o.FirstOfRun = l.ticks == 0
	o.Expected = l.expected
	file, err := mode.Read(l.opts.ModePath)
	o.ModeFile = decide.ModeFile{File: file, Mine: file.By == l.opts.Name}
	if err != nil {
		o.ModeFile.Err = err.Error()
	}
	for _, c := range commands {
		o.Commands = append(o.Commands, c.command)
	}
	o.Result, l.result = l.result, nil
	o.StateError = l.stateError
	return o
}

// save puts m on disk and tells whether it is there.
func (l *Loop) save(m Memory) bool {
	err := l.opts.Store.Save(m)
	l.metrics.saved(err)
	l.stateError = ""
	if err != nil {
		l.stateError = err.Error()
	}
	l.fault("state", err, "the state cannot be saved, so nothing will be done", "the state can be saved again")
	return err == nil
}

// act has done what was decided.
func (l *Loop) act(ctx context.Context, d decide.Decision) {
	switch d.Verb {
	case decide.Start, decide.Continue:
		if d.Action != nil && !d.Action.Ghost {
			l.runner.order(ctx, *d.Action, l.memory.Process)
		}
	case decide.Abort:
		l.runner.abort()
	}
}

// refuse answers for a step that was not begun.
func (l *Loop) refuse(d decide.Decision) {
	if d.Action == nil || d.Action.Ghost || (d.Verb != decide.Start && d.Verb != decide.Continue) {
		return
	}
	l.runner.abort()
	l.result = &decide.Result{
		ActionID: d.Action.ID, Step: d.Action.Step, Rung: d.Action.Rung, Outcome: decide.StepFailed,
		Text: "not begun, because the state could not be saved: " + l.stateError,
	}
}
