package pair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/shared/rig/proc"
)

// Status is the part of the watchdog's status that a test or a story needs.
type Status struct {
	At    time.Time `json:"at"`
	State struct {
		Mode struct {
			Phase string `json:"phase"`
		} `json:"mode"`
		Liveness struct {
			Phase string `json:"phase"`
		} `json:"liveness"`
		Authority struct {
			Phase string `json:"phase"`
		} `json:"authority"`
		Action *struct {
			ID   string `json:"id"`
			Kind string `json:"kind"`
			Step string `json:"step"`
		} `json:"action"`
	} `json:"state"`
	Explain struct {
		Summary   string `json:"summary"`
		Next      string `json:"next"`
		BlockedBy []struct {
			Text string `json:"text"`
		} `json:"blocked_by"`
	} `json:"explain"`
}

// Entry is one line of the watchdog's journal.
type Entry struct {
	At       time.Time `json:"ts"`
	Seq      uint64    `json:"seq"`
	Event    string    `json:"event"`
	ActionID string    `json:"action_id"`
	Step     string    `json:"step"`
	From     string    `json:"from"`
	To       string    `json:"to"`
	Rule     string    `json:"rule"`
	Sentence string    `json:"sentence"`
}

// Health asks the collector for its health report, once.
func (p *Pair) Health(ctx context.Context) (*healthapi.Report, error) {
	var r healthapi.Report
	return &r, get(ctx, p.AdminURL()+healthapi.PathHealth, &r)
}

// WaitHealth returns the first report that content, or the last error of it when
// ctx ends.
func (p *Pair) WaitHealth(ctx context.Context, content func(*healthapi.Report) error) (*healthapi.Report, error) {
	return wait(ctx, p.Health, content)
}

// serves says whether the collector has opened its spool and listens.
func serves(r *healthapi.Report) error {
	if r.State == healthapi.StateStarting {
		return errors.New("it is still starting")
	}
	return nil
}

// Status asks the watchdog what it knows and does, once.
func (p *Pair) Status(ctx context.Context) (*Status, error) {
	var s Status
	if err := get(ctx, p.WatchdogURL()+"/status", &s); err != nil {
		return nil, err
	}
	if s.At.IsZero() {
		return nil, errors.New("the watchdog has not looked yet")
	}
	return &s, nil
}

// WaitStatus returns the first status that contents.
func (p *Pair) WaitStatus(ctx context.Context, content func(*Status) error) (*Status, error) {
	return wait(ctx, p.Status, content)
}

// Mode reads the mode file.
func (p *Pair) Mode() (mode.File, error) { return mode.Read(p.ModeFile()) }

// Journal returns the watchdog's journal so far. A last line that is not whole
// is left out, since it may be being written.
func (p *Pair) Journal() ([]Entry, error) {
	data, err := os.ReadFile(p.JournalFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for line := range bytes.Lines(data) {
		var e Entry
		if err := json.Unmarshal(line, &e); err == nil {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// WaitJournal returns the first entry after the given number that fits. The
// error has the watchdog's last sentences.
func (p *Pair) WaitJournal(ctx context.Context, after uint64, fits func(Entry) bool) (Entry, error) {
	var found Entry
	err := proc.Until(ctx, func() error {
		entries, err := p.Journal()
		if err != nil {
			return proc.Final(err)
		}
		for _, e := range entries {
			if e.Seq > after && fits(e) {
				found = e
				return nil
			}
		}
		var text strings.Builder
		text.WriteString("no such entry in the journal, which ends with:")
		for _, e := range entries[max(0, len(entries)-8):] {
			text.WriteString(fmt.Sprintf("\n  %s %s: %s", e.At.Format(time.TimeOnly), e.Event, e.Sentence))
		}
		return errors.New(text.String())
	})
	return found, err
}

// KillCollector ends the collector by SIGKILL and returns the first report of
// the process that follows it.
func (p *Pair) KillCollector(ctx context.Context) (*healthapi.Report, error) {
	return p.restart(ctx, func(process *proc.Process) error { process.Kill(); return nil })
}

// RestartCollector ends the collector by SIGTERM and returns the first report of
// the process that follows it.
func (p *Pair) RestartCollector(ctx context.Context) (*healthapi.Report, error) {
	return p.restart(ctx, func(process *proc.Process) error { return process.Signal(syscall.SIGTERM) })
}

func (p *Pair) restart(ctx context.Context, end func(*proc.Process) error) (*healthapi.Report, error) {
	process := p.Collector.Process()
	if err := end(process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, err
	}
	return p.WaitHealth(ctx, func(r *healthapi.Report) error {
		if r.PID == process.PID() {
			return errors.New("the old process still answers")
		}
		return serves(r)
	})
}

// wait asks until content is.
func wait[T any](ctx context.Context, ask func(context.Context) (*T, error), content func(*T) error) (*T, error) {
	var last *T
	err := proc.Until(ctx, func() error {
		answer, err := ask(ctx)
		if err != nil {
			return err
		}
		last = answer
		return content(answer)
	})
	return last, err
}

// client opens a connection for each question, as the programs come and go.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 3 * time.Second}

func get(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	return nil
}
