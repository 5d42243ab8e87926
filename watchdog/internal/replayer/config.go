package replayer

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"spillway/shared/configfile"
)

// Config says whether and how what the fallback wrote is replayed.
type Config struct {
	// Replay has what this box's fallback wrote replayed, once the box is back on
	// the primary. Default false: people start replays.
	Replay bool `yaml:"replay"`
	// After is how long the box must have been on the primary, past its probation
	// and without any rule firing, before a replay begins. Default 15m; 0 begins
	// as soon as the probation is over.
	After time.Duration `yaml:"after"`
	// Command is the program and its arguments, run without a shell, that replays.
	// It gets the collector's name as SPILLWAY_INSTANCE in its environment, must
	// end on SIGTERM, and should print the report of `replay --json`. Default:
	// the collector's replay, with the settings below.
	Command []string `yaml:"command"`
	// Collector is the collector's program. Default /usr/bin/spillway-collector.
	Collector string `yaml:"collector"`
	// Config is the collector's config, which says where events go. Default
	// /etc/spillway/collector.yaml.
	Config string `yaml:"config"`
	// FallbackConfig is the config of its fallback, which says where the objects
	// are. Default /etc/spillway/collector-fallback.yaml.
	FallbackConfig string `yaml:"fallback_config"`
	// Rate is how many events per second are replayed at most. Default 1000/s;
	// empty is no limit but the stream's.
	Rate string `yaml:"rate"`
	// Bandwidth is how many bytes of events per second are replayed at most.
	// Default 5MiB/s; empty is no limit but the stream's.
	Bandwidth string `yaml:"bandwidth"`
	// Timeout is how long one replay may take; one that takes longer is stopped
	// and gone on with an hour later. Default 0: as long as it takes.
	Timeout time.Duration `yaml:"timeout"`
}

// DefaultConfig replays nothing.
func DefaultConfig() Config {
	return Config{
		After:     15 * time.Minute,
		Collector: "/usr/bin/spillway-collector",
		Config:    "/etc/spillway/collector.yaml", FallbackConfig: "/etc/spillway/collector-fallback.yaml",
		Rate: "1000/s", Bandwidth: "5MiB/s",
	}
}

// Validate reports the settings that cannot work.
func (c Config) Validate() error {
	var errs []error
	bad := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, configfile.Invalid(key, format, args...))
		}
	}
	bad(c.After >= 0, "after", "is %s: it cannot be negative", configfile.FormatDuration(c.After))
	bad(c.Timeout >= 0, "timeout", "is %s: it cannot be negative", configfile.FormatDuration(c.Timeout))
	if c.Rate != "" {
		n, err := strconv.ParseFloat(strings.TrimSuffix(c.Rate, "/s"), 64)
		bad(err == nil && n > 0 && !math.IsInf(n, 0), "rate", "%q is no number of events per second like 1000/s", c.Rate)
	}
	if c.Bandwidth != "" {
		n, err := configfile.ParseSize(strings.TrimSuffix(c.Bandwidth, "/s"))
		bad(err == nil && n > 0, "bandwidth", "%q is no size per second like 5MiB/s", c.Bandwidth)
	}
	if len(c.Command) > 0 {
		bad(c.Command[0] != "", "command", "has no program")
		return errors.Join(errs...)
	}
	for _, p := range []struct{ key, path string }{
		{"collector", c.Collector}, {"config", c.Config}, {"fallback_config", c.FallbackConfig},
	} {
		bad(filepath.IsAbs(p.path), p.key, "%q is not an absolute path", p.path)
	}
	return errors.Join(errs...)
}

// Check tells what would keep the command from running here.
func (c Config) Check() error {
	if len(c.Command) > 0 {
		return runnable(c.Command[0])
	}
	if err := runnable(c.Collector); err != nil {
		return err
	}
	for _, path := range []string{c.Config, c.FallbackConfig} {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("a config that the replay needs cannot be read: %w", err)
		}
		_ = file.Close()
	}
	return nil
}

func runnable(program string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("the program of the replay cannot be run: %w", err)
	}
	return nil
}

// argv is the command that replays what instance wrote. admin is the address of
// the collector's admin listener: the replay gives way to that collector, if the
// address is one that a URL can name.
func (c Config) argv(instance, admin string) []string {
	if len(c.Command) > 0 {
		return c.Command
	}
	argv := []string{c.Collector, "replay", "--json", "--config", c.Config, "--fallback-config", c.FallbackConfig, "--instance", instance}
	if c.Rate != "" {
		argv = append(argv, "--rate", c.Rate)
	}
	if c.Bandwidth != "" {
		argv = append(argv, "--bandwidth", c.Bandwidth)
	}
	if admin != "" && !strings.HasPrefix(admin, "unix:") {
		argv = append(argv, "--yield-to", "http://"+admin)
	}
	return argv
}

// pace says how fast the replay is at most; empty when only the command knows.
func (c Config) pace() string {
	switch {
	case len(c.Command) > 0, c.Rate == "" && c.Bandwidth == "":
		return ""
	case c.Bandwidth == "":
		return ", at most " + c.Rate
	case c.Rate == "":
		return ", at most " + c.Bandwidth
	}
	return ", at most " + c.Rate + " and " + c.Bandwidth
}
