package admission

import (
	"errors"
	"fmt"
	"time"

	"spillway/shared/configfile"
)

// Config says when trackers are refused. Each limit is the exact value at which
// POSTs are refused; pixels are refused at PixelsAt times as much.
type Config struct {
	// MaxBacklogEvents is how many events may wait on disk. Default and zero:
	// no limit.
	MaxBacklogEvents int64 `yaml:"max_backlog_events"`
	// MaxBacklogBytes is how many bytes may wait on disk. Default and zero:
	// MaxBacklogPercent alone decides.
	MaxBacklogBytes configfile.Size `yaml:"max_backlog_bytes"`
	// MaxBacklogPercent is how much of the spool's own limit may be used, in
	// percent. Default 90. Zero: the spool's limit is watched by the spool alone,
	// and POSTs and pixels are then refused at the same moment.
	MaxBacklogPercent float64 `yaml:"max_backlog_percent"`
	// MinFreeDisk is how much room the spool's volume must have left. Default
	// 1152MiB, an eighth more than what the spool itself keeps free. Zero: off.
	MinFreeDisk configfile.Size `yaml:"min_free_disk"`
	// MaxOutage is how long the destination may have been failing while events
	// wait. Default and zero: no limit, room on disk alone decides.
	MaxOutage time.Duration `yaml:"max_outage"`
	// MaxInFlight is how many bytes of requests may be under way at once. Default
	// and zero: no limit here (the server has its own).
	MaxInFlight configfile.Size `yaml:"max_in_flight"`

	// PixelsAt is the multiple of each limit at which pixels are refused too: a
	// tracker repeats a POST, but a lost pixel is lost. Default 1.08 (so with
	// max_backlog_percent 90 pixels are refused at 97.2 %). At least 1.
	PixelsAt float64 `yaml:"pixels_at"`
	// AcceptAgainAt is the share of a limit below which requests are taken again.
	// Default 0.8. Above 0, at most 1.
	AcceptAgainAt float64 `yaml:"accept_again_at"`
	// MinDwell is how long a refusal lasts at least. Default 2s. Zero: none.
	MinDwell time.Duration `yaml:"min_dwell"`
	// RetryAfter is what a refused tracker is told to wait, give or take half, so
	// that they do not all come back at once. Default 10s. At least 1s.
	RetryAfter time.Duration `yaml:"retry_after"`
}

// DefaultConfig returns the defaults given at each field.
func DefaultConfig() Config {
	return Config{
		MaxBacklogPercent: 90,
		MinFreeDisk:       1152 * configfile.MiB,
		PixelsAt:          1.08,
		AcceptAgainAt:     0.8,
		MinDwell:          2 * time.Second,
		RetryAfter:        10 * time.Second,
	}
}

// Validate says what is wrong with the config, naming each YAML key.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.MaxBacklogEvents < 0 {
		wrong("max_backlog_events: %d is negative; 0 means no limit", c.MaxBacklogEvents)
	}
	if c.MaxBacklogBytes < 0 {
		wrong("max_backlog_bytes: %d is negative; 0 means max_backlog_percent decides", c.MaxBacklogBytes)
	}
	if !(c.MaxBacklogPercent >= 0 && c.MaxBacklogPercent <= 100) {
		wrong("max_backlog_percent: %v is not between 0 and 100", c.MaxBacklogPercent)
	}
	if c.MinFreeDisk < 0 {
		wrong("min_free_disk: %d is negative; 0 means off", c.MinFreeDisk)
	}
	if c.MaxOutage < 0 {
		wrong("max_outage: %v is negative; 0 means no limit", c.MaxOutage)
	}
	if c.MaxInFlight < 0 {
		wrong("max_in_flight: %d is negative; 0 means no limit", c.MaxInFlight)
	}
	if !(c.PixelsAt >= 1 && c.PixelsAt <= 10) {
		wrong("pixels_at: %v is not between 1 and 10", c.PixelsAt)
	}
	if !(c.AcceptAgainAt > 0 && c.AcceptAgainAt <= 1) {
		wrong("accept_again_at: %v is not above 0 and at most 1", c.AcceptAgainAt)
	}
	if c.MinDwell < 0 {
		wrong("min_dwell: %v is negative", c.MinDwell)
	}
	if c.RetryAfter < time.Second {
		wrong("retry_after: %v is less than 1s, the smallest a Retry-After header can say", c.RetryAfter)
	}
	return errors.Join(errs...)
}
