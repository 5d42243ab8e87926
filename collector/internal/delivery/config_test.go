package delivery

import (
	"strings"
	"testing"
	"time"
)

func TestConfig_Validate_namesTheKey(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	cases := map[string]func(*Config){
		"min_backoff":        func(c *Config) { c.MinBackoff = 0 },
		"max_backoff":        func(c *Config) { c.MaxBackoff = time.Millisecond },
		"write_timeout":      func(c *Config) { c.WriteTimeout = 0 },
		"max_memory":         func(c *Config) { c.MaxMemory = 1 },
		"flush_timeout":      func(c *Config) { c.FlushTimeout = 0 },
		"stop_timeout":       func(c *Config) { c.StopTimeout = -1 },
		"circuit.failures":   func(c *Config) { c.Circuit.Failures = 0 },
		"circuit.after":      func(c *Config) { c.Circuit.After = -1 },
		"circuit.records":    func(c *Config) { c.Circuit.Records = 0 },
		"probe.every":        func(c *Config) { c.Probe.Every = 0 },
		"probe.records":      func(c *Config) { c.Probe.Records = 0 },
		"probe.deadline":     func(c *Config) { c.Probe.Deadline = 0 },
		"probe.good":         func(c *Config) { c.Probe.Good = 0 },
		"probe.level2_every": func(c *Config) { c.Probe.Level2Every = 0 },
		"probe.level2_for":   func(c *Config) { c.Probe.Level2For = -1 },
		"probe.level3_every": func(c *Config) { c.Probe.Level3Every = 0 },
		"probe.level3_share": func(c *Config) { c.Probe.Level3Share = 1.5 },
	}
	for key, spoil := range cases {
		c := DefaultConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), key+":") {
			t.Errorf("%s: Validate returned %v", key, err)
		}
	}
}

func TestBackoff_growsAndStaysBetweenItsBounds(t *testing.T) {
	low, high := 100*time.Millisecond, 30*time.Second
	for n := 1; n <= 100; n++ {
		ceiling := high
		if n < 9 {
			ceiling = min(high, low<<n)
		}
		for range 200 {
			if d := backoff(low, high, n); d < low || d > ceiling {
				t.Fatalf("wait %d is %v, want %v to %v", n, d, low, ceiling)
			}
		}
	}
	if d := backoff(high, high, 5); d != high {
		t.Errorf("with equal bounds the wait is %v", d)
	}
}
