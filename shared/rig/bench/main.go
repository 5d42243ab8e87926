// Command bench measures the real collector on this machine.
//
//	bench           answers a second, side by side with a bare net/http server
//	bench backlog   a start with 1 GiB of backlog: time and memory
//
// Compared is what costs something: the bare server reads the same request and
// answers ok; the collector answers when the event is on disk. Both run as
// processes of their own, one after the other in every round, so that what else
// this machine does strikes both alike; what counts is the ratio.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"spillway/shared/rig/load"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
)

// settings are the flags.
type settings struct {
	rounds  int
	seconds time.Duration
	dir     string
	bytes   int64
	bin     string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := execute(ctx)
	stop()
	os.Exit(code)
}

func execute(ctx context.Context) int {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 5, "how often everything is measured")
	flag.DurationVar(&s.seconds, "for", 5*time.Second, "how long each measurement takes")
	flag.StringVar(&s.dir, "dir", "", "folder for the collector's data; without it, the one for temporary files")
	flag.StringVar(&s.bin, "bin", "", "folder with the collector; without it, it is built")
	flag.Int64Var(&s.bytes, "bytes", 1<<30, "size of the backlog")
	flag.Parse()
	measure := compare
	switch strings.Join(flag.Args(), " ") {
	case "":
	case "backlog":
		measure = backlog
	case bareRole:
		return serveBare()
	default:
		flag.Usage()
		return 2
	}
	if err := run(ctx, s, measure); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// run builds the collector, starts it without a watchdog, and measures.
func run(ctx context.Context, s settings, measure func(context.Context, settings, *pair.Pair) error) error {
	var builder proc.Builder
	defer func() { _ = builder.Close() }()
	var program string
	var err error
	if s.bin == "" {
		program, err = builder.Build("spillway/collector")
	} else {
		program, err = filepath.Abs(filepath.Join(s.bin, "spillway-collector"))
	}
	if err != nil {
		return err
	}
	dir := ""
	if s.dir != "" {
		if dir, err = os.MkdirTemp(s.dir, "bench-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	p, err := pair.Start(ctx, pair.Options{
		Programs: pair.Programs{Collector: program}, Alone: true, Dir: dir,
		// What a spool has by default, and delivery as it is by default.
		Collector: "spool: {max_bytes: 40GiB, segment_bytes: 64MiB}\nsink: {kinesis: {linger: 200ms, request_timeout: 5s}}\ndelivery: {max_backoff: 30s}\nlog: {level: warn}\n",
		Rig:       compact,
	})
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	fmt.Printf("%s, %d processors, %s, %s\n\n", processor(), runtime.NumCPU(), runtime.Version(), time.Now().UTC().Format("2006-01-02 15:04 MST"))
	return measure(ctx, s, p)
}

// processor names the kind of processor, as the kernel does.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// bodyBytes is the size of the body that is sent: one event of a usual size.
const bodyBytes = 1024

// request is a POST as a tracker sends it.
func request(addr string) []byte {
	const head = `{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[{"e":"pv","p":"web","tv":"bench","url":"https://shop.example/`
	const tail = `"}]}`
	body := head + strings.Repeat("x", bodyBytes-len(head)-len(tail)) + tail
	return load.Post(addr, "/com.snowplowanalytics.snowplow/tp2", "application/json; charset=UTF-8", []byte(body))
}
