// Package config is the watchdog's one YAML file: the parts' own settings put
// together, with what belongs to no part.
package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spillway/shared/configfile"
	"spillway/shared/httpserver"
	"spillway/shared/logsetup"
	"spillway/watchdog/internal/admin"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/journal"
	"spillway/watchdog/internal/probe"
	"spillway/watchdog/internal/remedy/command"
	"spillway/watchdog/internal/remedy/systemd"
	"spillway/watchdog/internal/replayer"
)

// Config is the whole file.
type Config struct {
	// Instance is the name of this box, as it stands in the mode file, in the
	// journal and in messages. Default the host's name.
	Instance string `yaml:"instance"`
	// StateDir is where the watchdog keeps its state, its journal, its lock and
	// its control socket. Default /var/lib/spillway-watchdog.
	StateDir string `yaml:"state_dir"`
	// ModeFile says which config the collector runs; the collector reads the same
	// file. Default /var/lib/spillway/mode.json.
	ModeFile string `yaml:"mode_file"`
	// Listen is where metrics, status and the watchdog's own health are served,
	// for reading only: host:port or unix:/path; empty serves none. Default
	// 127.0.0.1:9092.
	Listen string `yaml:"listen"`
	// Collector is how to reach the collector.
	Collector Collector `yaml:"collector"`
	// Restarter is how to restart the collector.
	Restarter Restarter `yaml:"restarter"`
	// Policy is when to do what.
	Policy decide.Policy `yaml:",inline"`
	// AfterFailBack is what is done with what the fallback wrote, once the box is
	// back on the primary.
	AfterFailBack replayer.Config `yaml:"after_fail_back"`
	// Journal is how much of the past is kept.
	Journal journal.Config `yaml:"journal"`
	// Log is the program's own log.
	Log logsetup.Config `yaml:"log"`
}

// Collector is how to reach the collector.
type Collector struct {
	Admin admin.Config `yaml:",inline"`
	Probe probe.Config `yaml:",inline"`
}

// Restarter chooses the ordinary way to restart the collector.
type Restarter struct {
	// Use is systemd, signal (end the process, whoever supervises it starts it
	// again), command, or live (switch in place, for where a restart is never
	// wanted). Default signal.
	Use string `yaml:"use"`
	// Systemd is the unit, for use: systemd.
	Systemd systemd.Config `yaml:"systemd"`
	// Command is the command, for use: command.
	Command command.Config `yaml:"command"`
}

// The names of the restarters.
const (
	UseSystemd = "systemd"
	UseSignal  = "signal"
	UseCommand = "command"
	UseLive    = "live"
)

// Default is the config of a watchdog beside a collector on the same host.
func Default() Config {
	return Config{
		StateDir:  "/var/lib/spillway-watchdog",
		ModeFile:  "/var/lib/spillway/mode.json",
		Listen:    "127.0.0.1:9092",
		Collector: Collector{Admin: admin.DefaultConfig(), Probe: probe.DefaultConfig()},
		Restarter: Restarter{Use: UseSignal, Systemd: systemd.DefaultConfig()},
		Policy:    decide.DefaultPolicy(),
		Journal:   journal.DefaultConfig(),
		Log:       logsetup.DefaultConfig(),

		AfterFailBack: replayer.DefaultConfig(),
	}
}

// Load reads the file at path over the defaults; an empty path gives the
// defaults. The result is valid, and its instance is set.
func Load(path string) (Config, error) {
	c := Default()
	var err error
	if path == "" {
		err = c.Validate()
	} else {
		c, err = configfile.Load(path, c)
	}
	if err != nil {
		return c, err
	}
	if c.Instance == "" {
		name, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("instance: is not set and the host has no name: %w", err)
		}
		c.Instance = name
	}
	return c, nil
}

// Validate reports every setting that cannot work, by its key.
func (c Config) Validate() error {
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	absolute := func(key, path string) {
		if !filepath.IsAbs(path) {
			add(configfile.Invalid(key, "%q is not an absolute path", path))
		}
	}
	absolute("state_dir", c.StateDir)
	absolute("mode_file", c.ModeFile)
	if strings.ContainsAny(c.Instance, "\n\r\x00") {
		add(configfile.Invalid("instance", "%q holds a line break", c.Instance))
	}
	if err := httpserver.CheckAddr("unix:" + c.ControlSocket()); err != nil && filepath.IsAbs(c.StateDir) {
		add(configfile.Invalid("state_dir", "the control socket cannot stand there: %s", err))
	}
	if c.Listen != "" {
		if err := httpserver.CheckAddr(c.Listen); err != nil {
			add(configfile.Invalid("listen", "%s", err))
		}
	}
	add(configfile.Under("collector", c.Collector.Admin.Validate()))
	add(configfile.Under("collector", c.Collector.Probe.Validate()))
	add(configfile.Under("restarter", c.Restarter.Validate()))
	add(c.Policy.Validate())
	add(configfile.Under("after_fail_back", c.AfterFailBack.Validate()))
	add(configfile.Under("journal", c.Journal.Validate()))
	add(configfile.Under("log", c.Log.Validate()))
	return errors.Join(errs...)
}

// Validate reports the settings that cannot work.
func (r Restarter) Validate() error {
	switch r.Use {
	case UseSystemd:
		return configfile.Under("systemd", r.Systemd.Validate())
	case UseCommand:
		return configfile.Under("command", r.Command.Validate())
	}
	if all := []string{UseSystemd, UseSignal, UseCommand, UseLive}; !slices.Contains(all, r.Use) {
		return configfile.Invalid("use", "%q is no way to restart: want one of %s", r.Use, strings.Join(all, ", "))
	}
	return nil
}

// Name is how the mode file names this watchdog.
func (c Config) Name() string { return "watchdog " + c.Instance }

// StateFile is where the state is kept.
func (c Config) StateFile() string { return filepath.Join(c.StateDir, "watchdog-state.json") }

// JournalFile is where the journal is kept.
func (c Config) JournalFile() string { return filepath.Join(c.StateDir, "journal.ndjson") }

// ReplayFile is where it is remembered whether a replay is due.
func (c Config) ReplayFile() string { return filepath.Join(c.StateDir, "replay.json") }

// LockFile keeps a second watchdog from the same state.
func (c Config) LockFile() string { return filepath.Join(c.StateDir, "watchdog.lock") }

// ModeLockFile keeps a second watchdog from the same collector.
func (c Config) ModeLockFile() string { return c.ModeFile + ".watchdog" }

// ControlSocket is where people's orders are taken.
func (c Config) ControlSocket() string { return filepath.Join(c.StateDir, "control.sock") }

// CommandsDir is where orders wait for a watchdog that does not run.
func (c Config) CommandsDir() string { return filepath.Join(c.StateDir, "commands") }
