// Package healthapi is the wire contract of the collector's health report, read
// by the watchdog and by people: GET /healthz on the admin listener. Fields are
// promises: they are added, never renamed or removed. A reader ignores fields it
// does not know.
//
// A time that does not exist yet is absent, never zero; an age that does not
// exist yet is absent too. Ages are measured on the collector's monotonic clock
// and are what rules use; times are for people.
package healthapi

import "time"

// Schema is the version of the report written by this package.
const Schema = 1

// Paths of the collector's admin listener.
const (
	PathHealth  = "/healthz"
	PathLive    = "/livez"
	PathReady   = "/readyz"
	PathMetrics = "/metrics"
	PathFlush   = "/flush"
	PathMode    = "/mode"
)

// State is the collector's condition in one word.
type State string

// The states, from best to worst.
const (
	StateOK       State = "ok"
	StateStarting State = "starting" // recovering the spool, or not listening yet
	StateDegraded State = "degraded" // a sink is failing; events wait on disk
	StateRefusing State = "refusing" // answering 503 to trackers
	StateStopping State = "stopping"
)

// Report is the whole health report.
type Report struct {
	Schema        int       `json:"schema"`
	Seq           uint64    `json:"seq"` // rises with every report of this boot
	Instance      string    `json:"instance"`
	Version       string    `json:"version"`
	PID           int       `json:"pid"`
	PIDStartTicks uint64    `json:"pid_start_ticks"` // field 22 of /proc/PID/stat
	PIDNamespace  uint64    `json:"pid_ns"`          // inode of /proc/self/ns/pid
	SignalsReady  bool      `json:"signals_ready"`   // handlers for USR1, USR2 and HUP are installed
	BootID        string    `json:"boot_id"`         // new with every start of the process
	StartedAt     time.Time `json:"started_at"`

	Mode          string    `json:"mode"` // primary | fallback: the config this process runs
	ModeRev       int64     `json:"mode_rev"`
	ModeBy        string    `json:"mode_by,omitempty"`
	ModeFileError string    `json:"mode_file_error"`
	State         State     `json:"state"`
	StateSince    time.Time `json:"state_since"`

	Intake   Intake          `json:"intake"`
	Backlog  Backlog         `json:"backlog"`
	Kinesis  Kinesis         `json:"kinesis"`
	Fallback Fallback        `json:"fallback"`
	Drain    Drain           `json:"drain"`
	Sink     Sink            `json:"sink"`
	Lanes    map[string]Lane `json:"lanes,omitempty"`
	Flush    Flush           `json:"flush"`
	Parts    map[string]Part `json:"parts"`
	Problems []string        `json:"problems,omitempty"` // sentences an operator can act on
}

// Intake tells whether trackers are being served.
type Intake struct {
	Accepting       bool       `json:"accepting"`        // POSTs are taken
	AcceptingPixels bool       `json:"accepting_pixels"` // GET pixels are taken
	Reason          string     `json:"reason"`           // why not, in words; empty when accepting
	Since           *time.Time `json:"since,omitempty"`  // when accepting last changed
	AcceptedTotal   uint64     `json:"accepted_total"`   // event requests answered 200
	RefusedTotal    uint64     `json:"refused_total"`    // event requests answered 503
	EventsPerSecond float64    `json:"events_per_second"`
}

// Backlog is what waits on disk, over both lanes.
type Backlog struct {
	Events               int64      `json:"events"`
	Bytes                int64      `json:"bytes"`
	OldestAt             *time.Time `json:"oldest_at,omitempty"`
	OldestAgeSeconds     *float64   `json:"oldest_age_seconds,omitempty"`
	LimitBytes           int64      `json:"limit_bytes"`
	LimitEvents          int64      `json:"limit_events"` // 0 is no limit
	DiskFreeBytes        int64      `json:"disk_free_bytes"`
	GrowthBytesPerSecond float64    `json:"growth_bytes_per_second"`
	SecondsToFull        *float64   `json:"seconds_to_full,omitempty"` // absent while it does not grow
}

// Kinesis tells how the primary stream is, whichever sink is in use.
type Kinesis struct {
	Stream              string     `json:"stream"`
	LastWriteAt         *time.Time `json:"last_write_at,omitempty"` // survives a restart
	LastWriteAgeSeconds *float64   `json:"last_write_age_seconds,omitempty"`
	OutageSince         *time.Time `json:"outage_since,omitempty"` // survives a restart
	ConsecutiveFailures int64      `json:"consecutive_failures"`
	LastError           string     `json:"last_error,omitempty"`
	LastErrorAt         *time.Time `json:"last_error_at,omitempty"`
	ErrorClass          string     `json:"error_class,omitempty"` // throttled | auth | config | network | server
	Probe               Probe      `json:"probe"`
}

// Probe tells how the half-open probe of Kinesis fares while the fallback is in use.
type Probe struct {
	Level         int        `json:"level"` // 0 not probing, 1 to 3 rising share of real traffic
	LastAt        *time.Time `json:"last_at,omitempty"`
	LastOKAt      *time.Time `json:"last_ok_at,omitempty"`
	OKSince       *time.Time `json:"ok_since,omitempty"`
	OKForSeconds  *float64   `json:"ok_for_seconds,omitempty"` // age of ok_since on the monotonic clock
	ShardsTouched int        `json:"shards_touched"`
}

// Fallback tells whether the fallback sink would work if it were needed now.
type Fallback struct {
	Configured  bool       `json:"configured"`
	Valid       bool       `json:"valid"`
	Ready       bool       `json:"ready"`
	LastCheckAt *time.Time `json:"last_check_at,omitempty"`
	LastError   string     `json:"last_error"`
}

// Drain tells how fast the backlog leaves.
type Drain struct {
	EventsPerSecond float64  `json:"events_per_second"`
	ETASeconds      *float64 `json:"eta_seconds,omitempty"` // absent while it does not shrink
}

// Sink is the destination in use.
type Sink struct {
	Type                string     `json:"type"`
	Target              string     `json:"target"`
	LastWriteAt         *time.Time `json:"last_write_at,omitempty"`
	LastWriteAgeSeconds *float64   `json:"last_write_age_seconds,omitempty"`
	LastError           string     `json:"last_error"`
	ErrorClass          string     `json:"error_class,omitempty"`
	ConsecutiveFailures int64      `json:"consecutive_failures"`
	Circuit             string     `json:"circuit"` // closed | open | half_open
}

// Lane is the part of the report that concerns one lane (good or bad).
type Lane struct {
	BacklogEvents    int64  `json:"backlog_events"`
	BacklogBytes     int64  `json:"backlog_bytes"`
	WrittenTotal     uint64 `json:"written_total"`
	DeadLettersTotal uint64 `json:"dead_letters_total"`
	CorruptTotal     uint64 `json:"corrupt_total"`
	Sink             Sink   `json:"sink"`
}

// Flush tells how far the flushes asked for have got.
type Flush struct {
	Requested       int64       `json:"requested"` // rises at once when a flush is asked for
	Completed       int64       `json:"completed"` // follows when it is done
	Result          FlushResult `json:"result,omitempty"`
	RemainingEvents int64       `json:"remaining_events"`
	CompletedAt     *time.Time  `json:"completed_at,omitempty"`
}

// ReasonDiskHangs is the Reason of an intake that refuses because a write to the
// spool does not come back: no want of room, and nothing a restart would mend.
const ReasonDiskHangs = "the disk does not answer"

// FlushResult is how the last flush ended.
type FlushResult string

// How a flush ends: everything left, or the rest is safe in the spool.
const (
	FlushDrained FlushResult = "drained"
	FlushKept    FlushResult = "kept"
)

// Part is a running piece of the collector and the last sign of its progress.
type Part struct {
	Alive          bool    `json:"alive"`
	BeatAgeSeconds float64 `json:"beat_age_seconds"`
}
