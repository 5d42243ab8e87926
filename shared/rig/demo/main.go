// Command demo shows spillway at work on one machine, without AWS: a collector
// and its watchdog on stand-ins for Kinesis and S3.
//
// Without an argument it tells the story of an outage, from its first refused
// write to the last event looked up, and exits 1 if an event that was answered
// 200 is nowhere, or if a part of the story did not happen. With the argument
// run it starts the same pair and leaves it to you until Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := execute(ctx)
	stop()
	os.Exit(code)
}

func execute(ctx context.Context) int {
	bin := flag.String("bin", "", "folder with both programs; without it they are built")
	rate := flag.Float64("rate", 200, "events a second that the demo's trackers send")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: demo [flags]      the story of an outage\n       demo [flags] run  a pair to play with\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	tell := demo
	switch args := flag.Args(); {
	case len(args) == 1 && args[0] == "run":
		tell = run
	case len(args) > 0:
		flag.Usage()
		return 2
	}
	var builder proc.Builder
	defer func() { _ = builder.Close() }()
	t := newTimeline(os.Stdout)
	programs, err := find(&builder, *bin, t)
	if err == nil {
		err = tell(ctx, t, programs, *rate)
	}
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		t.say(own, "interrupted: everything was stopped and removed")
		return 130
	}
	t.bad(own, "%v", err)
	return 1
}

// find returns the programs: those in the folder, or freshly built ones.
func find(b *proc.Builder, folder string, t *timeline) (pair.Programs, error) {
	if folder == "" {
		t.say(own, "building both programs")
		return pair.Build(b)
	}
	p := pair.Programs{Collector: filepath.Join(folder, "spillway-collector"), Watchdog: filepath.Join(folder, "spillway-watchdog")}
	for _, path := range []*string{&p.Collector, &p.Watchdog} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return p, err
		}
		if _, err := os.Stat(abs); err != nil {
			return p, fmt.Errorf("%w (make build)", err)
		}
		*path = abs
	}
	return p, nil
}

// within runs do with a deadline of its own and says so when it was missed.
func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := do(limited)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("not within %v: %w", limit, err)
	}
	return err
}
