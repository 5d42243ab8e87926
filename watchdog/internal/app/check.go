package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/admin"
	"spillway/watchdog/internal/config"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/probe"
	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
	"spillway/watchdog/internal/remedy/systemd"
)

// Verdict is what a check came to.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning" // it works for now, or could not be tried
	Failed  Verdict = "FAILED"  // the watchdog could not do its work
)

// Finding is one thing that was checked.
type Finding struct {
	What    string
	Verdict Verdict
	Text    string
}

// Check tries, without any lasting effect, what the watchdog will have to do:
// write its state and the mode file, ask the collector, signal and restart it.
// It is meant to be run as the user that the watchdog runs as.
func Check(ctx context.Context, c config.Config, log *logrus.Entry) ([]Finding, error) {
	client, err := admin.New(c.Collector.Admin, log)
	if err != nil {
		return nil, err
	}
	way := newWay(c.Restarter, client)
	defer func() { _ = way.close() }()
	findings := []Finding{
		checkWrite("state_dir", c.StateDir),
		checkModeDir(filepath.Dir(c.ModeFile)),
		checkModeFile(c.ModeFile),
	}
	findings = append(findings, checkReplay(c)...)
	findings = append(findings, checkTiming(ctx, c, way)...)
	o := probe.New(c.Collector.Probe, probe.Options{
		Reporter: client, Supervisor: way.supervisor, Timeout: c.Policy.Poll.Timeout,
	}).Observe(ctx)
	if o.Reach != decide.ReachOK {
		findings = append(findings, Finding{"collector", Warning, fmt.Sprintf("no health report from %s (%s): %s", client.Address(), o.Reach, o.Detail)})
		return append(findings, checkRestarter(ctx, c, way.restarter, process.Identity{}, Warning)), nil
	}
	r := o.Report
	findings = append(findings,
		Finding{"collector", OK, fmt.Sprintf("%s answers at %s, runs %s", r.Instance, client.Address(), r.Mode)},
		checkFlush(r, way.signals), checkFallback(r),
		checkRestarter(ctx, c, way.restarter, remedy.ProcessOf(r), Failed))
	return findings, nil
}

// checkTiming compares the policy with the timing of who else watches over the
// collector.
func checkTiming(ctx context.Context, c config.Config, w way) []Finding {
	around := decide.Surroundings{Kubernetes: os.Getenv("KUBERNETES_SERVICE_HOST") != ""}
	var findings []Finding
	if unit, ok := w.restarter.(*systemd.Restarter); ok {
		ctx, cancel := context.WithTimeout(ctx, c.Policy.Poll.Timeout)
		defer cancel()
		known, trouble, err := unit.Surroundings(ctx)
		if err != nil {
			return []Finding{{"timing", Warning, "the unit's own timing is not known: " + err.Error()}}
		}
		known.Kubernetes = around.Kubernetes
		around = known
		if trouble != "" {
			findings = append(findings, Finding{"unit", Failed, trouble})
		}
	}
	for _, f := range c.Policy.Check(around) {
		verdict := Warning
		if f.Refuse {
			verdict = Failed
		}
		findings = append(findings, Finding{"timing", verdict, f.Key + ": " + f.Text})
	}
	if len(findings) == 0 {
		return []Finding{{"timing", OK, "the policy fits its surroundings"}}
	}
	return findings
}

// checkWrite tries to write where a file will have to be replaced. A directory
// that is not there yet is made at the start, so then its parent is tried.
func checkWrite(what, dir string) Finding {
	wanted := dir
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	file, err := os.CreateTemp(dir, ".spillway-check-*")
	if err != nil {
		return Finding{what, Failed, fmt.Sprintf("cannot be written: %v", err)}
	}
	_ = file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return Finding{what, Failed, fmt.Sprintf("what was written cannot be removed: %v", err)}
	}
	if dir != wanted {
		return Finding{what, OK, wanted + " is not there yet and can be made in " + dir}
	}
	return Finding{what, OK, dir + " can be written"}
}

// checkModeDir is checkWrite for a directory that is the collector's to make.
func checkModeDir(dir string) Finding {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return Finding{"mode_dir", Failed, dir + " is not there: it belongs to the collector, and both must be able to write it"}
	}
	return checkWrite("mode_dir", dir)
}

func checkModeFile(path string) Finding {
	file, err := mode.Read(path)
	if err != nil {
		return Finding{"mode_file", Failed, err.Error()}
	}
	if file.Rev == 0 {
		return Finding{"mode_file", OK, path + " is not there yet, which means primary"}
	}
	if err := unix.Access(path+".lock", unix.W_OK); err != nil && !errors.Is(err, unix.ENOENT) {
		return Finding{"mode_file", Failed, fmt.Sprintf("its lock %s.lock cannot be taken: %v", path, err)}
	}
	text := fmt.Sprintf("says %s, by %s", file.Mode, file.By)
	if file.Pinned {
		return Finding{"mode_file", Warning, text + ", and is pinned: the watchdog will leave it alone until resume"}
	}
	return Finding{"mode_file", OK, text}
}

// checkFlush tells whether the flush can be asked for by signal.
func checkFlush(r *healthapi.Report, via remedy.Signals) Finding {
	const instead = "; the flush will be asked for by POST /flush"
	p, err := process.Open(remedy.ProcessOf(r))
	if err != nil {
		return Finding{"flush", Warning, err.Error() + instead}
	}
	defer func() { _ = p.Close() }()
	if _, direct := via.(remedy.Direct); direct {
		if err := p.MaySignal(); err != nil {
			return Finding{"flush", Warning, err.Error() + instead}
		}
	}
	catches, err := p.Catches(unix.SIGUSR1)
	switch {
	case err != nil:
		return Finding{"flush", Warning, err.Error() + instead}
	case !catches:
		return Finding{"flush", Warning, fmt.Sprintf("process %d has no handler for SIGUSR1", r.PID) + instead}
	}
	return Finding{"flush", OK, fmt.Sprintf("process %d is proven and catches SIGUSR1", r.PID)}
}

func checkFallback(r *healthapi.Report) Finding {
	switch f := r.Fallback; {
	case !f.Configured:
		return Finding{"fallback", Failed, "the collector has no fallback config: there is nowhere to divert to"}
	case !f.Valid, !f.Ready:
		return Finding{"fallback", Failed, "the collector's fallback would not work now: " + f.LastError}
	}
	return Finding{"fallback", OK, "the collector has tried its fallback and it works"}
}

func checkRestarter(ctx context.Context, c config.Config, r remedy.Restarter, id process.Identity, bad Verdict) Finding {
	ctx, cancel := context.WithTimeout(ctx, c.Policy.Poll.Timeout)
	defer cancel()
	if err := r.Check(ctx, id); err != nil {
		return Finding{"restarter", bad, r.Name() + ": " + err.Error()}
	}
	return Finding{"restarter", OK, r.Name() + " may be used"}
}
