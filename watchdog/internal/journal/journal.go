// Package journal is the append-only record of what the watchdog decided and
// why: one JSON object a line, on stable storage before the decision is carried
// out. People read it with `history`, and with grep.
//
// The current file is rotated by size: journal.ndjson becomes
// journal.ndjson.1, that one .2, and so on; the oldest goes. A crash may tear
// the last line: the next entry then begins on a line of its own, and readers
// skip and count what they cannot read.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"spillway/shared/configfile"
	"spillway/shared/durable"
)

// Config says how much is kept.
type Config struct {
	// MaxBytes is the size at which the current file is rotated. Default 16MiB.
	MaxBytes configfile.Size `yaml:"max_bytes"`
	// MaxFiles is how many rotated files are kept beside the current one.
	// Default 8; 0 keeps none.
	MaxFiles int `yaml:"max_files"`
}

// DefaultConfig keeps 144 MiB at most: years of decisions.
func DefaultConfig() Config { return Config{MaxBytes: 16 * configfile.MiB, MaxFiles: 8} }

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	if c.MaxBytes < 64*configfile.KiB {
		return configfile.Invalid("max_bytes", "%s is less than 64KiB: a few entries would already rotate the file", c.MaxBytes)
	}
	if c.MaxFiles < 0 || c.MaxFiles > 1000 {
		return configfile.Invalid("max_files", "%d is not between 0 and 1000", c.MaxFiles)
	}
	return nil
}

// Entry is one line. Sentence is what a person reads; the other fields are what
// a program filters by. Fields are added, never renamed.
type Entry struct {
	At        time.Time `json:"ts"`
	Boot      string    `json:"boot,omitempty"` // kernel boot id
	Seq       uint64    `json:"seq"`            // rises by one with every entry, over rotations and restarts
	Instance  string    `json:"instance,omitempty"`
	Event     string    `json:"event"`
	ActionID  string    `json:"action_id,omitempty"`
	Step      string    `json:"step,omitempty"`
	From      string    `json:"from,omitempty"`
	To        string    `json:"to,omitempty"`
	Rule      string    `json:"rule,omitempty"`
	Value     float64   `json:"value,omitempty"`
	Threshold float64   `json:"threshold,omitempty"`
	EvidenceS float64   `json:"evidence_s,omitempty"`
	ForS      float64   `json:"for_s,omitempty"`
	BlockedBy []string  `json:"blocked_by,omitempty"`
	By        string    `json:"by,omitempty"`
	CommandID string    `json:"command_id,omitempty"` // of a person's order
	Key       string    `json:"key,omitempty"`        // of a matter people are told of, the same at its end
	Severity  string    `json:"severity,omitempty"`   // how loudly they are told
	Enforced  *bool     `json:"enforced,omitempty"`   // false in a dry run
	Duration  int64     `json:"duration_ms,omitempty"`
	Output    string    `json:"output,omitempty"` // what a command printed
	Sentence  string    `json:"sentence"`
}

// ErrClosed is returned by Append after Close.
var ErrClosed = errors.New("journal is closed")

// Journal appends to one file. It is safe for concurrent use.
type Journal struct {
	path string
	cfg  Config

	mu     sync.Mutex // guards what follows
	file   *os.File   // nil until it could be opened
	closed bool
	ready  bool // seq is known
	bytes  int64
	seq    uint64
	torn   bool // the file does not end with a whole line
}

// New returns the journal at path. The file is opened, or begun, by the first
// entry, and again by a later one when that failed: a journal on a disk that was
// full for an hour goes on by itself.
func New(path string, cfg Config) *Journal { return &Journal{path: path, cfg: cfg} }

// open makes the journal ready to append to.
func (j *Journal) open() error {
	if !j.ready {
		last, err := lastSeq(j.path, j.cfg.MaxFiles)
		if err != nil {
			return err
		}
		j.seq, j.ready = last, true
	}
	if j.file != nil {
		return nil
	}
	return j.openFile()
}

func (j *Journal) openFile() error {
	file, err := os.OpenFile(j.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	info, err := file.Stat()
	if err == nil {
		err = durable.SyncDir(filepath.Dir(j.path))
	}
	if err == nil && info.Size() > 0 {
		var end [1]byte
		if _, err = file.ReadAt(end[:], info.Size()-1); err == nil {
			j.torn = end[0] != '\n'
		}
	}
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("open journal: %w", err)
	}
	j.file, j.bytes = file, info.Size()
	return nil
}

// Append gives e its Seq and returns when it is on stable storage. On error the
// entry may be there in part, which readers skip.
func (j *Journal) Append(e Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	if err := j.open(); err != nil {
		return err
	}
	e.Seq = j.seq + 1
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode journal entry: %w", err)
	}
	line = append(line, '\n')
	if j.bytes > 0 && j.bytes+int64(len(line)) > int64(j.cfg.MaxBytes) {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	if j.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := j.file.Write(line)
	j.bytes += int64(n)
	if err != nil {
		j.torn = n > 0 || j.torn
		return fmt.Errorf("append to journal: %w", err)
	}
	j.torn = false
	j.seq = e.Seq
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	return nil
}

// rotate renames the files from the oldest on, so that a crash in between
// leaves a gap in the numbers and never two entries of one name.
func (j *Journal) rotate() error {
	for n := j.cfg.MaxFiles; n >= 0; n-- {
		var err error
		if n == j.cfg.MaxFiles {
			err = os.Remove(rotated(j.path, n))
		} else {
			err = os.Rename(rotated(j.path, n), rotated(j.path, n+1))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rotate journal: %w", err)
		}
	}
	_ = j.file.Close() // every entry in it was synced
	j.file = nil
	j.torn = false
	return j.openFile()
}

// rotated is the name of the n-th file; the current one is number 0.
func rotated(path string, n int) string {
	if n == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, n)
}

// Close closes the file. What was appended is safe already.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}
