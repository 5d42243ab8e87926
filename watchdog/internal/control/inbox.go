package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/sirupsen/logrus"

	"spillway/shared/durable"
	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

// Inbox takes what people order: over the control socket while the watchdog
// runs, or as files that it picks up, at its start at the latest. It is safe for
// concurrent use.
type Inbox struct {
	dir     string
	log     *logrus.Entry
	arrived chan struct{}

	mu      sync.Mutex // guards what follows
	waiting []pending
	settled map[string]bool // files that were dealt with and could not be removed
}

// pending is a command nobody has answered.
type pending struct {
	command decide.Command
	file    string      // where it came from; empty for the socket
	answer  chan Answer // buffered; nil for a file
}

// Answer is what became of a command.
type Answer struct {
	Command string        `json:"command"` // its ID
	Notes   []decide.Note `json:"notes"`   // what the watchdog has to say to it
	Summary string        `json:"summary"`
	// Blocked says why more was not done.
	Blocked []string `json:"blocked,omitempty"`
}

// NewInbox returns an inbox that also reads dir, which need not exist.
func NewInbox(dir string, log *logrus.Entry) *Inbox {
	return &Inbox{dir: dir, log: log, arrived: make(chan struct{}, 1), settled: map[string]bool{}}
}

// Check tells what is wrong with a command, before it is given.
func Check(c decide.Command) error {
	kinds := []decide.CommandKind{
		decide.CommandSwitch, decide.CommandPin, decide.CommandPause,
		decide.CommandResume, decide.CommandAck, decide.CommandDryRun,
	}
	switch {
	case !slices.Contains(kinds, c.Kind):
		return fmt.Errorf("kind is %q: want one of %v", c.Kind, kinds)
	case strings.TrimSpace(c.By) == "" || strings.TrimSpace(c.Reason) == "":
		return errors.New("an order needs who gives it and a reason")
	case c.For < 0:
		return fmt.Errorf("for is %s: want a time to come", c.For)
	}
	if c.Kind == decide.CommandSwitch || c.Kind == decide.CommandPin {
		_, err := mode.Parse(string(c.Mode))
		return err
	}
	return nil
}

// Give hands over a command and returns what became of it. When ctx ends before,
// the command may be carried out all the same.
func (i *Inbox) Give(ctx context.Context, c decide.Command) (Answer, error) {
	if c.ID == "" {
		c.ID = newID()
	}
	if err := Check(c); err != nil {
		return Answer{}, err
	}
	p := pending{command: c, answer: make(chan Answer, 1)}
	i.mu.Lock()
	i.waiting = append(i.waiting, p)
	i.mu.Unlock()
	select {
	case i.arrived <- struct{}{}:
	default:
	}
	select {
	case a := <-p.answer:
		return a, nil
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("the watchdog has not answered yet: %w", ctx.Err())
	}
}

// Leave writes a command to dir for a watchdog that does not run. It is on
// stable storage when Leave returns.
func Leave(dir string, c decide.Command) error {
	if c.ID == "" {
		c.ID = newID()
	}
	if err := Check(c); err != nil {
		return err
	}
	if err := durable.MkdirAll(dir, 0o770); err != nil {
		return err
	}
	_ = os.Chmod(dir, 0o770) // whatever the umask: orders come from the group; only its owner can do this
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode command: %w", err)
	}
	return durable.WriteFile(filepath.Join(dir, c.ID+".json"), append(data, '\n'), 0o660)
}

// newID is unique and sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// take returns what waits: files first, the oldest first.
func (i *Inbox) take() []pending {
	i.mu.Lock()
	defer i.mu.Unlock()
	list := i.files()
	list = append(list, i.waiting...)
	i.waiting = nil
	return list
}

// putBack keeps commands for the next round. Files are where they were.
func (i *Inbox) putBack(list []pending) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, p := range slices.Backward(list) {
		if p.file == "" {
			i.waiting = slices.Insert(i.waiting, 0, p)
		}
	}
}

// settle answers commands whose effect is on disk, and removes their files.
func (i *Inbox) settle(list []pending, d decide.Decision, e decide.Explain) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, p := range list {
		if p.file != "" {
			if err := os.Remove(p.file); err != nil {
				i.settled[p.file] = true
				i.log.WithError(err).Error("a command was carried out but its file cannot be removed: remove it, or the next start carries it out again")
			}
			continue
		}
		p.answer <- Answer{Command: p.command.ID, Notes: d.Notes, Summary: e.Summary, Blocked: blockSentences(e)}
	}
}

func (i *Inbox) files() []pending {
	names, err := filepath.Glob(filepath.Join(globEscape(i.dir), "*.json"))
	if err != nil {
		return nil
	}
	slices.Sort(names)
	var list []pending
	for _, name := range names {
		if i.settled[name] {
			continue
		}
		c, err := readCommand(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			i.log.WithError(err).Error("a command cannot be understood and is set aside")
			if err := os.Rename(name, name+".bad"); err != nil {
				i.settled[name] = true
				i.log.WithError(err).Error("it cannot be set aside either")
			}
			continue
		}
		list = append(list, pending{command: c, file: name})
	}
	return list
}

func readCommand(name string) (decide.Command, error) {
	var c decide.Command
	data, err := os.ReadFile(name)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("read command %s: %w", name, err)
	}
	if c.ID == "" {
		c.ID = strings.TrimSuffix(filepath.Base(name), ".json")
	}
	if err := Check(c); err != nil {
		return c, fmt.Errorf("read command %s: %w", name, err)
	}
	return c, nil
}

func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
