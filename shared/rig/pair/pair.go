// Package pair runs the two real programs, a collector and its watchdog, on the
// rig's stand-ins for Kinesis and S3: for the demo, for `make run`, and for the
// end-to-end tests.
//
//	var b proc.Builder
//	defer b.Close()
//	programs, err := pair.Build(&b)
//	p, err := pair.Start(ctx, pair.Options{Programs: programs})
//	defer p.Close()
//	p.CutKinesis()
//	report, err := p.WaitHealth(ctx, func(r *healthapi.Report) error { ... })
//
// Both programs run under a supervisor that starts them again whenever they end,
// with configs that make everything happen within seconds.
package pair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"spillway/shared/rig"
	"spillway/shared/rig/fault"
	"spillway/shared/rig/port"
	"spillway/shared/rig/proc"
	"spillway/shared/rig/tracker"
)

// Programs are the paths of the two programs.
type Programs struct {
	Collector string
	Watchdog  string
}

// Build builds both programs, each once for a builder.
func Build(b *proc.Builder) (Programs, error) {
	collector, err := b.Build("spillway/collector")
	if err != nil {
		return Programs{}, err
	}
	watchdog, err := b.Build("spillway/watchdog")
	if err != nil {
		return Programs{}, err
	}
	return Programs{Collector: collector, Watchdog: watchdog}, nil
}

// Options of a pair. Only Programs is required.
type Options struct {
	Programs Programs
	Rig      rig.Options
	// Dir is where configs, data and logs stand. Empty: a temporary folder, removed
	// by Close. It must be short: sockets stand in it.
	Dir string
	// YAML that is laid over the fast configs.
	Collector, Fallback, Watchdog string
	// Addresses as host:port. Empty: free ports of 127.0.0.1.
	Listen, Admin, WatchdogListen string
	// Alone leaves the watchdog out; StartWatchdog starts it later.
	Alone bool
	// Before is called when the stand-ins run and the programs do not yet.
	Before func(*rig.Rig) error
}

// Pair is a running pair. It is safe for concurrent use, except that
// StartCollector, StartWatchdog and Close are called by one goroutine.
type Pair struct {
	Rig       *rig.Rig
	Collector *proc.Supervisor
	Watchdog  *proc.Supervisor // nil while there is none

	options Options
	env     []string
	ownDir  bool
}

// Backoff is how the pair's supervisor restarts: at once, and when it goes on
// after at most half a second.
var Backoff = proc.Backoff{Base: 50 * time.Millisecond, Max: 500 * time.Millisecond, ResetAfter: 2 * time.Second}

// Start starts the stand-ins, then the programs, and returns when the collector
// has opened its spool and serves, or with an error when ctx ends before. What
// was started runs until Close.
func Start(ctx context.Context, o Options) (*Pair, error) {
	p := &Pair{options: o}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the pair: %w", err), p.Close())
	}
	return p, nil
}

func (p *Pair) start(ctx context.Context) error {
	o := &p.options
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "pair-")
		if err != nil {
			return err
		}
		o.Dir, p.ownDir = dir, true
	}
	for _, addr := range []*string{&o.Listen, &o.Admin, &o.WatchdogListen} {
		if *addr != "" {
			continue
		}
		free, err := port.Free()
		if err != nil {
			return err
		}
		*addr = port.Addr(free)
	}
	var err error
	if p.Rig, err = rig.Start(context.WithoutCancel(ctx), o.Rig); err != nil {
		return err
	}
	p.env = p.Rig.Env()
	if err := p.writeConfigs(); err != nil {
		return err
	}
	if o.Before != nil {
		if err := o.Before(p.Rig); err != nil {
			return err
		}
	}
	if err := p.StartCollector(ctx); err != nil || o.Alone {
		return err
	}
	return p.StartWatchdog(ctx)
}

// StartCollector starts the collector, again after it was stopped for good, and
// returns when it serves.
func (p *Pair) StartCollector(ctx context.Context) error {
	var err error
	if p.Collector, err = proc.Supervise(p.CollectorSpec(), Backoff); err != nil {
		return err
	}
	err = proc.Until(ctx, func() error {
		if n := len(p.Collector.Restarts()); n >= 5 {
			return proc.Final(fmt.Errorf("it ended %d times", n))
		}
		r, err := p.Health(ctx)
		if err != nil {
			return err
		}
		return serves(r)
	})
	if err != nil {
		return fmt.Errorf("wait until the collector serves: %w\n%s", err, p.Collector.Process().Tail(5))
	}
	return nil
}

// StartWatchdog starts the watchdog and returns when it has looked once.
func (p *Pair) StartWatchdog(ctx context.Context) error {
	spec := proc.Spec{
		Path: p.options.Programs.Watchdog, Args: []string{"run", "--config", p.WatchdogConfig()},
		Env: p.env, Dir: p.options.Dir, Log: p.path("watchdog.log"),
	}
	var err error
	if p.Watchdog, err = proc.Supervise(spec, Backoff); err != nil {
		return err
	}
	if _, err := p.WaitStatus(ctx, func(*Status) error { return nil }); err != nil {
		return fmt.Errorf("wait until the watchdog has looked: %w\n%s", err, p.Watchdog.Process().Tail(30))
	}
	return nil
}

// CollectorSpec is how the collector is run.
func (p *Pair) CollectorSpec() proc.Spec {
	return proc.Spec{
		Path: p.options.Programs.Collector,
		Args: []string{"run", "--config", p.CollectorConfig(), "--fallback-config", p.FallbackConfig(), "--mode-file", p.ModeFile()},
		Env:  p.env, Dir: p.options.Dir, Log: p.path("collector.log"),
	}
}

// Close stops the watchdog, the collector and the stand-ins, in this order, and
// removes the temporary folder. Programs that do not stop in time are killed.
func (p *Pair) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var errs []error
	for _, s := range []*proc.Supervisor{p.Watchdog, p.Collector} {
		if s == nil {
			continue
		}
		if _, err := s.Stop(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	if p.Rig != nil {
		errs = append(errs, p.Rig.Close())
	}
	if p.ownDir {
		errs = append(errs, os.RemoveAll(p.options.Dir))
	}
	return errors.Join(errs...)
}

// URL is where trackers send.
func (p *Pair) URL() string { return "http://" + p.options.Listen }

// Addr is URL without http://.
func (p *Pair) Addr() string { return p.options.Listen }

// AdminURL is the collector's private listener.
func (p *Pair) AdminURL() string { return "http://" + p.options.Admin }

// WatchdogURL is where the watchdog tells its status.
func (p *Pair) WatchdogURL() string { return "http://" + p.options.WatchdogListen }

// Dir is the folder of configs, data and logs.
func (p *Pair) Dir() string { return p.options.Dir }

// DataDir is the collector's.
func (p *Pair) DataDir() string { return p.path("data") }

// The files of the pair.
func (p *Pair) CollectorConfig() string { return p.path("collector.yaml") }
func (p *Pair) FallbackConfig() string  { return p.path("collector-fallback.yaml") }
func (p *Pair) WatchdogConfig() string  { return p.path("watchdog.yaml") }
func (p *Pair) ModeFile() string        { return filepath.Join(p.DataDir(), "mode.json") }
func (p *Pair) JournalFile() string     { return p.path("watchdog", "journal.ndjson") }

func (p *Pair) path(elem ...string) string {
	return filepath.Join(append([]string{p.options.Dir}, elem...)...)
}

// CutKinesis makes Kinesis unreachable: connections are refused, open ones cut.
func (p *Pair) CutKinesis() error { return p.Rig.Kinesis.Break(fault.Fault{Kind: fault.Down}) }

// MendKinesis ends every fault of Kinesis.
func (p *Pair) MendKinesis() error { return p.Rig.Kinesis.Mend() }

// CutS3 makes S3 unreachable.
func (p *Pair) CutS3() error { return p.Rig.S3.Break(fault.Fault{Kind: fault.Down}) }

// MendS3 ends every fault of S3.
func (p *Pair) MendS3() error { return p.Rig.S3.Mend() }

// Audit looks for a tracker's events in the good stream and in the good objects.
func (p *Pair) Audit(l *tracker.Ledger) (tracker.Report, error) {
	return p.Rig.Audit(l, rig.GoodStream, rig.Bucket, Prefix)
}

// Tail returns the last lines that both programs wrote, for messages.
func (p *Pair) Tail(lines int) string {
	text := "collector:\n" + p.Collector.Process().Tail(lines)
	if p.Watchdog != nil {
		text += "\nwatchdog:\n" + p.Watchdog.Process().Tail(lines)
	}
	return text
}
