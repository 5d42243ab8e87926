package decide

import (
	"time"

	"spillway/shared/mode"
)

// Schema is the version of State written by this package.
const Schema = 1

// Moment is a point on the state's own time axis: boot-clock time that has
// passed since the state was begun, across restarts of the watchdog and of the
// box. Wall-clock steps do not touch it. Zero means never.
type Moment time.Duration

// Add returns the moment d later.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d) }

// Sub returns how long m is after from.
func (m Moment) Sub(from Moment) time.Duration { return time.Duration(m - from) }

// State is all that the watchdog remembers. It is a plain value that survives
// encoding/json unchanged, and its size is bounded. The zero State is not
// usable: begin with [NewState] or [Amnesia].
type State struct {
	Schema int    `json:"schema"`
	Now    Moment `json:"now"`   // of the last observation
	Clock  Clock  `json:"clock"` // of the last observation
	Begun  Begun  `json:"begun"`

	Mode      ModeRegion      `json:"mode"`
	Liveness  LivenessRegion  `json:"liveness"`
	Authority AuthorityRegion `json:"authority"`
	Action    *Action         `json:"action,omitempty"`
	// Pending is a switch or pin that a person ordered and that waits its turn.
	Pending *Command `json:"pending,omitempty"`
	LastID  int64    `json:"last_id"` // of the last action begun
	Last    *Past    `json:"last,omitempty"`

	Rules   map[string]RuleState `json:"rules"`
	Budget  Budget               `json:"budget"`
	Probe   ProbeState           `json:"probe"`
	Backlog []Level              `json:"backlog,omitempty"` // the last five minutes, for slopes
	Seen    Seen                 `json:"seen"`
	Cluster ClusterState         `json:"cluster,omitzero"`
	Blocked map[string]string    `json:"blocked,omitempty"` // last sentence per edge, to tell changes only
	Told    map[string]Moment    `json:"told,omitempty"`    // when a matter was last told, by its key
}

// Begun tells how and when the state and the present run began.
type Begun struct {
	Amnesia string `json:"amnesia,omitempty"` // why there was no older state
	RunAt   Moment `json:"run_at"`            // when the watchdog's process began
	Samples int    `json:"samples"`           // observations since the state was begun, counted to a few
}

// Phase is where a region stands.
type Phase string

// The phases of the mode region.
const (
	Primary   Phase = "primary"
	Diverting Phase = "diverting"
	Fallback  Phase = "fallback"
	Returning Phase = "returning"
	Probation Phase = "probation"
)

// The phases of the liveness region.
const (
	Up         Phase = "up"
	Suspect    Phase = "suspect"
	Restarting Phase = "restarting"
	Settling   Phase = "settling"
	Down       Phase = "down"
)

// The phases of the authority region, from the weakest order to the strongest.
const (
	Auto       Phase = "auto"
	DryRun     Phase = "dry_run"
	Held       Phase = "held" // the coordinator is lost: modes stay
	Pinned     Phase = "pinned"
	Paused     Phase = "paused"
	Standby    Phase = "standby" // a person stopped the collector, or another watchdog is in charge
	HandedOver Phase = "handed_over"
)

// Idle is the phase of the action region without an action; otherwise its phase
// is the action's step.
const Idle Phase = "idle"

// ModeRegion is which sink the box uses, and how it got there.
type ModeRegion struct {
	Phase Phase  `json:"phase"`
	Since Moment `json:"since"`
	// Rev and File are the mode file as last known.
	Rev    int64     `json:"rev"`
	File   mode.Mode `json:"file"`
	FileAt Moment    `json:"file_at"` // when a change of the file was last seen

	HoldUntil  Moment `json:"hold_until,omitempty"` // no return before
	Flaps      int    `json:"flaps"`
	FlapAt     Moment `json:"flap_at,omitempty"`     // of the last change of Flaps
	DivertedAt Moment `json:"diverted_at,omitempty"` // by this watchdog
	ReturnedAt Moment `json:"returned_at,omitempty"` // by this watchdog
	OutageAt   Moment `json:"outage_at,omitempty"`   // the outage going on began
	BothFail   bool   `json:"both_failing,omitempty"`
	Ghost      bool   `json:"ghost,omitempty"` // the phase is imagined, by a dry run
	DriftAt    Moment `json:"drift_at,omitempty"`
}

// LivenessRegion is how the collector's process is.
type LivenessRegion struct {
	Phase     Phase    `json:"phase"`
	Since     Moment   `json:"since"`
	OKFrom    Moment   `json:"ok_from,omitempty"`    // since when every poll is good
	Starts    []Moment `json:"starts,omitempty"`     // that are not ours, within the last ten minutes
	StartedAt Moment   `json:"started_at,omitempty"` // the last start of any kind
	ResetAt   Moment   `json:"reset_at,omitempty"`   // the start limit was last reset
	CrashLoop bool     `json:"crash_loop,omitempty"`
}

// AuthorityRegion is who may act. The phase is that of the strongest standing
// order; Auto when there is none.
type AuthorityRegion struct {
	Phase  Phase           `json:"phase"`
	Since  Moment          `json:"since"`
	Orders map[Phase]Order `json:"orders,omitempty"`
	// SettleAt is when the last order ended that forbade acts.
	SettleAt Moment `json:"settle_at,omitempty"`
}

// Order is a standing order: why the watchdog may not do everything.
type Order struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Cause  string    `json:"cause,omitempty"` // a fixed name: no_state, drift, collector_down, ...
	At     Moment    `json:"at"`
	Until  Moment    `json:"until,omitempty"` // zero: until it is withdrawn
	Mode   mode.Mode `json:"mode,omitempty"`  // of a pin
	// GreenAt is since when all is well, while handed over.
	GreenAt Moment `json:"green_at,omitempty"`
	// Suppressed counts the acts that would have been done but for this order.
	Suppressed int `json:"suppressed,omitempty"`
}

// Status is where a rule stands.
type Status string

// The statuses of a rule.
const (
	Clear   Status = "clear"
	Warn    Status = "warning" // half the evidence is there: people are told, nothing is done
	Firing  Status = "firing"
	Unknown Status = "unknown" // not seen for three polls; it neither fires nor clears
	Off     Status = "off"
)

// RuleState is what a rule remembers.
type RuleState struct {
	Evidence time.Duration `json:"evidence"` // bad seconds seen, less good ones
	Samples  int           `json:"samples"`  // bad ones since the evidence was zero
	Fires    bool          `json:"fires"`
	Warned   bool          `json:"warned"`
	Since    Moment        `json:"since"`              // of Fires
	KnownAt  Moment        `json:"known_at,omitempty"` // last seen
	ZeroAt   Moment        `json:"zero_at,omitempty"`  // since when the evidence is zero
	Number   float64       `json:"number"`             // as last seen
}

// Budget limits how often the watchdog may act.
type Budget struct {
	Tokens   int      `json:"tokens"`
	RefillAt Moment   `json:"refill_at"`       // when the next token is counted from
	Spent    []Moment `json:"spent,omitempty"` // within the last hour
}

// ProbeState is the evidence that the primary works again.
type ProbeState struct {
	Evidence time.Duration `json:"evidence"`
	Samples  int           `json:"samples"`
	OKAt     time.Time     `json:"ok_at,omitzero"` // last_ok_at as reported; only compared for equality
	SeenAt   Moment        `json:"seen_at,omitempty"`
	Level    int           `json:"level"`
}

// Level is the backlog at one moment.
type Level struct {
	At    Moment `json:"at"`
	Bytes int64  `json:"bytes"`
}

// Seen is what the last good report and the supervisor said.
type Seen struct {
	At         Moment    `json:"at,omitempty"` // of the last good report
	BootID     string    `json:"boot_id,omitempty"`
	Seq        uint64    `json:"seq"`
	Mode       mode.Mode `json:"mode,omitempty"`
	Accepted   uint64    `json:"accepted"`
	Refused    uint64    `json:"refused"`
	Invocation string    `json:"invocation,omitempty"`
	MovedAt    Moment    `json:"moved_at,omitempty"`   // the silent process last used CPU
	StalledAt  Moment    `json:"stalled_at,omitempty"` // the watchdog itself last missed polls
	FreshCount int       `json:"fresh"`                // observations since then, counted to a few
}

// ClusterState is what was last heard of the coordinator.
type ClusterState struct {
	AppliedEpoch int64     `json:"applied_epoch"`
	Mode         mode.Mode `json:"mode,omitempty"`
	ContactAt    Moment    `json:"contact_at,omitempty"`
}

// Past is the action that ended last.
type Past struct {
	ID     string `json:"id"`
	Kind   Kind   `json:"kind"`
	End    End    `json:"end"`
	At     Moment `json:"at"`
	Failed int    `json:"failed"` // verifies that failed in a row
	// Command is the ID of the order that it carried out, Text why it ended so.
	Command string `json:"command,omitempty"`
	Text    string `json:"text,omitempty"`
}

// End is how an action ended.
type End string

// The ends of an action.
const (
	EndVerified End = "verified"
	EndAborted  End = "aborted"
	EndFailed   End = "failed"
)
