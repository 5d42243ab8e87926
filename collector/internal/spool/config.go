package spool

import (
	"errors"
	"fmt"
	"time"

	"spillway/shared/configfile"
)

// Config sets the limits of a log.
type Config struct {
	// MaxBytes is how many bytes of records that are not acked may be on disk,
	// overhead included. Default and zero: 80 % of the volume.
	MaxBytes configfile.Size `yaml:"max_bytes"`
	// MaxEvents is how many records that are not acked may be on disk. Default
	// and zero: no limit.
	MaxEvents int64 `yaml:"max_events"`
	// MinFreeDisk is what the log leaves free on the volume: below it nothing is
	// appended. Default 1GiB. Zero: off.
	MinFreeDisk configfile.Size `yaml:"min_free_disk"`
	// SegmentBytes is the size of one file of the log: space is taken and given
	// back in this unit, and no record may be larger. A multiple of 4KiB from
	// 16KiB to 1GiB. Default 64MiB.
	SegmentBytes configfile.Size `yaml:"segment_bytes"`
	// SpareSegments is how many emptied files are kept to be written again, which
	// is faster than growing new ones. They are dropped when space is low.
	// Default 2. Zero: none.
	SpareSegments int `yaml:"spare_segments"`
	// AckEvery is how often acks are written to disk; a crash redelivers what was
	// acked since. Default 100ms. At least 1ms.
	AckEvery time.Duration `yaml:"ack_every"`
}

// DefaultConfig returns the defaults given at each field.
func DefaultConfig() Config {
	return Config{
		MinFreeDisk:   configfile.GiB,
		SegmentBytes:  64 * configfile.MiB,
		SpareSegments: 2,
		AckEvery:      100 * time.Millisecond,
	}
}

const (
	minSegmentBytes = 4 * blockSize
	maxSegmentBytes = configfile.GiB
)

// Validate says what is wrong with the config, naming each YAML key.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.SegmentBytes < minSegmentBytes || c.SegmentBytes > maxSegmentBytes || c.SegmentBytes%blockSize != 0 {
		wrong("segment_bytes: %s is not a multiple of 4KiB from 16KiB to 1GiB", c.SegmentBytes)
	}
	if c.MaxBytes < 0 {
		wrong("max_bytes: %d is negative; 0 means 80 %% of the volume", c.MaxBytes)
	} else if c.MaxBytes > 0 && c.MaxBytes < c.SegmentBytes {
		wrong("max_bytes: %s is less than segment_bytes: %s", c.MaxBytes, c.SegmentBytes)
	}
	if c.MaxEvents < 0 {
		wrong("max_events: %d is negative; 0 means no limit", c.MaxEvents)
	}
	if c.MinFreeDisk < 0 {
		wrong("min_free_disk: %d is negative; 0 means off", c.MinFreeDisk)
	}
	if c.SpareSegments < 0 {
		wrong("spare_segments: %d is negative; 0 means none", c.SpareSegments)
	}
	if c.AckEvery < time.Millisecond {
		wrong("ack_every: %v is less than 1ms", c.AckEvery)
	}
	return errors.Join(errs...)
}
