package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"spillway/collector/internal/app"
	"spillway/collector/internal/deadletter"
	"spillway/collector/internal/delivery"
	"spillway/collector/internal/replay"
	"spillway/collector/internal/sink"
	"spillway/shared/logsetup"
)

// replayFlags are the flags of `replay`.
type replayFlags struct {
	replayPlace
	to        string
	rate      string
	bandwidth string
	yieldTo   []string
	window    int
	objects   int
	dryRun    bool
	verify    bool
	delete    bool
	json      bool
}

func replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Bring archived objects to the destination they were meant for",
		Long: `Brings the objects that a fallback wrote, to S3 or to files, to the stream.

With --config and --fallback-config nothing else is needed: it replays from the
fallback's destination to the main one. It may be stopped, killed and started
again at any time, and several may run at once: each object is replayed by one
of them and noted as done. Nothing is deleted without --delete-done.

Exit code 0: all that was selected has been replayed. 1: something could not be
(it is listed), or the replay was stopped before its end.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "`DESTINATION`: kinesis, s3 or file, as the config describes it, or s3://bucket/prefix or a directory (default the main config's)")
	flags.StringVar(&f.rate, "rate", "", "events per second at most, for example `2000/s` (default no limit but the destination's)")
	flags.StringVar(&f.bandwidth, "bandwidth", "", "bytes of events per second at most, for example `5MiB/s`")
	flags.StringSliceVar(&f.yieldTo, "yield-to", nil, "`URL` of a collector's admin listener: replay waits while that collector has trouble getting its own events out (may be repeated)")
	flags.IntVar(&f.window, "window", 0, "how many `EVENTS` may be sent twice when a replay is killed (default 2000 to Kinesis, one batch elsewhere)")
	flags.IntVar(&f.objects, "objects", 4, "how many objects are replayed at a time, per lane")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would be replayed; write nothing")
	flags.BoolVar(&f.verify, "verify", false, "read every object and say what is damaged; deliver and write nothing")
	flags.BoolVar(&f.delete, "delete-done", false, "delete each object once it has been replayed whole")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	cmd.AddCommand(replayStatusCommand(), replayForgetCommand())
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command) error {
	ctx, release := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer release()
	context.AfterFunc(ctx, release) // a second signal ends the process at once; the marks have everything

	if f.window < 0 || f.objects < 1 {
		return usageError{errors.New("--window must not be negative and --objects at least 1")}
	}
	show := newShow(cmd.ErrOrStderr())
	defer show.stop()
	p, err := f.open(show)
	if err != nil {
		return err
	}
	defer p.close()
	pace, err := f.rates(p.log)
	if err != nil {
		return usageError{err}
	}
	plan, err := replay.Look(ctx, p.store, p.selection)
	if err != nil {
		return err
	}
	report, progress := &replay.Report{}, &replay.Progress{}
	report.Found(plan)
	began := time.Now()
	var dead uint64
	switch {
	case f.verify:
		show.start(plan, progress)
		replay.Verify(ctx, plan.Waiting, replay.Options{Store: p.store, Objects: f.objects, Progress: progress, Report: report, Log: p.log})
	case f.dryRun:
	default:
		dead, err = f.replay(ctx, p, plan, pace, report, progress, show)
		if err != nil && ctx.Err() == nil && report.Figures().Objects.Failed == 0 {
			return err // nothing was done that there is to report
		}
	}
	show.stop()
	s := summary{Figures: report.Figures(), Waiting: len(plan.Waiting), WaitingBytes: plan.Bytes, Seconds: time.Since(began).Seconds(), verb: "replayed"}
	s.Events.Delivered, s.Events.DeadLetters, s.Bytes = progress.Events()-int64(dead), int64(dead), progress.Bytes()
	switch {
	case f.verify:
		s.verb = "read"
	case f.dryRun:
		s.verb = ""
	}
	s.Stopped = ctx.Err() != nil
	if err := s.print(cmd.OutOrStdout(), f.json); err != nil {
		return err
	}
	if err != nil && !s.Stopped {
		return err
	}
	return s.err()
}

// replay delivers what waits, both lanes at the same time so that one that is
// stuck does not hold up the other.
func (f *replayFlags) replay(ctx context.Context, p *place, plan *replay.Plan, pace *replay.Pace, report *replay.Report, progress *replay.Progress, show *show) (dead uint64, err error) {
	to, err := p.destination(f.to)
	if err != nil {
		return 0, usageError{err}
	}
	if len(plan.Waiting) == 0 {
		return 0, nil
	}
	if err := p.ready(ctx); err != nil {
		return 0, err
	}
	letters := &lateLetters{dir: deadLetterDir(to.DataDir), cfg: to.DeadLetters, log: logsetup.Component(p.log, "deadletter")}
	defer letters.close()
	show.start(plan, progress)

	side, endSide := context.WithCancel(ctx)
	defer endSide()
	var waiting sync.WaitGroup
	if len(f.yieldTo) > 0 {
		waiting.Go(func() { replay.MakeWay(side, pace, f.yieldTo, p.log) })
	}
	var lanes sync.WaitGroup
	var mu sync.Mutex // guards dead and errs
	var errs []error
	for _, lane := range sink.Lanes() {
		objects := plan.Of(lane)
		if len(objects) == 0 {
			continue
		}
		log := p.log.WithField("lane", lane)
		s, err := app.MakeSink(to, lane, logsetup.Component(log, "sink"), nil)
		if err != nil {
			return 0, fmt.Errorf("make the %s sink: %w", to.Sink.Type, err)
		}
		defer func() { _ = s.Close() }()
		r := replay.New(objects, replay.Options{
			Store: p.store, Log: log, To: s.Info().Type + " " + s.Info().Target, Window: f.windowFor(s), Objects: f.objects, Pace: pace,
			Delete: f.delete, RenewEvery: p.expireAfter / 6, Progress: progress, Report: report,
		})
		forwarder := delivery.New(to.Delivery, r.Queue(), delivery.Route{Sink: r.Queue().Through(s)}, ownLetters{letters, r.Queue()},
			delivery.Options{Lane: lane, Log: logsetup.Component(log, "delivery")})
		lanes.Go(func() {
			err := r.Run(ctx, forwarder.Run)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			dead += forwarder.Status().DeadLettersTotal
		})
	}
	lanes.Wait()
	endSide()
	waiting.Wait()
	return dead, errors.Join(errs...)
}

// windowFor is how many events may be under way: a few batches to a stream, one
// object to what takes objects.
func (f *replayFlags) windowFor(s sink.Sink) int {
	limits := s.Limits()
	switch {
	case f.window > 0:
		return f.window
	case s.Info().Type == "kinesis":
		return 4 * limits.MaxRecords
	}
	return limits.MaxRecords
}

// lateLetters opens the dead letters of the data directory when there is the
// first one, so that a replay from elsewhere leaves no empty directories.
type lateLetters struct {
	dir string
	cfg deadletter.Config
	log *logrus.Entry

	mu    sync.Mutex // guards store
	store *deadletter.Store
}

// Put has the promises of deadletter.Store.Put.
func (l *lateLetters) Put(ctx context.Context, entries ...deadletter.Entry) error {
	l.mu.Lock()
	if l.store == nil {
		store, err := deadletter.Open(l.dir, l.cfg, deadletter.Options{Log: l.log})
		if err != nil {
			l.mu.Unlock()
			return err
		}
		l.store = store
	}
	store := l.store
	l.mu.Unlock()
	return store.Put(ctx, entries...)
}

// ownLetters writes dead letters under the records' own numbers.
type ownLetters struct {
	*lateLetters
	queue *replay.Queue
}

// Put implements delivery.DeadLetters.
func (l ownLetters) Put(ctx context.Context, entries ...deadletter.Entry) error {
	own := slices.Clone(entries)
	for i := range own {
		own[i].Seq = l.queue.Own(own[i].Seq)
	}
	return l.lateLetters.Put(ctx, own...)
}

func (l *lateLetters) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store != nil {
		_ = l.store.Close() // what was put is durable
	}
}
