// Package decide is the watchdog's mind: what an observation of the collector
// means, and what shall be done about it. [Next] is a pure function. It reads no
// clock, does no I/O, starts no goroutine and waits for nothing, so that every
// decision can be replayed from the journal and every threshold tried out on
// recorded days.
//
// What the watchdog remembers has four regions, each with a phase of its own:
// the mode (which sink the box uses), the liveness (how the process is), the
// authority (who may act) and the action (what is being done right now, at most
// one thing). They are apart so that a pause, say, does not make us forget that
// we are in the middle of a divert.
//
// One call of Next is one turn: tell the time (clock.go), absorb what changed in
// the world (world.go), let the rules gather evidence (rules.go, evidence.go),
// then take the edges of the transition table that are due (edges*.go), and say
// why nothing more was done (explain.go). An edge is taken when its event
// happens and no guard has an objection; an objection is a sentence, and every
// one of them reaches the people.
package decide

import (
	"maps"
	"slices"
	"time"

	"spillway/shared/mode"
)

// turn is one call of Next.
type turn struct {
	p   Policy
	s   State // our own copy, becomes the next state
	o   Observation
	now Moment
	// lived is the time since the last observation, as far as it counts as seen.
	lived   time.Duration
	stalled bool // the watchdog itself missed polls

	result   *Result    // of the step in progress; nil unless it has just come in
	changed  *mode.File // the mode file, when somebody else has just changed it
	conflict string     // why the report cannot be believed
	started  bool       // a start of the collector that is not ours has just shown
	rules    []ruleResult

	command  *Command          // being handled
	answer   string            // to it
	acked    bool              // a person acknowledged
	ended    *Action           // the action that ended in this turn
	end      End               // and how
	want     *Action           // wanted by an edge, begun at the end of the turn
	gaveUp   *Order            // a region gives the matter to people
	pinned   *Order            // the mode file was written with a pin
	unpinned bool              // or without one
	blocked  map[string]string // edges that newly met an objection, and the guard

	decision Decision
	explain  Explain
}

// Next says what observation o, made in state s under policy p, means: the state
// to be saved, what to do once it is saved, and why. It neither changes nor keeps
// its arguments. p must be valid.
func Next(p Policy, s State, o Observation) (State, Decision, Explain) {
	t := &turn{p: p, s: s.clone(), o: o, decision: Decision{Verb: None}, blocked: map[string]string{}}
	t.tellTime()
	t.absorbWorld()
	t.gatherEvidence()
	t.refillBudget()
	for i := range o.Commands {
		t.handle(o.Commands[i])
	}
	t.run(authorityEdges)
	t.watchVerify()
	t.run(actionEdges)
	t.run(livenessEdges)
	t.run(modeEdges)
	t.run(beginEdges)
	t.run(lateEdges)
	t.conclude()
	return t.s, t.decision, t.explain
}

// firstMoment is where a state's time begins: no moment that exists is zero.
const firstMoment = Moment(time.Second)

// NewState is the state of a watchdog that never ran here before.
func NewState(p Policy) State {
	return State{
		Schema:    Schema,
		Now:       firstMoment,
		Liveness:  LivenessRegion{Phase: Up},
		Authority: AuthorityRegion{Phase: Auto},
		Budget:    Budget{Tokens: p.Budget.Tokens},
	}
}

// Amnesia is the state of a watchdog that ran here before but cannot know what
// it did, for reason: it has one token only, since it may have spent the others
// and may be failing again and again.
func Amnesia(p Policy, reason string) State {
	s := NewState(p)
	s.Begun.Amnesia = reason
	s.Budget.Tokens = min(1, p.Budget.Tokens)
	return s
}

// clone returns a copy that shares nothing that Next changes.
func (s State) clone() State {
	s.Rules = cloneMap(s.Rules)
	s.Blocked = cloneMap(s.Blocked)
	s.Told = cloneMap(s.Told)
	s.Authority.Orders = cloneMap(s.Authority.Orders)
	s.Backlog = slices.Clone(s.Backlog)
	s.Liveness.Starts = slices.Clone(s.Liveness.Starts)
	s.Budget.Spent = slices.Clone(s.Budget.Spent)
	if s.Action != nil {
		s.Action = s.Action.clone()
	}
	return s
}

func (a Action) clone() *Action {
	a.Tried = slices.Clone(a.Tried)
	a.Failures = slices.Clone(a.Failures)
	return &a
}

func cloneMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}
