package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"spillway/collector/internal/config"
	"spillway/collector/internal/deadletter"
	"spillway/collector/internal/delivery"
	"spillway/collector/internal/sink"
	"spillway/shared/configfile"
	"spillway/shared/durable"
	"spillway/shared/logsetup"
)

// Retry sends dead letters again. The collector they are of may run meanwhile.
type Retry struct {
	Config config.Config // its DataDir has the letters, its Sink takes them
	Lanes  []sink.Lane
	File   string // only this file; empty: all
	Match  string // only letters whose reason or code contains this; empty: all
	DryRun bool   // nothing is sent or changed
	Log    *logrus.Entry
}

// FileRetry is what became of the letters in one file.
type FileRetry struct {
	File      string         `json:"file"`
	Chosen    int            `json:"chosen"`    // letters to be sent
	Delivered int            `json:"delivered"` // of these, confirmed by the destination
	Kept      int            `json:"kept"`      // letters that stay; those not chosen are counted only if others were sent
	Damaged   int            `json:"damaged"`   // lines that are no letters
	Moved     string         `json:"damaged_file,omitempty"`
	Reasons   map[string]int `json:"reasons,omitempty"` // why chosen letters stay
}

// Run works through the files. What is not delivered stays, with its new reason
// if it was refused again. It returns what became of the files also when it
// returns an error.
func (r Retry) Run(ctx context.Context) ([]FileRetry, error) {
	files, err := deadletter.List(r.dir())
	if err != nil {
		return nil, err
	}
	// What an interrupted retry left comes first: it stands in the way of the rest.
	slices.SortStableFunc(files, func(a, b deadletter.File) int {
		switch {
		case a.Claimed == b.Claimed:
			return 0
		case a.Claimed:
			return -1
		}
		return 1
	})
	var done []FileRetry
	for _, f := range files {
		if name := filepath.Base(f.Path); r.File != "" && name != r.File && name != r.File+".claimed" {
			continue
		}
		if ctx.Err() != nil {
			return done, fmt.Errorf("retry dead letters: %w", context.Cause(ctx))
		}
		result, err := r.file(ctx, f.Path)
		if err != nil {
			return done, fmt.Errorf("retry %s: %w", f.Path, err)
		}
		if result.Chosen > 0 {
			done = append(done, result)
		}
	}
	return done, nil
}

func (r Retry) dir() string { return filepath.Join(r.Config.DataDir, "dead-letters") }

func (r Retry) chosen(e deadletter.Entry) bool {
	return slices.Contains(r.Lanes, sink.Lane(e.Lane)) && (strings.Contains(e.Reason, r.Match) || strings.Contains(e.Code, r.Match))
}

// file retries one file: it is taken out of the store, delivered, and what must
// stay is put back before it is deleted. A crash in between leaves it taken, and
// the next retry takes it up.
func (r Retry) file(ctx context.Context, path string) (result FileRetry, err error) {
	lane, to, err := r.sinkFor(path)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	q := r.queue(to)
	f, err := os.Open(path)
	if err != nil {
		return result, err
	}
	defer func() { _ = f.Close() }()
	if err := q.open(f); err != nil {
		return result, err
	}
	result = FileRetry{File: filepath.Base(path), Chosen: len(q.letters)}
	if r.DryRun || len(q.owner) == 0 {
		result.sum(q)
		result.Kept = len(q.letters)
		return result, nil
	}

	claimed, err := deadletter.Claim(path)
	if err != nil {
		return result, err
	}
	taken, err := os.Open(claimed)
	if err != nil {
		return result, err
	}
	defer func() { _ = taken.Close() }()
	if err := unix.Flock(int(taken.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return result, fmt.Errorf("another retry is at work on it: %w", err)
	}
	// Letters may have been added between the look and the claim.
	q = r.queue(to)
	if err := q.open(taken); err != nil {
		return result, err
	}
	log := logsetup.Component(r.Log, "retry").WithField("file", result.File)
	status, err := deliverOnce(ctx, r.Config, q, to, q, lane, log, func(delivery.Status) int64 { return q.Backlog() })
	if err != nil {
		return result, err
	}
	result.Chosen = len(q.letters)
	result.sum(q)
	for _, l := range q.letters {
		if l.delivered() {
			result.Delivered++
		} else if l.refused == "" {
			result.Reasons["not delivered in time: "+status.Sink.LastError]++
		}
	}
	return result, r.settle(claimed, q, &result)
}

// sum counts why letters are refused.
func (f *FileRetry) sum(q *letterQueue) {
	f.Reasons = map[string]int{}
	for _, l := range q.letters {
		if l.refused != "" {
			f.Reasons[l.refused]++
		}
	}
}

func (r Retry) queue(to sink.Sink) *letterQueue {
	q := &letterQueue{chosen: r.chosen, most: to.Limits().MaxRecordBytes}
	if q.most > 0 {
		q.limit = min(q.most-256, int64(r.Config.HTTP.MaxRecordBytes)) // 256: the longest key
	}
	return q
}

// sinkFor makes the sink for a file, whose name begins with its lane.
func (r Retry) sinkFor(path string) (sink.Lane, sink.Sink, error) {
	lane := sink.Good
	if strings.HasPrefix(filepath.Base(path), string(sink.Bad)+"-") {
		lane = sink.Bad
	}
	to, err := MakeSink(r.Config, lane, logsetup.Component(r.Log, "sink").WithField("lane", lane), nil)
	return lane, to, err
}

// settle puts back what stays and deletes the file. Lines that are no letters go
// to a file of their own: they are no use to a program, but perhaps to a person.
func (r Retry) settle(claimed string, q *letterQueue, result *FileRetry) error {
	f, err := os.Open(claimed)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// The file still counts towards the store's limit, so that there may seem to be
	// no room for what is already there.
	store, err := deadletter.Open(r.dir(), deadletter.Config{MaxBytes: 1 << 20 * configfile.GiB}, deadletter.Options{Log: r.Log})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	damaged := map[int]bool{}
	n, back := 0, putBack{store: store}
	for e, err := range deadletter.Read(f) {
		if d, ok := errors.AsType[*deadletter.DamagedError](err); ok {
			damaged[d.Line] = true
			continue
		}
		if err != nil {
			return err
		}
		if r.chosen(e) {
			l := q.letters[n]
			n++
			if l.delivered() {
				continue
			}
			if l.refused != "" && e.Code != oversizeCode {
				e.Reason, e.Code = l.refused, l.code
			}
		}
		if err := back.add(e); err != nil {
			return fmt.Errorf("%w (they stay in %s, which the next retry sends whole again)", err, claimed)
		}
		result.Kept++
	}
	if err := back.flush(); err != nil {
		return fmt.Errorf("%w (they stay in %s, which the next retry sends whole again)", err, claimed)
	}
	if result.Damaged = len(damaged); result.Damaged > 0 {
		if result.Moved, err = keepLines(claimed, damaged); err != nil {
			return err
		}
	}
	if err := os.Remove(claimed); err != nil {
		return err
	}
	return durable.SyncDir(r.dir())
}

// putBack stores letters, many with one sync.
type putBack struct {
	store   *deadletter.Store
	entries []deadletter.Entry
	bytes   int
}

func (p *putBack) add(e deadletter.Entry) error {
	p.entries, p.bytes = append(p.entries, e), p.bytes+len(e.Data)
	if len(p.entries) < 1000 && p.bytes < 8<<20 {
		return nil
	}
	return p.flush()
}

func (p *putBack) flush() error {
	if err := p.store.Put(context.Background(), p.entries...); err != nil {
		return fmt.Errorf("put letters back: %w", err)
	}
	p.entries, p.bytes = nil, 0
	return nil
}

// keepLines copies these lines of a file to one beside it.
func keepLines(claimed string, lines map[int]bool) (name string, err error) {
	f, err := os.Open(claimed)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	name = fmt.Sprintf("%s.damaged-%d", strings.TrimSuffix(claimed, ".claimed"), time.Now().UnixNano())
	to, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	in, last := bufio.NewReader(f), slices.Max(slices.Collect(maps.Keys(lines)))
	for n := 1; n <= last; {
		part, err := in.ReadSlice('\n')
		if lines[n] {
			if _, err := to.Write(part); err != nil {
				return name, err
			}
		}
		if err == nil {
			n++
		} else if errors.Is(err, io.EOF) {
			break
		} else if !errors.Is(err, bufio.ErrBufferFull) {
			return name, err
		}
	}
	return name, to.Sync()
}
