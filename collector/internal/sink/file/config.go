package file

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"spillway/shared/configfile"
)

// Config of a sink that writes files. One serves both lanes.
type Config struct {
	// Dir is the directory in which the files stand, an absolute path. It is
	// created when it is first needed. No default.
	Dir string `yaml:"dir"`

	// MaxRecords is how many records one file holds at most. Default 100000.
	MaxRecords int `yaml:"max_records"`
	// MaxBytes is how many bytes of data and keys one file holds at most, before
	// compression. Default 16MiB.
	MaxBytes configfile.Size `yaml:"max_bytes"`
	// Linger is how long a file may wait to fill. Default 30s: the records are safe
	// in the spool meanwhile. Zero: not at all.
	Linger time.Duration `yaml:"linger"`
	// InFlight is how many files are written at a time. Default 2. Each holds its
	// records and their compressed form in memory.
	InFlight int `yaml:"in_flight"`
}

// DefaultConfig returns the defaults given at each field.
func DefaultConfig() Config {
	return Config{MaxRecords: 100_000, MaxBytes: 16 * configfile.MiB, Linger: 30 * time.Second, InFlight: 2}
}

// Validate says what is wrong with the config, naming each YAML key.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Dir == "" {
		wrong("dir: it is missing")
	} else if !filepath.IsAbs(c.Dir) {
		wrong("dir: %q is not an absolute path", c.Dir)
	}
	if c.MaxRecords < 1 || c.MaxRecords > 10_000_000 {
		wrong("max_records: %d is not between 1 and 10000000", c.MaxRecords)
	}
	if c.MaxBytes < configfile.KiB || c.MaxBytes > configfile.GiB {
		wrong("max_bytes: %v is not between 1KiB and 1GiB", c.MaxBytes)
	}
	if c.Linger < 0 || c.Linger > time.Hour {
		wrong("linger: %v is not between 0 and 1h", c.Linger)
	}
	if c.InFlight < 1 || c.InFlight > 64 {
		wrong("in_flight: %d is not between 1 and 64", c.InFlight)
	}
	return errors.Join(errs...)
}
