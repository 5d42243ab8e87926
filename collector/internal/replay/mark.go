package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"

	"spillway/collector/internal/archive"
)

// MarkDir is where marks stand, below the prefix of the objects they speak of.
const MarkDir = "_replay"

// probeDir is where sinks prove that they may write, below the same prefix.
const probeDir = "_probe"

// How the keys of marks end. That an object is done shows in the listing alone.
const (
	claimEnd   = ".claim"
	doneEnd    = ".done"
	damagedEnd = ".damaged"
)

// schema is the version of the form of marks.
const schema = 1

// Marks are the keys of one object's marks. Claim is there while the object is
// being replayed, and Done or Damaged from then on.
type Marks struct {
	Claim   string
	Done    string
	Damaged string // done, but not all of the object could be read
}

func marksOf(prefix string, n archive.Name) Marks {
	at := path.Join(prefix, MarkDir, n.String())
	return Marks{Claim: at + claimEnd, Done: at + doneEnd, Damaged: at + damagedEnd}
}

// Finished returns the key of the mark that says that the object is done.
func (k Marks) Finished(m Mark) string {
	if m.Damaged > 0 {
		return k.Damaged
	}
	return k.Done
}

// objectOf returns the object that a mark speaks of and how the mark's key ends.
func objectOf(mark string) (object, end string, ok bool) {
	for _, end := range []string{claimEnd, doneEnd, damagedEnd} {
		key, found := strings.CutSuffix(mark, end)
		if !found {
			continue
		}
		prefix, n, err := archive.ParseKey(key)
		prefix, inDir := strings.CutSuffix(prefix, MarkDir)
		if err != nil || !inDir || prefix != "" && !strings.HasSuffix(prefix, "/") {
			return "", "", false
		}
		return prefix + n.String(), end, true
	}
	return "", "", false
}

// Mark says how far an object has been replayed, and by whom.
type Mark struct {
	Schema   int       `json:"schema"`
	By       string    `json:"by"`                 // which replayer
	At       time.Time `json:"at"`                 // when it was written, for people
	To       string    `json:"to"`                 // the destination
	Renewal  uint64    `json:"renewal"`            // rises with each write: a mark that stays as it is has no owner
	Released bool      `json:"released,omitempty"` // nobody works on the object
	Line     int       `json:"line"`               // everything up to this line is confirmed or damaged
	Events   int64     `json:"events"`             // records up to that line that are confirmed
	Damaged  int       `json:"damaged,omitempty"`  // how many faults were found up to that line
	Faults   []Fault   `json:"faults,omitempty"`   // the first of them
}

// Fault is something in an object that could not be read.
type Fault struct {
	Line   int    `json:"line,omitempty"` // 0: the object as a whole
	Reason string `json:"reason"`
}

// keptFaults is how many faults of one object are kept and reported one by one.
const keptFaults = 20

// add takes a fault into the mark.
func (m *Mark) add(f Fault) {
	m.Damaged++
	if len(m.Faults) < keptFaults {
		m.Faults = append(m.Faults, f)
	}
}

// Encode returns the mark as it is stored.
func (m Mark) Encode() []byte {
	m.Schema, m.At = schema, m.At.UTC()
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // numbers, strings and a time
	}
	return append(b, '\n')
}

// DecodeMark reads what Encode wrote.
func DecodeMark(b []byte) (Mark, error) {
	var m Mark
	if err := json.Unmarshal(b, &m); err != nil {
		return Mark{}, fmt.Errorf("read mark: %w", err)
	}
	if m.Schema != schema {
		return Mark{}, fmt.Errorf("read mark: it is of form %d, and this program knows form %d", m.Schema, schema)
	}
	if m.Line < 0 || m.Events < 0 || m.Damaged < 0 {
		return Mark{}, fmt.Errorf("read mark: line %d, %d events and %d faults are not possible", m.Line, m.Events, m.Damaged)
	}
	return m, nil
}

// Owner returns a name for this replayer that no other has.
func Owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unnamed"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), uuid.NewString()[:8])
}
