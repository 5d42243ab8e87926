// Package replayer brings what the fallback wrote to the stream after an outage:
// once the box is back on the primary and has been well for a while, it has the
// collector's own `replay` run as a child process, at a limited rate.
//
// That a replay is due is remembered on disk until one has come to its end. A
// replay can be stopped at any time and goes on where it was, so it is stopped
// whenever something more important happens: the box leaves the primary, or a
// person wants the watchdog to keep its hands off. Never more than one runs.
package replayer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"spillway/shared/configfile"
	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

// Event is how the journal calls what this package tells.
const Event = "replay"

const (
	lookEvery  = time.Second
	retryAfter = time.Hour
)

var errTooLong = errors.New("it took longer than after_fail_back.timeout")

// Sight is what is known of the box at one moment.
type Sight struct {
	// Fresh says that the watchdog sees the box; without it the rest is old.
	Fresh    bool
	State    decide.State
	Instance string // the collector's own name, as it stands in its objects
}

// Runner does one replay of what instance wrote, and ends it early, without
// loss, when ctx ends.
type Runner interface {
	Run(ctx context.Context, instance string) Outcome
}

// Options is what a Replayer needs.
type Options struct {
	Config Config
	Path   string // of its memory
	Look   func() Sight
	Runner Runner
	// Tell is handed the sentences for log and journal.
	Tell    func(sentence string)
	Log     *logrus.Entry
	Metrics prometheus.Registerer // may be nil
}

// Replayer has this box's objects replayed.
type Replayer struct {
	opts    Options
	metrics *metrics

	// Owned by Run.
	memory   memory
	known    bool      // memory.Rev is
	dirty    bool      // memory is not on disk yet
	failing  bool      // it could not be put there
	wellFrom time.Time // zero: it is not well
	retryAt  time.Time // no replay before
	halt     context.CancelCauseFunc
	again    bool // the box left the primary since the replay began
	results  chan Outcome
	halted   error // why the replay that runs is being stopped
}

// New returns a replayer that has not begun to look.
func New(opts Options) *Replayer {
	return &Replayer{opts: opts, metrics: newMetrics(opts.Metrics), results: make(chan Outcome, 1)}
}

// Run looks after the box until ctx ends. A replay that runs then is stopped,
// and begun again at the next start.
func (r *Replayer) Run(ctx context.Context) error {
	r.recall()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if r.running() {
				r.stop("the watchdog stops")
				r.ended(<-r.results)
			}
			return nil
		case o := <-r.results:
			r.ended(o)
		case <-ticker.C:
			r.look(ctx)
		}
	}
}

func (r *Replayer) recall() {
	var err error
	if r.memory, r.known, err = recall(r.opts.Path); err != nil {
		r.dirty = true
		r.opts.Log.WithError(err).Error("it is not known whether a replay is due, so one is")
	}
	r.metrics.remember(r.memory)
}

// look takes note of how the box is and starts or stops a replay.
func (r *Replayer) look(ctx context.Context) {
	s := r.opts.Look()
	r.notice(s)
	r.keep()
	why := obstacle(s)
	switch {
	case r.running() && why != "":
		r.stop(why)
	case r.running(), why != "", !r.memory.Due, r.wellFrom.IsZero(), s.Instance == "":
	case time.Since(r.wellFrom) < r.opts.Config.After, time.Now().Before(r.retryAt):
	default:
		r.start(ctx, s.Instance)
	}
}

// notice takes note of what makes a replay due, and of how long the box is well.
func (r *Replayer) notice(s Sight) {
	switch {
	case !well(s):
		r.wellFrom = time.Time{}
	case r.wellFrom.IsZero():
		r.wellFrom = time.Now()
	}
	if !s.Fresh {
		return
	}
	rev := s.State.Mode.Rev
	unseen := r.known && missed(r.memory.Rev, rev)
	if !r.known || rev != r.memory.Rev {
		r.memory.Rev, r.known, r.dirty = rev, true, true
	}
	if !away(s.State) && !unseen {
		return
	}
	r.again = true
	if r.memory.Due {
		return
	}
	r.memory.Due, r.dirty = true, true
	because := "the box uses its fallback"
	if unseen {
		because = "the mode file was changed more than once unseen, so the box may have used its fallback"
	}
	r.opts.Tell(fmt.Sprintf("a replay is due: %s; it begins when the box has been on the primary, and well, for %s",
		because, configfile.FormatDuration(r.opts.Config.After)))
}

// well tells whether nothing is the matter: the collector runs the primary for
// good, is up, and no rule fires.
func well(s Sight) bool {
	for _, rule := range s.State.Rules {
		if rule.Fires {
			return false
		}
	}
	return s.Fresh && s.State.Mode.Phase == decide.Primary && !s.State.Mode.Ghost &&
		s.State.Liveness.Phase == decide.Up && s.State.Seen.Mode == mode.Primary
}

// obstacle says why no replay may run now, whatever is due; empty if one may.
func obstacle(s Sight) string {
	st := s.State
	switch {
	case !s.Fresh:
		return "the watchdog does not see how the box is"
	case st.Mode.Phase != decide.Primary || st.Mode.Ghost:
		return fmt.Sprintf("the mode is %s", st.Mode.Phase)
	case st.Authority.Phase != decide.Auto:
		return fmt.Sprintf("the watchdog's authority is %s", st.Authority.Phase)
	}
	return ""
}

// keep puts the memory on disk. Until it is there it is tried at every look: what
// is to be done does not depend on it, only what a restart would remember.
func (r *Replayer) keep() {
	if !r.dirty {
		return
	}
	r.metrics.remember(r.memory)
	err := r.memory.save(r.opts.Path)
	switch failed := err != nil; {
	case failed == r.failing:
	case failed:
		r.opts.Log.WithError(err).Error("a restart of the watchdog would not remember whether a replay is due")
	default:
		r.opts.Log.Info("whether a replay is due can be remembered again")
	}
	r.dirty, r.failing = err != nil, err != nil
}

func (r *Replayer) running() bool { return r.halt != nil }

// start begins a replay. Only stop and the timeout end it early, so that it is
// known why it ended.
func (r *Replayer) start(ctx context.Context, instance string) {
	runCtx, halt := context.WithCancelCause(context.WithoutCancel(ctx))
	release := func() {}
	if limit := r.opts.Config.Timeout; limit > 0 {
		runCtx, release = context.WithTimeoutCause(runCtx, limit, errTooLong)
	}
	r.halt, r.halted, r.again = halt, nil, false
	r.metrics.running.Set(1)
	r.opts.Tell(fmt.Sprintf("a replay of what %s wrote to its fallback begins, since the box has been on the primary, and well, for %s%s",
		instance, length(time.Since(r.wellFrom)), r.opts.Config.pace()))
	go func() {
		defer release()
		r.results <- r.opts.Runner.Run(runCtx, instance)
	}()
}

// stop tells the replay that runs to stop.
func (r *Replayer) stop(why string) {
	if r.halted == nil {
		r.halted = errors.New(why)
		r.halt(r.halted)
	}
}

// ended takes note of how a replay ended.
func (r *Replayer) ended(o Outcome) {
	r.halt(nil)
	r.halt = nil
	r.metrics.running.Set(0)
	r.notice(r.opts.Look())
	defer r.keep()
	result, sentence := resultFailed, ""
	switch {
	case o.finished():
		result = resultDone
		r.memory.Due, r.memory.DoneAt, r.dirty = r.again, time.Now().UTC(), true
		sentence = "the replay is done: " + o.sums()
		if o.Err != nil {
			sentence += "; what could not be read is listed by `replay --verify`"
		}
	case r.halted != nil:
		result = resultStopped
		sentence = fmt.Sprintf("the replay was stopped, because %s; it goes on later: %s", r.halted, o.sums())
	case o.Report != nil && o.Report.Stopped && !errors.Is(o.Err, errTooLong):
		result = resultStopped
		sentence = fmt.Sprintf("the replay was stopped by somebody else; it goes on in %s: %s", configfile.FormatDuration(retryAfter), o.sums())
	default:
		sentence = fmt.Sprintf("the replay failed and is tried again in %s: %s; %s", configfile.FormatDuration(retryAfter), o.Err, o.sums())
		if line := o.lastLine(); line != "" {
			sentence += "; it said: " + line
		}
		r.opts.Log.WithError(o.Err).WithField("output", o.Output).Warn("the replay failed")
	}
	if result != resultDone && r.halted == nil {
		r.retryAt = time.Now().Add(retryAfter)
	}
	r.metrics.ended(result, o.Report)
	r.opts.Tell(sentence)
}
