package decide

import (
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
)

// Observation is everything the watchdog saw and was told since the last one.
// It is complete in itself: a recorded sequence of observations, given to [Next]
// again, gives the same decisions. Whoever makes one leaves a field at its zero
// value when it could not be found out; nothing is concluded from a zero value.
type Observation struct {
	Clock Clock `json:"clock"`
	// FirstOfRun marks the first observation after the watchdog's process began.
	// A step in progress is ordered again then, because nobody is doing it.
	FirstOfRun bool `json:"first_of_run,omitempty"`
	// Expected is how long after the last observation this one was planned; zero
	// means poll.interval. Much later means the watchdog itself did not run.
	Expected time.Duration `json:"expected,omitempty"`

	Reach   Reach         `json:"reach"`
	Detail  string        `json:"detail,omitempty"`  // what exactly was wrong, for people
	Latency time.Duration `json:"latency,omitempty"` // of the answer
	// Report is the answer just given. It is nil unless Reach is ok; an old
	// report is never handed in again.
	Report *healthapi.Report `json:"report,omitempty"`

	Public     Public     `json:"public,omitempty"`
	Process    Process    `json:"process,omitzero"`
	Supervisor Supervisor `json:"supervisor,omitzero"`
	// CPUPressure is "some avg10" of the box's CPU pressure, in percent.
	CPUPressure float64 `json:"cpu_pressure,omitempty"`

	ModeFile ModeFile  `json:"mode_file"`
	Commands []Command `json:"commands,omitempty"`
	Result   *Result   `json:"result,omitempty"` // how the step ordered last went; nil while it runs
	Cluster  *Cluster  `json:"cluster,omitempty"`
	// StateError tells why the last state could not be saved; empty when it was.
	StateError string `json:"state_error,omitempty"`
	// Rival names another watchdog that holds this collector's lock.
	Rival string `json:"rival,omitempty"`
}

// Clock is one moment on both clocks of the box. Decisions use only differences
// of SinceBoot (CLOCK_BOOTTIME, which counts suspend) while BootID stays the
// same; Wall is used across a reboot of the box, and for people.
type Clock struct {
	BootID    string        `json:"boot_id"` // of the kernel
	SinceBoot time.Duration `json:"since_boot"`
	Wall      time.Time     `json:"wall"`
}

// Reach is how the question for the health report ended.
type Reach string

// The ways a poll ends. They are told apart because they mean different things
// to people; all but ok and foreign count as not reached.
const (
	ReachOK        Reach = "ok"
	ReachRefused   Reach = "refused"    // nobody listens
	ReachTimeout   Reach = "timeout"    // no answer within poll.timeout
	ReachReset     Reach = "reset"      // the connection broke in the middle
	ReachBadStatus Reach = "bad_status" // an answer that is not 200
	ReachBadBody   Reach = "bad_body"   // 200, but not a health report
	ReachForeign   Reach = "foreign"    // a report of another instance or process, or an old one again
)

// Reaches lists every value of Reach.
func Reaches() []Reach {
	return []Reach{ReachOK, ReachRefused, ReachTimeout, ReachReset, ReachBadStatus, ReachBadBody, ReachForeign}
}

// Public is the second witness: GET /health on the port that trackers use. It
// is asked only when Reach is not ok.
type Public string

// The answers of the second witness.
const (
	PublicNotTried Public = ""
	PublicOK       Public = "ok"
	PublicFailed   Public = "failed"
)

// Process is the third witness: what the kernel says about the collector's pid.
// It is asked only when Reach is not ok.
type Process struct {
	Known     bool   `json:"known"` // false when it cannot be seen from here (another pid namespace)
	Alive     bool   `json:"alive"`
	SameStart bool   `json:"same_start"`      // still the process of the last report, not a reused pid
	State     string `json:"state,omitempty"` // R, S, D, T, Z as in /proc/PID/stat
	// CPUMoved says that it used CPU since the observation before; CPUKnown that
	// there was one to compare with.
	CPUMoved bool `json:"cpu_moved"`
	CPUKnown bool `json:"cpu_known"`
	// Dying says that it is killed but a thread of it still lives, and with it its
	// hold on the spool.
	Dying bool `json:"dying,omitempty"`
}

// Supervisor is the word of whoever starts the collector (systemd). It is the
// zero value in a pod or where nothing supervises.
type Supervisor struct {
	State SupervisorState `json:"state,omitempty"`
	// Result is the unit's Result when it failed, like "start-limit-hit".
	Result       string `json:"result,omitempty"`
	InvocationID string `json:"invocation_id,omitempty"`
	MainPID      int    `json:"main_pid,omitempty"`
}

// SupervisorState is the state of the collector's unit.
type SupervisorState string

// The states of a supervised unit.
const (
	SupervisorUnknown      SupervisorState = ""
	SupervisorActive       SupervisorState = "active"
	SupervisorActivating   SupervisorState = "activating"
	SupervisorDeactivating SupervisorState = "deactivating"
	SupervisorAutoRestart  SupervisorState = "auto_restart"
	SupervisorStopped      SupervisorState = "stopped" // inactive, because a person stopped it
	SupervisorFailed       SupervisorState = "failed"
)

// ResultStartLimit is Supervisor.Result when it will not start the unit again.
const ResultStartLimit = "start-limit-hit"

// ModeFile is the mode file as it is now.
type ModeFile struct {
	File mode.File `json:"file"`
	Err  string    `json:"err,omitempty"` // it cannot be read or understood
	// Mine says that this watchdog wrote it: File.By is its own name.
	Mine bool `json:"mine,omitempty"`
}

// CommandKind is what a person orders.
type CommandKind string

// The orders a person can give.
const (
	CommandSwitch CommandKind = "switch"  // to Mode, once; the machine carries on from there
	CommandPin    CommandKind = "pin"     // to Mode, and stay there until For is over or resume
	CommandPause  CommandKind = "pause"   // no act for For (pause.default when zero)
	CommandResume CommandKind = "resume"  // ends pause and pin
	CommandAck    CommandKind = "ack"     // ends handed_over, forgets flaps and hold
	CommandDryRun CommandKind = "dry_run" // decide but do not act, until resume
)

// Command is an order of a person. One without By and Reason is refused.
type Command struct {
	ID     string        `json:"id"` // comes back in the note that answers it
	Kind   CommandKind   `json:"kind"`
	Mode   mode.Mode     `json:"mode,omitempty"`
	For    time.Duration `json:"for,omitempty"`
	By     string        `json:"by"`
	Reason string        `json:"reason"`
}

// Cluster is what the coordinator says. It matters only when scope is cluster.
type Cluster struct {
	// Connected is false while the coordinator cannot be asked, or answers
	// without a leader. Then nothing below is read.
	Connected bool      `json:"connected"`
	Mode      mode.Mode `json:"mode,omitempty"` // empty: no decision is published
	Epoch     int64     `json:"epoch"`          // of Mode
	Reason    string    `json:"reason,omitempty"`
	Admitted  bool      `json:"admitted"` // the return wave has reached this box
	Paused    bool      `json:"paused"`   // a person paused the whole cluster
}
