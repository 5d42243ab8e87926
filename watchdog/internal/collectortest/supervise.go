package collectortest

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/shared/durable"
	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/admin"
	"spillway/watchdog/internal/process"
)

// Collector is a stand-in that runs, as a test sees it.
type Collector struct {
	Options Options
	Admin   *admin.Client

	t       testing.TB
	restart bool

	mu      sync.Mutex // guards what follows
	cmd     *exec.Cmd
	starts  int
	stopped bool
	held    chan struct{} // closed when another process may be started; nil when it may
}

// Start runs a stand-in until the test ends and returns when it answers. With
// restart it is started again whenever it ends, as by a supervisor.
func Start(t testing.TB, restart bool, o Options) *Collector {
	t.Helper()
	dir, err := os.MkdirTemp("", "spw") // short: a socket's path has its limits
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	fill := func(field *string, name string) {
		if *field == "" {
			*field = filepath.Join(dir, name)
		}
	}
	fill(&o.Socket, "admin.sock")
	fill(&o.ModeFile, "mode.json")
	fill(&o.World, "world.json")
	log := logrus.New()
	log.SetOutput(io.Discard)
	client, err := admin.New(admin.Config{Address: "unix:" + o.Socket}, logrus.NewEntry(log))
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{Options: o, Admin: client, t: t, restart: restart}
	var running sync.WaitGroup
	t.Cleanup(func() { c.end(); running.Wait() })
	c.launch()
	running.Go(c.supervise)
	c.Await("the stand-in answers", func(r *healthapi.Report) bool { return true })
	return c
}

func (c *Collector) launch() {
	text, err := json.Marshal(c.Options)
	if err != nil {
		c.t.Error(err)
		return
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+string(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	if err := cmd.Start(); err != nil {
		c.t.Error(err)
		return
	}
	c.cmd = cmd
	c.starts++
}

func (c *Collector) supervise() {
	for {
		c.mu.Lock()
		cmd := c.cmd
		c.mu.Unlock()
		_ = cmd.Wait()
		c.mu.Lock()
		over, held := c.stopped || !c.restart, c.held
		c.mu.Unlock()
		if over {
			return
		}
		if held != nil {
			<-held
		}
		c.launch()
	}
}

// Hold kills the process and keeps its supervisor from starting another until
// release is called, once, or the test ends.
func (c *Collector) Hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = make(chan struct{})
	_ = c.cmd.Process.Kill()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.letGo()
	}
}

func (c *Collector) letGo() {
	if c.held != nil {
		close(c.held)
		c.held = nil
	}
}

func (c *Collector) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.letGo()
	_ = c.cmd.Process.Kill()
}

// Process is the process that runs now. Signals through it are the test's own.
func (c *Collector) Process() *os.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cmd.Process
}

// Identity is that of the process that runs now.
func (c *Collector) Identity() process.Identity {
	c.t.Helper()
	id := process.Identity{PID: c.Process().Pid}
	stat, err := process.Look(id.PID)
	if err != nil {
		c.t.Fatal(err)
	}
	id.StartTicks = stat.StartTicks
	if id.Namespace, err = process.Namespace(); err != nil {
		c.t.Fatal(err)
	}
	return id
}

// Starts is how often the stand-in was started.
func (c *Collector) Starts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts
}

// SetWorld changes what the stand-in reports of, from its next report on.
func (c *Collector) SetWorld(w World) {
	c.t.Helper()
	data, err := json.Marshal(w)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := durable.WriteFile(c.Options.World, data, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// SetMode writes the mode file, as somebody else would.
func (c *Collector) SetMode(f mode.File) {
	c.t.Helper()
	now, err := mode.Read(c.Options.ModeFile)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := mode.Swap(c.Options.ModeFile, now.Rev, f); err != nil {
		c.t.Fatal(err)
	}
}

// patience is how long a test waits for what must come.
const patience = time.Minute

// Await returns the first report that is as wanted, and fails the test when
// none comes.
func (c *Collector) Await(what string, wanted func(*healthapi.Report) bool) *healthapi.Report {
	c.t.Helper()
	var last *healthapi.Report
	Await(c.t, what, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r, err := c.Admin.Report(ctx)
		if err != nil {
			return false
		}
		last = r
		return wanted(r)
	})
	return last
}

// Await returns when holds does, and fails the test when that does not come.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
