// Package config is the collector's whole config: what stands in one YAML file,
// put together from the configs of the parts, and the pair of files (primary and
// fallback) that one collector runs.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"spillway/collector/internal/admin"
	"spillway/collector/internal/admission"
	"spillway/collector/internal/deadletter"
	"spillway/collector/internal/delivery"
	"spillway/collector/internal/ingest"
	"spillway/collector/internal/spool"
	"spillway/shared/configfile"
	"spillway/shared/httpserver"
	"spillway/shared/logsetup"
)

// Config is what one file says.
type Config struct {
	// Instance names this box in the health report and in the names of S3 objects.
	// It must differ between boxes that write to the same bucket and should stay
	// the same over restarts. Default the host name.
	Instance string `yaml:"instance"`
	// DataDir holds the spool, the dead letters, the mode file and what must
	// survive a restart. It belongs on a disk of its own, never on tmpfs. Default
	// $STATE_DIRECTORY (as set by systemd), else ./spillway-data.
	DataDir string `yaml:"data_dir"`
	// Listen is where trackers send: host:port, or systemd:name for a socket that
	// systemd opened. Default :8080.
	Listen string `yaml:"listen"`

	// Log is the program's own log.
	Log logsetup.Config `yaml:"log"`
	// HTTP is how trackers are spoken to.
	HTTP ingest.Config `yaml:"http"`
	// Admin is the private listener: health, metrics, flush, mode.
	Admin admin.Config `yaml:"admin"`
	// Admission says when trackers are refused.
	Admission admission.Config `yaml:"admission"`
	// Spool is the queue on disk of the good lane.
	Spool spool.Config `yaml:"spool"`
	// BadSpool is the queue on disk of the bad lane.
	BadSpool spool.Config `yaml:"bad_spool"`
	// DeadLetters keeps what can never be delivered.
	DeadLetters deadletter.Config `yaml:"dead_letters"`
	// Delivery is how patiently and how carefully records are delivered.
	Delivery delivery.Config `yaml:"delivery"`
	// Sink is where records go.
	Sink Sink `yaml:"sink"`
	// Stop is how a graceful stop goes.
	Stop Stop `yaml:"stop"`
}

// Stop says how a graceful stop goes.
type Stop struct {
	// Grace is how long requests are still taken after SIGTERM while /readyz
	// already answers 503, so that a load balancer can turn away. Default 0s.
	Grace time.Duration `yaml:"grace"`
	// Timeout bounds the stop after the grace: requests under way, then delivering
	// what can be delivered. What cannot stays in the spool. Default 30s; the
	// supervisor must allow more than grace and timeout together.
	Timeout time.Duration `yaml:"timeout"`
	// Evacuate is for boxes whose disk dies with them: at a stop what the
	// destination in use does not take in a third of the time goes to the other one
	// of primary and fallback. If anything stays on the disk even then, the last log
	// line counts it and the exit code is 1. Dead letters stay. Default false: what
	// is left waits for the next start.
	Evacuate bool `yaml:"evacuate"`
}

// Default returns the config in which nothing is said: files under the data
// directory as the destination.
func Default() Config {
	instance, err := os.Hostname()
	if err != nil {
		instance = "localhost"
	}
	c := Config{
		Instance: instance, DataDir: os.Getenv("STATE_DIRECTORY"), Listen: ":8080",
		Log: logsetup.DefaultConfig(), HTTP: ingest.DefaultConfig(), Admin: admin.DefaultConfig(),
		Admission: admission.DefaultConfig(), Spool: spool.DefaultConfig(), BadSpool: spool.DefaultConfig(),
		DeadLetters: deadletter.DefaultConfig(), Delivery: delivery.DefaultConfig(), Sink: defaultSink(),
		Stop: Stop{Timeout: 30 * time.Second},
	}
	if c.DataDir == "" {
		c.DataDir = "spillway-data"
	}
	// Bad rows are few and small: their lane needs less room.
	c.BadSpool.MaxBytes, c.BadSpool.SegmentBytes, c.BadSpool.SpareSegments = configfile.GiB, 16*configfile.MiB, 0
	return c
}

// Validate names every key that cannot work.
func (c *Config) Validate() error {
	var errs []error
	if c.Instance == "" {
		errs = append(errs, configfile.Invalid("instance", "it is empty and this host has no name"))
	}
	if !plainName(c.Instance) {
		errs = append(errs, configfile.Invalid("instance", "%q becomes part of S3 object names: want letters, digits, '.', '_' and '-'", c.Instance))
	}
	if c.DataDir == "" {
		errs = append(errs, configfile.Invalid("data_dir", "it is empty: name the directory for spool and state"))
	}
	if err := httpserver.CheckAddr(c.Listen); err != nil {
		errs = append(errs, configfile.Under("listen", err))
	}
	if c.Stop.Grace < 0 || c.Stop.Timeout <= 0 {
		errs = append(errs, configfile.Invalid("stop", "grace is %v and timeout is %v: want 0s or more, and more than 0s", c.Stop.Grace, c.Stop.Timeout))
	}
	for key, s := range map[string]spool.Config{"spool": c.Spool, "bad_spool": c.BadSpool} {
		// A segment holds two blocks of labels, and the record with its header and key.
		if least := c.HTTP.MaxRecordBytes + 16*configfile.KiB; s.SegmentBytes < least {
			errs = append(errs, configfile.Invalid(key+".segment_bytes", "%s cannot hold a record of http.max_record_bytes: %s; want %s or more", s.SegmentBytes, c.HTTP.MaxRecordBytes, least))
		}
	}
	errs = append(errs,
		configfile.Under("log", c.Log.Validate()),
		configfile.Under("http", c.HTTP.Validate()),
		configfile.Under("admin", c.Admin.Validate()),
		configfile.Under("admission", c.Admission.Validate()),
		configfile.Under("spool", c.Spool.Validate()),
		configfile.Under("bad_spool", c.BadSpool.Validate()),
		configfile.Under("dead_letters", c.DeadLetters.Validate()),
		configfile.Under("delivery", c.Delivery.Validate()),
		configfile.Under("sink", c.validateSink()),
	)
	return errors.Join(errs...)
}

// Print returns the config as YAML, secrets redacted.
func (c *Config) Print() ([]byte, error) {
	var b bytes.Buffer
	if err := configfile.Print(&b, *c); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func plainName(s string) bool {
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		default:
			return false
		}
	}
	return s != "." && s != ".."
}

// Paths names the files one collector is started with.
type Paths struct {
	Primary  string // empty: defaults
	Fallback string // empty: no fallback
	Mode     string // empty: mode.json in the data directory
}

// Set is the pair of configs one collector runs.
type Set struct {
	Paths    Paths // Mode filled in
	Primary  Config
	Fallback *Config // nil when no fallback config was given
}

// Load reads and checks both files. Every mistake is named with file and line.
func Load(paths Paths) (Set, error) {
	set := Set{Paths: paths, Primary: Default()}
	var err error
	if paths.Primary != "" {
		if set.Primary, err = configfile.Load(paths.Primary, Default()); err != nil {
			return Set{}, err
		}
	}
	if paths.Fallback != "" {
		fallback, err := configfile.Load(paths.Fallback, Default())
		if err != nil {
			return Set{}, err
		}
		if err := sameBox(paths.Fallback, set.Primary, fallback); err != nil {
			return Set{}, err
		}
		set.Fallback = &fallback
	}
	if set.Paths.Mode == "" {
		set.Paths.Mode = filepath.Join(set.Primary.DataDir, "mode.json")
	}
	return set, nil
}

// sameBox refuses a fallback that would leave the backlog behind.
func sameBox(file string, primary, fallback Config) error {
	for _, s := range []struct{ key, want, got string }{
		{"data_dir", primary.DataDir, fallback.DataDir},
		{"instance", primary.Instance, fallback.Instance},
		{"listen", primary.Listen, fallback.Listen},
		{"admin.listen", primary.Admin.Listen, fallback.Admin.Listen},
	} {
		if s.want != s.got {
			return fmt.Errorf("%s: %s is %q but %q in the main config: they must be the same, as both run on the same spool and ports (extends: takes them over)",
				file, s.key, s.got, s.want)
		}
	}
	return nil
}
