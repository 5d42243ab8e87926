package control

import (
	"time"

	"spillway/shared/healthapi"
	"spillway/watchdog/internal/decide"
)

// Snapshot is what one tick knew and decided: all that status and why show.
type Snapshot struct {
	At          time.Time          `json:"at,omitzero"` // zero before the first tick
	Observation decide.Observation `json:"observation"`
	State       decide.State       `json:"state"`
	Decision    decide.Decision    `json:"decision"`
	Explain     decide.Explain     `json:"explain"`
	Policy      decide.Policy      `json:"policy"`
	// LastReport is the last good report, which may be older than At.
	LastReport   *healthapi.Report `json:"last_report,omitempty"`
	LastReportAt time.Time         `json:"last_report_at,omitzero"`
	Lag          time.Duration     `json:"lag,omitempty"` // how much later than planned the tick came
}
