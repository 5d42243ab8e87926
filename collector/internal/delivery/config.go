package delivery

import (
	"errors"
	"fmt"
	"time"

	"spillway/shared/configfile"
)

// Config says how patiently and how carefully records are delivered. It is the
// same for both lanes; how batches are cut follows from the sink (sink.Limits).
type Config struct {
	// MinBackoff is the shortest wait before what failed is tried again.
	// Default 100ms. At least 1ms.
	MinBackoff time.Duration `yaml:"min_backoff"`
	// MaxBackoff is the longest such wait: waits double with each failure and are
	// drawn at random below that. Default 30s.
	MaxBackoff time.Duration `yaml:"max_backoff"`
	// WriteTimeout ends an attempt that the sink itself has not ended. Default
	// 1m; longer than the sink's own time-out. At least 100ms.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// MaxMemory is how many bytes of records a lane holds in memory, waiting or
	// being written, however large the backlog is. One record may go over it.
	// Default 64MiB. At least 1MiB.
	MaxMemory configfile.Size `yaml:"max_memory"`
	// FlushTimeout is how long a flush may last. Default 10s. At least 1ms.
	FlushTimeout time.Duration `yaml:"flush_timeout"`
	// StopTimeout is how long a stop goes on delivering; what is left then stays
	// in the spool. Default 5s. Zero: a stop delivers nothing more.
	StopTimeout time.Duration `yaml:"stop_timeout"`
	// Circuit says when a destination counts as down.
	Circuit CircuitConfig `yaml:"circuit"`
	// Probe says how the primary is tried while the fallback is in use.
	Probe ProbeConfig `yaml:"probe"`
}

// CircuitConfig says when a destination counts as down, so that it is asked by
// one batch at a time.
type CircuitConfig struct {
	// Failures is how many writes in a row must fail as a whole. Default 5. At
	// least 1.
	Failures int `yaml:"failures"`
	// After is how long writes must have failed without one that did not,
	// whatever their number. Default 10s. Zero: only Failures counts.
	After time.Duration `yaml:"after"`
	// Records is how large a batch may be that asks whether it is up again.
	// Default 50. At least 1.
	Records int `yaml:"records"`
}

// ProbeConfig says how the primary is tried with real records, in three levels,
// while the lane delivers to the fallback.
type ProbeConfig struct {
	// Every is the time between probes at level 1. Default 30s.
	Every time.Duration `yaml:"every"`
	// Records is the least size of a probe at levels 1 and 2, if so many wait; it
	// is twice the number of shards if that is more. Default 50. At least 1.
	Records int `yaml:"records"`
	// Deadline is when a probe without an answer counts as bad. Default 10s.
	Deadline time.Duration `yaml:"deadline"`
	// Good is how many good probes in a row lead to level 2. Default 5. At least 1.
	Good int `yaml:"good"`
	// Level2Every is the time between probes at level 2. Default 5s.
	Level2Every time.Duration `yaml:"level2_every"`
	// Level2For is how long level 2 lasts before level 3. Default 1m.
	Level2For time.Duration `yaml:"level2_for"`
	// Level3Every is the time between probes at level 3. Default 1s.
	Level3Every time.Duration `yaml:"level3_every"`
	// Level3Share is the share of what comes in that is sent to the primary at
	// level 3, from above 0 to 1. Default 0.1.
	Level3Share float64 `yaml:"level3_share"`
}

// DefaultConfig returns the defaults given at each field.
func DefaultConfig() Config {
	return Config{
		MinBackoff:   100 * time.Millisecond,
		MaxBackoff:   30 * time.Second,
		WriteTimeout: time.Minute,
		MaxMemory:    64 * configfile.MiB,
		FlushTimeout: 10 * time.Second,
		StopTimeout:  5 * time.Second,
		Circuit:      CircuitConfig{Failures: 5, After: 10 * time.Second, Records: 50},
		Probe: ProbeConfig{
			Every: 30 * time.Second, Records: 50, Deadline: 10 * time.Second, Good: 5,
			Level2Every: 5 * time.Second, Level2For: time.Minute,
			Level3Every: time.Second, Level3Share: 0.1,
		},
	}
}

// Validate says what is wrong with the config, naming each YAML key.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	least := func(key string, got, want time.Duration) {
		if got < want {
			wrong("%s: %v is less than %v", key, got, want)
		}
	}
	least("min_backoff", c.MinBackoff, time.Millisecond)
	if c.MaxBackoff < c.MinBackoff {
		wrong("max_backoff: %v is less than min_backoff: %v", c.MaxBackoff, c.MinBackoff)
	}
	least("write_timeout", c.WriteTimeout, 100*time.Millisecond)
	if c.MaxMemory < configfile.MiB {
		wrong("max_memory: %s is less than 1MiB", c.MaxMemory)
	}
	least("flush_timeout", c.FlushTimeout, time.Millisecond)
	least("stop_timeout", c.StopTimeout, 0)
	if c.Circuit.Failures < 1 {
		wrong("circuit.failures: %d is less than 1", c.Circuit.Failures)
	}
	least("circuit.after", c.Circuit.After, 0)
	if c.Circuit.Records < 1 {
		wrong("circuit.records: %d is less than 1", c.Circuit.Records)
	}
	p := c.Probe
	least("probe.every", p.Every, time.Millisecond)
	if p.Records < 1 {
		wrong("probe.records: %d is less than 1", p.Records)
	}
	least("probe.deadline", p.Deadline, time.Millisecond)
	if p.Good < 1 {
		wrong("probe.good: %d is less than 1", p.Good)
	}
	least("probe.level2_every", p.Level2Every, time.Millisecond)
	least("probe.level2_for", p.Level2For, 0)
	least("probe.level3_every", p.Level3Every, time.Millisecond)
	if !(p.Level3Share > 0 && p.Level3Share <= 1) {
		wrong("probe.level3_share: %v is not above 0 and at most 1", p.Level3Share)
	}
	return errors.Join(errs...)
}
