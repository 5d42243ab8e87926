package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/kinesis"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/tracker"
)

// recovery is how long the pair may take to get well once all is mended.
const recovery = 3 * time.Minute

// diskBytes is the size of the collector's disk: minutes of load.
const diskBytes = 48 << 20

const collectorYAML = `spool: {max_bytes: 40MiB, segment_bytes: 1MiB}
bad_spool: {max_bytes: 4MiB, segment_bytes: 1MiB}
`

// soak runs the whole and returns what was wrong.
func soak(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "soak-")
	if err != nil {
		return err
	}
	disk, err := mountDisk(dir)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	fmt.Println(disk)
	config := collectorYAML
	if o.seed%2 == 1 {
		config += "sink: {kinesis: {aggregate: true}}\n"
		fmt.Println("events travel in aggregates")
	}
	p, err := pair.Start(ctx, pair.Options{
		Programs: o.programs, Dir: dir, Collector: config,
		Rig: rig.Options{Kinesis: kinesis.Options{Compact: tracker.Keep}},
	})
	if err != nil {
		return errors.Join(err, disk.unmount(), os.RemoveAll(dir))
	}
	defer func() {
		closed := errors.Join(p.Close(), disk.unmount())
		if err != nil {
			err = fmt.Errorf("%w\nlogs and data are kept in %s", err, dir)
			return
		}
		err = errors.Join(closed, os.RemoveAll(dir))
	}()

	load, err := tracker.New(tracker.Config{
		URL: p.URL(), Connections: 32, EventsPerSecond: o.rate, EventsPerPost: 3, PixelShare: 0.1, Resend: true,
	})
	if err != nil {
		return err
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan error, 1)
	go func() { sent <- load.Run(sending) }()

	s := &storm{pair: p, disk: disk, random: rand.New(rand.NewPCG(o.seed, 0)), begun: time.Now(), told: load.Ledger().Counts}
	over, done := context.WithTimeout(ctx, o.duration)
	err = s.run(over)
	done()
	if err == nil {
		err = ctx.Err()
	}
	s.say("all is mended")
	err = errors.Join(err, s.mend())
	stop()
	if err = errors.Join(err, <-sent); err != nil {
		return err
	}
	return settle(ctx, s, load)
}

// settle waits until the pair is well and everything is delivered, and looks
// every event up.
func settle(ctx context.Context, s *storm, load *tracker.Tracker) error {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	if err := load.Settle(ctx); err != nil {
		return fmt.Errorf("the collector does not take everything: %w\n%s", err, s.pair.Tail(20))
	}
	_, err := s.pair.WaitHealth(ctx, func(r *healthapi.Report) error {
		if r.Backlog.Events > 0 {
			return fmt.Errorf("%d events wait; mode %s, sink %+v", r.Backlog.Events, r.Mode, r.Sink)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("not everything is delivered within %v: %w\n%s", recovery, err, s.pair.Tail(20))
	}
	found, err := s.pair.Audit(load.Ledger())
	if err != nil {
		return err
	}
	fmt.Println(found)
	fmt.Printf("the collector ended %d times, the watchdog %d times; the largest backlog seen was %d events; %v\n",
		len(s.pair.Collector.Restarts()), len(s.pair.Watchdog.Restarts()), s.largest, s.counts)
	switch {
	case len(found.Lost) > 0:
		return fmt.Errorf("%d events that were answered 200 are lost", len(found.Lost))
	case found.Acked == 0:
		return errors.New("no event was answered 200: the run has shown nothing")
	case s.corrupt > 0:
		return fmt.Errorf("%d damaged records were found though nothing damaged the disk", s.corrupt)
	}
	return nil
}
