package decide

import (
	"time"

	"spillway/shared/mode"
)

// Verb is what the executor has to do with [Decision].Action.
type Verb string

// The verbs.
const (
	None     Verb = "none"
	Start    Verb = "start"    // a new action: do its first step
	Continue Verb = "continue" // do the step named in Action
	Abort    Verb = "abort"    // stop what is being done for Action, release what it holds
	Adopt    Verb = "adopt"    // somebody else changed the mode: nothing to do but to tell
)

// Decision is what [Next] wants done. Whoever carries it out first saves the
// new state, then acts: the state on disk is never behind what was done.
type Decision struct {
	Verb   Verb    `json:"verb"`
	Action *Action `json:"action,omitempty"` // for every verb but none and adopt
	// Reason is one sentence that an operator understands.
	Reason string `json:"reason,omitempty"`
	Notes  []Note `json:"notes,omitempty"` // to be told to people, in this order
	// Would is the action that would begin now but for a dry run. It is for the
	// record; Verb is none.
	Would *Action `json:"would,omitempty"`
}

// Kind is what an action is for.
type Kind string

// The kinds of action.
const (
	Divert      Kind = "divert"       // to the fallback
	Return      Kind = "return"       // back to the primary
	RestartSame Kind = "restart_same" // in the mode it has, because the process is sick
	Reconcile   Kind = "reconcile"    // to the mode that the mode file names
	Repin       Kind = "repin"        // write the pin of the mode file anew; nothing is switched
)

// Step is a part of an action that can be done again without harm.
type Step string

// The steps, in order. What each does stands in [Steps].
const (
	Claimed     Step = "claimed"
	Flush       Step = "flush"
	ModeWritten Step = "mode_written"
	Switch      Step = "switch"
	Verify      Step = "verify"
	Done        Step = "done"
)

// Rung is a means of making the collector run in the wanted mode. An action
// climbs the ladder of restart.ladder, each rung once.
type Rung string

// The rungs, from gentle to rough.
const (
	RungLive     Rung = "live"      // ask the running process to switch its sink (POST /mode)
	RungRestart  Rung = "restart"   // the Restarter's ordinary way
	RungTerm     Rung = "term"      // TERM (and CONT) to the proven pid, then wait
	RungKill     Rung = "kill"      // KILL to the proven pid
	RungStart    Rung = "start"     // start it; for systemd after resetting the failure
	RungRollBack Rung = "roll_back" // write the mode that worked again, and restart once
)

// Action is something being done to the collector.
type Action struct {
	ID     string    `json:"id"` // unique in the life of the state
	Kind   Kind      `json:"kind"`
	Step   Step      `json:"step"`
	Rung   Rung      `json:"rung,omitempty"` // how Switch is to be done
	From   mode.Mode `json:"from"`
	Target mode.Mode `json:"target"` // what the mode file says after ModeWritten
	// Pinned and By are written to the mode file: who decided, and whether the
	// watchdog shall leave it alone. By is empty for the watchdog's own acts.
	Pinned bool   `json:"pinned,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason"`
	// Command is the ID of the order that the action carries out; empty for none.
	Command string `json:"command,omitempty"`
	// Rule that fired, with its value and threshold; empty for a person's order.
	Rule      string `json:"rule,omitempty"`
	Value     string `json:"value,omitempty"`
	Threshold string `json:"threshold,omitempty"`
	// BaseRev is the revision of the mode file that the write must find.
	BaseRev int64 `json:"base_rev"`
	// BaseBootID and BaseInvocation are the process as it was before the switch:
	// once either has changed, nothing is sent again.
	BaseBootID     string `json:"base_boot_id,omitempty"`
	BaseInvocation string `json:"base_invocation,omitempty"`

	StartedAt Moment `json:"started_at"`
	StepAt    Moment `json:"step_at"`
	// Timeout is how long the executor may take over this step, from now; at
	// DeadlineAt the step counts as failed, whatever the executor says later.
	Timeout    time.Duration `json:"timeout"`
	DeadlineAt Moment        `json:"deadline_at"`
	// Ghost is an action of a dry run: it is never handed to the executor.
	Ghost bool `json:"ghost,omitempty"`

	Tried      []Rung   `json:"tried,omitempty"`
	Token      bool     `json:"token,omitempty"` // paid from the budget
	RolledBack bool     `json:"rolled_back,omitempty"`
	Ran        bool     `json:"ran,omitempty"`       // Target was seen to run, or to fail to start
	Failures   []string `json:"failures,omitempty"`  // what went wrong on the way, in order
	HeldFrom   Moment   `json:"held_from,omitempty"` // since when verify sees what it wants
	HeldCount  int      `json:"held_count,omitempty"`
	Until      Moment   `json:"until,omitempty"` // when a pin ends
}

// Result is how a step went. It counts only if Action, Step and Rung are those
// of the action in progress; a late or doubled one is dropped.
type Result struct {
	ActionID string  `json:"action_id"`
	Step     Step    `json:"step"`
	Rung     Rung    `json:"rung,omitempty"`
	Outcome  Outcome `json:"outcome"`
	// Text tells what was done, or why not, in a sentence.
	Text string `json:"text,omitempty"`
	// File is the mode file as written, after ModeWritten.
	File mode.File `json:"file,omitzero"`
}

// Outcome is how a step ended.
type Outcome string

// The outcomes. A skipped step is as good as done: Text says why it was not
// needed. Conflict means that somebody else changed the mode file or ordered a
// job of the supervisor at the same time: theirs wins.
const (
	StepOK       Outcome = "ok"
	StepSkipped  Outcome = "skipped"
	StepFailed   Outcome = "failed"
	StepConflict Outcome = "conflict"
)

// Severity is how loudly a note is to be told.
type Severity string

// The severities.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Page    Severity = "page" // wake somebody
)

// Note is something people are to be told.
type Note struct {
	Key      string   `json:"key"` // same for the same matter; a later one replaces or resolves it
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	Resolved bool     `json:"resolved,omitempty"`
}

// Explain says what was seen and why nothing more was done.
type Explain struct {
	Summary string     `json:"summary"` // the whole situation in one sentence
	Rules   []RuleView `json:"rules"`
	// Taken lists the edges taken, by id.
	Taken []string `json:"taken,omitempty"`
	// BlockedBy has a sentence for every act that was wanted and not done.
	BlockedBy []Block `json:"blocked_by,omitempty"`
	// Next says what would happen next if things stay as they are.
	Next string `json:"next"`
	// Remarks are facts about this observation worth a line in the journal, like
	// a step of the wall clock.
	Remarks []string `json:"remarks,omitempty"`
}

// Block is an act that was wanted and not done.
type Block struct {
	Edge  string `json:"edge"`  // of the transition table
	Guard string `json:"guard"` // a fixed name, fit for a metric's label
	Text  string `json:"text"`
}

// RuleView is one rule as people see it.
type RuleView struct {
	Name      string        `json:"name"`
	Class     Class         `json:"class"`
	Status    Status        `json:"status"`
	Value     string        `json:"value,omitempty"`     // with its unit; empty when unknown
	Threshold string        `json:"threshold,omitempty"` // with its unit
	Number    float64       `json:"number"`              // Value in base units, for a metric
	Limit     float64       `json:"limit"`               // Threshold in base units
	Evidence  time.Duration `json:"evidence"`
	For       time.Duration `json:"for"`
	Samples   int           `json:"samples"`
	Text      string        `json:"text"` // "bad for 27s of 30s"
}
