// Package deadletter keeps what can never be delivered: records a destination
// will not take at any time (too large, malformed) and whole requests too large
// to become records. They are kept rather than dropped, with the reason, in files
// a person can read, mend and send again: DIR/{lane}-{YYYY-MM-DD}.ndjson, one
// JSON object a line.
//
// Put returns only when the letters are on stable storage, so its caller may then
// forget them. No file is kept open between calls: an operator may move or delete
// files at any time, and Claim takes one away without losing what is being
// written to it.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"spillway/shared/durable"
)

// ErrFull is returned by Put when Config.MaxBytes would be exceeded.
var ErrFull = errors.New("the dead-letter store is full")

// ErrClosed is returned by Put after Close.
var ErrClosed = errors.New("the dead-letter store is closed")

// remeasure is how often a full store looks whether someone has made room.
const remeasure = time.Second

// Options are what a Store needs besides its config.
type Options struct {
	Log     *logrus.Entry
	Metrics prometheus.Registerer // may be nil
}

// Store writes dead letters. It is safe for concurrent use.
type Store struct {
	dir     string
	cfg     Config
	log     *logrus.Entry
	metrics *metrics

	writing sync.Mutex     // held by the group that is being written
	groups  sync.WaitGroup // groups not yet finished

	mu         sync.Mutex // guards what follows
	next       *group     // gathers letters while another group is written; nil if none
	closed     bool
	bytes      int64 // in files, and promised to groups not yet written
	files      int
	measuredAt time.Time
	letters    map[string]uint64 // put since start, by lane
	trouble    string            // why the last Put failed; empty if it did not
}

// group is the letters of several Put calls that share one sync.
type group struct {
	lines map[string][]byte // by file name
	size  int64
	count map[string]uint64 // by lane
	done  chan struct{}     // closed when err is final
	err   error
}

// Open prepares the store in dir, making the directory if need be. A line torn by
// a crash in an earlier life does no harm: it is set apart from the next one.
func Open(dir string, cfg Config, opts Options) (*Store, error) {
	if err := durable.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("open dead-letter store: %w", err)
	}
	s := &Store{dir: dir, cfg: cfg, log: opts.Log, letters: map[string]uint64{}}
	s.metrics = newMetrics(opts.Metrics, s)
	if err := s.measure(); err != nil {
		return nil, fmt.Errorf("open dead-letter store: %w", err)
	}
	if s.files > 0 {
		s.log.WithFields(logrus.Fields{"files": s.files, "bytes": s.bytes}).Info("dead letters of earlier days are waiting for a person")
	}
	return s, nil
}

// Put stores the entries, all or none, and returns nil once they are on stable
// storage. Calls made at the same time share one sync. The entries' memory is the
// caller's again when Put returns. If ctx ends first its error is returned and
// the entries may still become durable. It returns ErrFull when there is no room
// for them: the caller must keep them.
func (s *Store) Put(ctx context.Context, entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	g, err := s.join(entries)
	if err != nil {
		return s.note(err)
	}
	select {
	case <-g.done:
		return s.note(g.err)
	case <-ctx.Done():
		return fmt.Errorf("put dead letter: %w", context.Cause(ctx))
	}
}

// join adds the entries to the group to be written next, starting one if none is
// being gathered.
func (s *Store) join(entries []Entry) (*group, error) {
	lines, count, size := map[string][]byte{}, map[string]uint64{}, int64(0)
	for _, e := range entries {
		if e.Lane == "" || e.Lane != filepath.Base(e.Lane) {
			return nil, fmt.Errorf("put dead letter: %q is not the name of a lane", e.Lane)
		}
		if e.At.IsZero() {
			e.At = time.Now()
		}
		name := fileName(e.Lane, e.At)
		before := len(lines[name])
		encoded, err := appendLine(lines[name], e)
		if err != nil {
			return nil, err
		}
		lines[name] = encoded
		size += int64(len(encoded) - before)
		count[e.Lane]++
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.bytes+size > int64(s.cfg.MaxBytes) && time.Since(s.measuredAt) >= remeasure {
		if err := s.measureLocked(); err != nil {
			return nil, err
		}
	}
	if s.bytes+size > int64(s.cfg.MaxBytes) {
		return nil, fmt.Errorf("put dead letter of %d bytes in %s, which holds %d bytes of at most %s (max_bytes): make room, or raise it: %w", size, s.dir, s.bytes, s.cfg.MaxBytes, ErrFull)
	}
	g := s.next
	if g == nil {
		g = &group{lines: map[string][]byte{}, count: map[string]uint64{}, done: make(chan struct{})}
		s.next = g
		s.groups.Add(1)
		go s.commit(g)
	}
	for name, encoded := range lines {
		g.lines[name] = append(g.lines[name], encoded...)
	}
	for lane, n := range count {
		g.count[lane] += n
	}
	g.size += size
	s.bytes += size
	return g, nil
}

// commit waits for the group before, stops gathering and writes.
func (s *Store) commit(g *group) {
	defer s.groups.Done()
	s.writing.Lock()
	s.mu.Lock()
	s.next = nil
	s.mu.Unlock()

	created := 0
	for name, lines := range g.lines {
		made, err := appendDurable(filepath.Join(s.dir, name), lines)
		if made {
			created++
		}
		// Nothing more is written after a failure, but what was written of this
		// group stays: its letters may appear twice, never not at all.
		if g.err = err; err != nil {
			break
		}
	}

	s.mu.Lock()
	s.files += created
	if g.err != nil {
		if s.measureLocked() != nil {
			s.bytes -= g.size
		}
	} else {
		for lane, n := range g.count {
			s.letters[lane] += n
			s.metrics.letters.WithLabelValues(lane).Add(float64(n))
		}
	}
	s.mu.Unlock()
	s.writing.Unlock()
	close(g.done)
}

// note counts a failure, remembers it for Stats, and hands it on: the caller, who
// keeps the letter, logs it.
func (s *Store) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trouble = ""; err != nil {
		s.metrics.failures.Inc()
		s.trouble = err.Error()
	}
	return err
}

// Stats are figures about the store.
type Stats struct {
	Letters    map[string]uint64 // put since start, by lane
	Files      int
	Bytes      int64
	LimitBytes int64
	LastError  string // empty when the last Put succeeded
}

// Stats returns figures from memory. It is safe for concurrent use.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	letters := make(map[string]uint64, len(s.letters))
	maps.Copy(letters, s.letters)
	return Stats{Letters: letters, Files: s.files, Bytes: s.bytes, LimitBytes: int64(s.cfg.MaxBytes), LastError: s.trouble}
}

// Close waits for what is being written. Put returns ErrClosed afterwards.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.groups.Wait()
	return nil
}

func (s *Store) measure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.measureLocked()
}

// measureLocked takes the sizes from the disk, where a person may have made room.
// Of a group just being written only what has arrived is counted: the limit may
// be passed by one group, once.
func (s *Store) measureLocked() error {
	files, err := List(s.dir)
	if err != nil {
		return err
	}
	s.bytes, s.files, s.measuredAt = 0, len(files), time.Now()
	for _, f := range files {
		s.bytes += f.Bytes
	}
	if s.next != nil {
		s.bytes += s.next.size
	}
	return nil
}

func fileName(lane string, at time.Time) string {
	return lane + "-" + at.UTC().Format(time.DateOnly) + ".ndjson"
}
