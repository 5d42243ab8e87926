// Command soak runs a collector and its watchdog under load for a long time and
// does to them, at random, everything that may happen to a box: kills, stops,
// frozen processes, full disks, switches of the mode, and every fault of Kinesis
// and S3. In the end everything is mended and every event that was answered 200
// is looked up. It prints the seed of what it does, and exits 1 if an event is
// lost, if a record was damaged, or if the pair does not get well again.
//
// As root it gives the collector a small disk of its own (a tmpfs), so that full
// is really full; otherwise the spool's limit has to do.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
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

// options are what a run is asked for.
type options struct {
	programs pair.Programs
	duration time.Duration
	seed     uint64
	rate     float64
}

func execute(ctx context.Context) int {
	var o options
	bin := flag.String("bin", "", "folder with both programs; without it they are built")
	flag.DurationVar(&o.duration, "duration", 10*time.Minute, "how long things are broken")
	flag.Uint64Var(&o.seed, "seed", 0, "what is broken when; 0: something new each time")
	flag.Float64Var(&o.rate, "rate", 300, "events a second")
	flag.Parse()
	if flag.NArg() > 0 || o.duration <= 0 {
		flag.Usage()
		return 2
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	var builder proc.Builder
	defer func() { _ = builder.Close() }()
	var err error
	if *bin != "" {
		o.programs = pair.Programs{Collector: *bin + "/spillway-collector", Watchdog: *bin + "/spillway-watchdog"}
	} else if o.programs, err = pair.Build(&builder); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	fmt.Printf("soak for %v with seed %d\n", o.duration, o.seed)
	err = soak(ctx, o)
	fmt.Printf("seed %d\n", o.seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	return 0
}
