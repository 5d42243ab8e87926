// Package collectortest is a stand-in for the collector, for the watchdog's
// tests: a real process of its own, the test binary run again, which serves the
// admin listener on a unix socket, obeys the mode file and the signals, and is
// as sick as a test wants.
package collectortest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/process"
)

// Options is how the stand-in behaves.
type Options struct {
	Socket   string // where the admin listener stands
	ModeFile string
	// Trapless ignores SIGUSR1 and SIGHUP instead of catching them, though the
	// report says that signals are safe.
	Trapless bool
	// NeverFlushes takes the order to flush and does not carry it out.
	NeverFlushes bool
	// FallbackBroken ends the process at once when the mode file says fallback.
	FallbackBroken bool
	// DeafToTerm does not stop on SIGTERM.
	DeafToTerm bool
	// DiesSlowly ends its main thread only on SIGTERM, so that the kernel shows it
	// as one that is killed while a thread of it hangs.
	DiesSlowly bool
	// World is a file with the World the stand-in reports of.
	World string
}

// World is what the stand-in finds around it. A test changes it by SetWorld.
type World struct {
	Events       int64   // waiting
	LastWriteAge float64 // of Kinesis, in seconds
	ProbeOKFor   float64 // in seconds; 0 is not well
	FallbackDown bool
}

const env = "SPILLWAY_TEST_COLLECTOR"

func init() {
	if os.Getenv(env) != "" {
		runtime.LockOSThread() // so that DiesSlowly ends the thread that stands for the process
	}
}

// Main is to be called first in TestMain: in the stand-in's process it does not
// return.
func Main() {
	text := os.Getenv(env)
	if text == "" {
		return
	}
	var o Options
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = serve(o)
	}
	fmt.Fprintln(os.Stderr, "stand-in for the collector:", err)
	os.Exit(1)
}

// collector is the stand-in in its own process.
type collector struct {
	opts Options

	mu     sync.Mutex // guards report
	report healthapi.Report
}

func serve(o Options) error {
	signals := make(chan os.Signal, 8)
	if o.Trapless {
		signal.Ignore(unix.SIGUSR1, unix.SIGHUP)
	} else {
		signal.Notify(signals, unix.SIGUSR1, unix.SIGHUP)
	}
	signal.Notify(signals, unix.SIGTERM)
	file, err := mode.Read(o.ModeFile)
	if err != nil {
		return err
	}
	if file.Mode == mode.Fallback && o.FallbackBroken {
		return errors.New("the fallback config is broken")
	}
	id, err := process.Self()
	if err != nil {
		return err
	}
	c := &collector{opts: o, report: healthapi.Report{
		Schema: healthapi.Schema, Instance: "stand-in", Version: "test", SignalsReady: true,
		PID: id.PID, PIDStartTicks: id.StartTicks, PIDNamespace: id.Namespace,
		BootID: uuid.NewString(), StartedAt: time.Now(), Mode: string(file.Mode), ModeRev: file.Rev, ModeBy: file.By,
		State: healthapi.StateOK, StateSince: time.Now(),
		Intake:   healthapi.Intake{Accepting: true, AcceptingPixels: true, EventsPerSecond: 100},
		Fallback: healthapi.Fallback{Configured: true, Valid: true, Ready: true},
		Parts:    map[string]healthapi.Part{"delivery": {Alive: true}},
	}}
	_ = os.Remove(o.Socket)
	l, err := net.Listen("unix", o.Socket)
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, c.handler()) }()
	for sig := range signals {
		switch sig {
		case unix.SIGUSR1:
			c.flush()
		case unix.SIGTERM:
			switch {
			case o.DiesSlowly:
				_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
			case !o.DeafToTerm:
				os.Exit(0)
			}
		}
	}
	return nil
}

func (c *collector) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+healthapi.PathHealth, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(c.next())
	})
	mux.HandleFunc("POST "+healthapi.PathFlush, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(c.flush())
	})
	mux.HandleFunc("POST "+healthapi.PathMode, func(w http.ResponseWriter, r *http.Request) {
		var want struct{ Mode string }
		_ = json.NewDecoder(r.Body).Decode(&want)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.report.Mode = want.Mode
		_ = json.NewEncoder(w).Encode(mode.File{Schema: mode.Schema, Mode: mode.Mode(want.Mode)})
	})
	return mux
}

func (c *collector) flush() healthapi.Flush {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Flush.Requested++
	if !c.opts.NeverFlushes {
		c.report.Flush.Completed = c.report.Flush.Requested
		c.report.Flush.Result = healthapi.FlushDrained
	}
	return c.report.Flush
}

func (c *collector) next() healthapi.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Seq++
	r := c.report
	w := readWorld(c.opts.World)
	r.Backlog = healthapi.Backlog{Events: w.Events, Bytes: w.Events * 1000, LimitBytes: 1 << 40, DiskFreeBytes: 1 << 40}
	if w.Events > 0 {
		r.Backlog.OldestAgeSeconds = &w.LastWriteAge
	}
	r.Kinesis.LastWriteAgeSeconds = &w.LastWriteAge
	zero := 0.0
	r.Sink.LastWriteAgeSeconds = &zero
	r.Sink.Type = map[string]string{"primary": "kinesis", "fallback": "s3"}[r.Mode]
	if r.Mode == string(mode.Primary) {
		r.Sink.LastWriteAgeSeconds = &w.LastWriteAge
	}
	if w.ProbeOKFor > 0 {
		now := time.Now()
		r.Kinesis.Probe = healthapi.Probe{Level: 3, LastAt: &now, LastOKAt: &now, OKForSeconds: &w.ProbeOKFor, ShardsTouched: 4}
	}
	r.Fallback.Ready = !w.FallbackDown
	return r
}

func readWorld(path string) World {
	var w World
	if data, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(data, &w)
	}
	return w
}
