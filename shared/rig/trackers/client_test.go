package trackers

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"spillway/shared/rig/proc"
)

// patience is how long a test waits for what takes seconds on a quiet machine.
const patience = 2 * time.Minute

// command is what a driver is told.
type command struct {
	Do    string `json:"do"` // track, flush or reload
	First int    `json:"first"`
	Count int    `json:"count"`
}

// notice is what a driver tells.
type notice struct {
	Did      string   `json:"did"`      // a command was carried out
	Sent     []event  `json:"sent"`     // the tracker takes these for delivered
	Answered int      `json:"answered"` // the tracker got this status; it does not say for what
	Failed   *failure `json:"failed"`
	Broken   string   `json:"broken"` // the driver cannot go on
}

// failure is a request that the tracker takes for failed.
type failure struct {
	Status    int     `json:"status"` // 0: the tracker saw none
	Message   string  `json:"message"`
	Events    []event `json:"events"`
	WillRetry bool    `json:"willRetry"`
}

// driver is a tracker under command. Its methods but hear are for the test's
// goroutine.
type driver struct {
	tell func(command) error

	mu      sync.Mutex // guards what follows
	notices []notice
	done    int // commands carried out
	told    int
}

// hear takes a notice in.
func (d *driver) hear(n notice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notices = append(d.notices, n)
	if n.Did != "" {
		d.done++
	}
}

// heard returns the notices so far.
func (d *driver) heard() []notice {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]notice(nil), d.notices...)
}

// do has a command carried out.
func (d *driver) do(t *testing.T, c command) {
	t.Helper()
	d.told++
	if err := d.tell(c); err != nil {
		t.Fatalf("tell the tracker to %s: %v", c.Do, err)
	}
	proc.Eventually(t, patience, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, n := range d.notices {
			if n.Broken != "" {
				return proc.Final(errors.New(n.Broken))
			}
		}
		if d.done < d.told {
			return fmt.Errorf("the tracker has not carried out %s", c.Do)
		}
		return nil
	})
}

// track has events of these numbers tracked and sent.
func (d *driver) track(t *testing.T, first, count int) {
	t.Helper()
	d.do(t, command{Do: "track", First: first, Count: count})
	d.do(t, command{Do: "flush"})
}

// failure waits for a notice of a failure after the first notices.
func (d *driver) failure(t *testing.T, after int) failure {
	t.Helper()
	var found failure
	proc.Eventually(t, patience, func() error {
		for _, n := range d.heard()[after:] {
			if n.Failed != nil {
				found = *n.Failed
				return nil
			}
		}
		return errors.New("the tracker has not noticed a failure")
	})
	return found
}

// sent returns the events that the tracker takes for delivered, by id. An event
// that was taken for delivered twice is an error.
func (d *driver) sent(t *testing.T) map[string]event {
	t.Helper()
	all := map[string]event{}
	for _, n := range d.heard() {
		for _, e := range n.Sent {
			if _, twice := all[e["eid"]]; twice {
				t.Errorf("the tracker sent event %s again after a 200", e["eid"])
			}
			all[e["eid"]] = e
		}
	}
	return all
}

// program starts a driver that is a program: commands go to its standard input,
// notices come from its standard output.
func program(t *testing.T, path string, args ...string) *driver {
	t.Helper()
	cmd := exec.Command(path, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	complaints, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &driver{}
	d.tell = func(c command) error { return json.NewEncoder(in).Encode(c) }
	var reading sync.WaitGroup
	var text []byte
	reading.Go(func() { text, _ = io.ReadAll(complaints) })
	reading.Go(func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var n notice
			if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
				n = notice{Broken: fmt.Sprintf("wrote %q: %v", lines.Bytes(), err)}
			}
			d.hear(n)
		}
		d.hear(notice{Broken: "the driver has ended"})
	})
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		reading.Wait()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(args[0]), text)
		}
	})
	return d
}
