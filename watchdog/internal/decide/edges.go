package decide

import "slices"

// Region is one of the four parts of the state that have a phase.
type Region string

// The regions.
const (
	RegionMode      Region = "mode"
	RegionLiveness  Region = "liveness"
	RegionAuthority Region = "authority"
	RegionAction    Region = "action"
)

// Stay, as the target of an edge, leaves the phase as it is.
const Stay Phase = ""

// Edge is one row of the transition table. [Next] knows no other way to change a
// phase than to take one.
type Edge struct {
	ID     string
	Region Region
	From   []Phase
	On     Event
	Guards []Guard
	To     Phase
	Effect Effect
	Text   string // what it means, for people
}

// Event is what makes an edge due.
type Event struct {
	Name    string
	happens func(*turn) bool
}

// Guard can object to an edge that is due. Its objection is a sentence; empty
// means that it has none.
type Guard struct {
	Name   string
	object func(*turn) string
}

// Effect is what taking an edge does besides changing the phase.
type Effect struct {
	Name string
	do   func(*turn)
}

// Edges returns the whole transition table, in the order in which it is tried.
func Edges() []Edge {
	return slices.Concat(commandEdges, authorityEdges, actionEdges, livenessEdges, modeEdges, beginEdges, lateEdges)
}

// Phases returns the phases of a region, the first one first.
func Phases(r Region) []Phase {
	switch r {
	case RegionMode:
		return []Phase{Primary, Diverting, Fallback, Returning, Probation}
	case RegionLiveness:
		return []Phase{Up, Suspect, Restarting, Settling, Down}
	case RegionAuthority:
		return []Phase{Auto, DryRun, Held, Pinned, Paused, Standby, HandedOver}
	case RegionAction:
		return []Phase{Idle, Phase(Claimed), Phase(Flush), Phase(ModeWritten), Phase(Switch), Phase(Verify)}
	}
	return nil
}

// run tries the edges of one region in order. One that leaves the phase as it is
// does not keep later ones from being taken; one that changes it ends the
// region's turn.
func (t *turn) run(edges []Edge) {
	for i := range edges {
		e := &edges[i]
		if !t.isIn(e) || !e.On.happens(t) {
			delete(t.s.Blocked, e.ID)
			continue
		}
		if t.objected(e) {
			continue
		}
		delete(t.s.Blocked, e.ID)
		t.explain.Taken = append(t.explain.Taken, e.ID)
		if e.Effect.do != nil {
			e.Effect.do(t) // sees the phase that is left
		}
		if e.To != Stay {
			t.enter(e.Region, e.To)
		}
		switch {
		case e.Region == RegionAuthority:
			t.settleAuthority()
		case e.To != Stay:
			return
		}
	}
}

// objected asks every guard of e, so that people see all that stands in the way.
func (t *turn) objected(e *Edge) bool {
	var first string
	for _, g := range e.Guards {
		if text := g.object(t); text != "" {
			t.explain.BlockedBy = append(t.explain.BlockedBy, Block{Edge: e.ID, Guard: g.Name, Text: text})
			if first == "" {
				first = g.Name
			}
		}
	}
	if first == "" {
		return false
	}
	if t.s.Blocked[e.ID] != first {
		t.s.Blocked[e.ID] = first
		t.blocked[e.ID] = first
	}
	return true
}

// isIn tells whether the region of e is in one of its phases. The orders of the
// authority region stand beside each other: each is a phase it is in.
func (t *turn) isIn(e *Edge) bool {
	if e.Region == RegionAuthority {
		return slices.ContainsFunc(e.From, t.standing)
	}
	return slices.Contains(e.From, t.phase(e.Region))
}

// phase is where a region stands.
func (t *turn) phase(r Region) Phase {
	switch r {
	case RegionMode:
		return t.s.Mode.Phase
	case RegionLiveness:
		return t.s.Liveness.Phase
	case RegionAuthority:
		return t.s.Authority.Phase
	}
	if t.s.Action == nil {
		return Idle
	}
	return Phase(t.s.Action.Step)
}

// enter puts a region into a phase. The phase of the authority follows from its
// orders, which the effect of the edge changes.
func (t *turn) enter(r Region, p Phase) {
	switch r {
	case RegionMode:
		t.s.Mode.Phase, t.s.Mode.Since = p, t.now
	case RegionLiveness:
		t.s.Liveness.Phase, t.s.Liveness.Since = p, t.now
	case RegionAction:
		t.enterStep(Step(p))
	}
}
