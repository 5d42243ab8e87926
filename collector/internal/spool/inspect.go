package spool

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/spool/vfs"
)

// Inspection is what a spool directory holds, seen by somebody who changes
// nothing in it.
type Inspection struct {
	Dir        string        `json:"dir"`
	RunningPID int           `json:"running_pid,omitempty"` // process that has the spool open; -1 if only that is known; 0 for none
	AcksFound  bool          `json:"acks_found"`            // false: everything counts as not delivered
	AckedBelow uint64        `json:"acked_below"`           // all records with a lower seq were delivered
	Segments   []SegmentInfo `json:"segments"`              // in order
	Spares     int           `json:"spares"`                // emptied segments, to be written again
	SpareBytes int64         `json:"spare_bytes"`
	SetAside   int           `json:"set_aside"` // files in the corrupt directory
	AsideBytes int64         `json:"set_aside_bytes"`
	Foreign    []string      `json:"foreign,omitempty"` // files that are not the spool's
	Missing    []Damage      `json:"missing,omitempty"` // segments that should be there and are not

	fs    vfs.FS
	parts []*segment // of Segments; nil where one cannot be used
}

// The states of a segment.
const (
	StateSealed  = "sealed"  // closed, its label says what is in it
	StateOpen    = "open"    // being written, or its writer died
	StateEmpty   = "empty"   // made, and never written to
	StateDamaged = "damaged" // its label cannot be read, or repeats another's records
)

// SegmentInfo is one segment.
type SegmentInfo struct {
	File     string    `json:"file"`
	State    string    `json:"state"`
	FirstSeq uint64    `json:"first_seq,omitempty"`
	LastSeq  uint64    `json:"last_seq,omitempty"`
	Records  uint64    `json:"records"`
	Acked    uint64    `json:"acked"`
	Bytes    int64     `json:"bytes"`      // of the file
	Used     int64     `json:"used_bytes"` // with records
	FirstAt  time.Time `json:"first_at,omitzero"`
	Problem  string    `json:"problem,omitempty"`
}

// Waiting returns how many records of the segment were not delivered.
func (s SegmentInfo) Waiting() uint64 { return s.Records - s.Acked }

// Waiting returns how many records of the spool were not delivered.
func (i *Inspection) Waiting() (n uint64) {
	for _, s := range i.Segments {
		n += s.Waiting()
	}
	return n
}

// Inspect looks at the spool in dir without changing anything: the volume may be
// mounted read-only. Of a spool that a collector has open it sees a moment that
// never was; RunningPID tells. It returns a *FormatError if another version wrote
// the spool.
func Inspect(dir string) (*Inspection, error) {
	fs, err := vfs.ReadOnly(dir)
	if err != nil {
		return nil, fmt.Errorf("inspect spool: %w", err)
	}
	i := &Inspection{Dir: dir, fs: fs}
	if pid, busy := Running(dir); busy {
		i.RunningPID = pid
	}
	if err := i.read(); err != nil {
		return nil, fmt.Errorf("inspect spool %s: %w", dir, err)
	}
	return i, nil
}

// Running says whether a process has the spool in dir open, and its number, or -1
// if that is not known. It takes nothing.
func Running(dir string) (pid int, busy bool) {
	fs, err := vfs.ReadOnly(dir)
	if err != nil {
		return 0, false
	}
	_, err = fs.Lock(lockName)
	held, busy := errors.AsType[*vfs.LockedError](err)
	if !busy {
		return 0, false
	}
	if held.PID == 0 {
		return -1, true
	}
	return held.PID, true
}

func (i *Inspection) read() error {
	acks := ackFile{fs: i.fs}
	state, found, err := acks.load()
	acks.close()
	if err != nil && !isMissing(err) {
		return err
	}
	i.AcksFound, i.AckedBelow = found, state.low
	entries, err := i.fs.List(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ok := fileNumber(e.Name, segmentSuffix); ok && !e.Dir {
			if err := i.segment(e, &state); err != nil {
				return err
			}
			continue
		}
		_, isTemp := fileNumber(e.Name, tempSuffix)
		_, isSpare := fileNumber(e.Name, spareSuffix)
		switch {
		case isSpare && !e.Dir:
			i.Spares++
			i.SpareBytes += e.Size
		case e.Dir && e.Name == corruptDir:
			aside, _ := i.fs.List(corruptDir)
			for _, a := range aside {
				i.SetAside++
				i.AsideBytes += a.Size
			}
		case !isTemp && e.Name != acksName && e.Name != lockName && e.Name != acksName+tempSuffix:
			i.Foreign = append(i.Foreign, e.Name)
		}
	}
	i.findMissing(&state)
	return nil
}

// segment looks at one file as recovery would.
func (i *Inspection) segment(e vfs.Entry, acked *ackState) error {
	number, _ := fileNumber(e.Name, segmentSuffix)
	add := func(info SegmentInfo, s *segment) error {
		info.File, info.Bytes = e.Name, e.Size
		i.Segments, i.parts = append(i.Segments, info), append(i.parts, s)
		return nil
	}
	if e.Size == 0 {
		return add(SegmentInfo{State: StateDamaged, Problem: "the file is empty: what was in it is lost"}, nil)
	}
	file, err := i.fs.Open(e.Name, false)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lab, err := readLabel(file, e.Name)
	if errors.Is(err, ErrFormat) {
		return err
	}
	if err == nil && lab.number != number {
		err = fmt.Errorf("its label says that it is segment %d", lab.number)
	}
	for _, s := range i.parts {
		if err == nil && s != nil && lab.base < s.limit() {
			err = fmt.Errorf("it repeats what is in segment %s", s.name())
		}
	}
	if err != nil {
		return add(SegmentInfo{State: StateDamaged, Problem: err.Error()}, nil)
	}
	s := &segment{
		number: number, base: lab.base, prev: lab.prev, salt: lab.salt,
		size: e.Size, end: lab.end, count: lab.count, first: lab.first, closed: true,
	}
	info := SegmentInfo{State: StateSealed}
	if !lab.sealed {
		quiet := logrus.New()
		quiet.SetOutput(io.Discard)
		(&Log{log: logrus.NewEntry(quiet)}).scanTail(s, file)
		info.State = StateOpen
		if s.count == 0 {
			info.State = StateEmpty
		}
	}
	if s.held {
		info.Problem = "the disk does not give all of it back"
	}
	s.ack(0, acked.low)
	for _, a := range acked.spans {
		s.ack(a.from, a.to)
	}
	if s.count > 0 {
		info.FirstSeq, info.LastSeq, info.FirstAt = s.base, s.limit()-1, fromMillis(s.first)
	}
	info.Records, info.Acked, info.Used = s.count, s.acked, max(s.end-dataOffset, 0)
	return add(info, s)
}

// findMissing compares what each segment says was before it with what is there.
func (i *Inspection) findMissing(acked *ackState) {
	expected := acked.low
	for n, s := range i.parts {
		if s == nil {
			continue
		}
		if i.AcksFound && expected < s.prev && !acked.covers(expected, s.prev) {
			i.Missing = append(i.Missing, Damage{File: i.Segments[n].File, FirstSeq: expected, LastSeq: s.prev - 1,
				What: "records that should stand in a segment before this one are not there"})
		}
		expected = max(expected, s.limit())
	}
}
