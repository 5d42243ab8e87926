// Package probe asks the collector how it is. It asks the health report first;
// only when that gives no good answer it calls two more witnesses, so that a
// dead health endpoint is not mistaken for a dead collector: the port that
// trackers use, and the kernel's view of the process.
//
// Nothing is concluded here. Each poll becomes part of one observation, and a
// failed poll is an observation as much as a good one.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spillway/shared/healthapi"
	"spillway/watchdog/internal/admin"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/process"
)

// Reporter asks for one health report. An error is a failed poll.
type Reporter interface {
	Report(ctx context.Context) (*healthapi.Report, error)
}

// Supervisor tells what the collector's supervisor says about its unit.
type Supervisor interface {
	Look(ctx context.Context) (decide.Supervisor, error)
}

// Options is what a prober needs.
type Options struct {
	Reporter   Reporter
	Supervisor Supervisor    // nil where nothing supervises that could be asked
	Timeout    time.Duration // of each question
	Metrics    prometheus.Registerer
	// Last is what an earlier run saw last, so that an old report is known as one.
	Last decide.Seen
	// Process is the collector as an earlier run saw it last; zero when none did.
	Process process.Identity
}

// Prober observes one collector. One goroutine observes.
type Prober struct {
	cfg     Config
	opts    Options
	public  *publicPort
	process processWitness
	metrics *metrics
	timeout atomic.Int64 // a time.Duration

	bootID string
	seq    uint64
	gone   []string // boot ids that were followed by another, newest last
}

// New returns a prober. cfg must be valid.
func New(cfg Config, opts Options) *Prober {
	p := &Prober{
		cfg: cfg, opts: opts, public: newPublicPort(cfg.PublicAddress),
		metrics: newMetrics(opts.Metrics), bootID: opts.Last.BootID, seq: opts.Last.Seq,
		process: processWitness{id: opts.Process},
	}
	p.SetTimeout(opts.Timeout)
	return p
}

// SetTimeout changes the deadline of each question, from the next poll on. It
// may be called while Observe runs.
func (p *Prober) SetTimeout(d time.Duration) { p.timeout.Store(int64(d)) }

// Observe polls once. It fills the fields of an observation that tell about the
// collector and returns within a few timeouts.
func (p *Prober) Observe(ctx context.Context) decide.Observation {
	var o decide.Observation
	timeout := time.Duration(p.timeout.Load())
	begun := time.Now()
	report, err := within(ctx, timeout, p.opts.Reporter.Report)
	o.Latency = time.Since(begun)
	if p.opts.Supervisor != nil {
		word, lookErr := within(ctx, timeout, p.opts.Supervisor.Look)
		if lookErr == nil { // an unknown word stays the zero value
			o.Supervisor = word
		}
	}
	o.Reach, o.Detail = classify(err, timeout)
	if err == nil {
		if foreign := p.foreign(report, o.Supervisor); foreign != "" {
			o.Reach, o.Detail = decide.ReachForeign, foreign
		} else {
			p.remember(report)
			o.Report = report
		}
	}
	p.metrics.poll(o.Reach, o.Latency)
	if o.Reach != decide.ReachOK {
		o.Public = p.public.ask(ctx, timeout)
		o.Process = p.process.look()
	}
	o.CPUPressure = cpuPressure()
	return o
}

// foreign tells why a report is not that of our collector now; "" when it is.
func (p *Prober) foreign(r *healthapi.Report, s decide.Supervisor) string {
	switch {
	case p.cfg.Instance != "" && r.Instance != p.cfg.Instance:
		return fmt.Sprintf("the report is of instance %q, this watchdog belongs to %q", r.Instance, p.cfg.Instance)
	case r.BootID == p.bootID && r.Seq <= p.seq:
		return fmt.Sprintf("report %d was given again after report %d: something answers from a cache", r.Seq, p.seq)
	case slices.Contains(p.gone, r.BootID):
		return fmt.Sprintf("the report is of start %s, which another start has followed", r.BootID)
	case s.MainPID != 0 && s.State == decide.SupervisorActive && p.process.sees(r) && r.PID != s.MainPID:
		return fmt.Sprintf("process %d answers, but the unit's main process is %d", r.PID, s.MainPID)
	}
	return ""
}

func (p *Prober) remember(r *healthapi.Report) {
	if p.bootID != "" && p.bootID != r.BootID {
		p.gone = append(p.gone, p.bootID)
		p.gone = p.gone[max(0, len(p.gone)-8):]
	}
	p.bootID, p.seq = r.BootID, r.Seq
	p.process.remember(r)
}

// classify puts a failed attempt into one of the ways a poll can end.
func classify(err error, timeout time.Duration) (decide.Reach, string) {
	if err == nil {
		return decide.ReachOK, ""
	}
	text := err.Error()
	if status, ok := errors.AsType[*admin.StatusError](err); ok {
		return decide.ReachBadStatus, status.Error()
	}
	if body, ok := errors.AsType[*admin.BodyError](err); ok {
		return decide.ReachBadBody, body.Error()
	}
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), isNet && netErr.Timeout():
		return decide.ReachTimeout, fmt.Sprintf("no answer within %s", timeout)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return decide.ReachReset, text
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return decide.ReachRefused, text
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return decide.ReachRefused, text // no route, no such host: nobody was reached
	}
	return decide.ReachReset, text
}

func within[T any](ctx context.Context, d time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return ask(ctx)
}
