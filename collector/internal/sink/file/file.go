// Package file writes records to files in a directory, in the form and under the
// names in which package s3 writes objects.
//
// One Write is one file. Written means that the file, its name and the
// directories above it survive a loss of power. Readers see whole files only;
// what begins with a dot is unfinished or was when the power went.
package file

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/meter"
	"spillway/shared/durable"
)

const (
	dirMode  = 0o750
	fileMode = 0o640
	probeDir = "_probe"
	// maxKnown bounds the directories that are remembered; there is a new one each
	// hour.
	maxKnown = 1000
)

// Options are what a Sink needs besides its Config.
type Options struct {
	Lane     sink.Lane
	Instance string                // the collector's name, which stands in paths
	Metrics  prometheus.Registerer // may be nil
}

// Sink writes the files of one lane. It implements sink.Sink and is safe for
// concurrent use.
type Sink struct {
	cfg      Config
	lane     sink.Lane
	instance string
	meter    *meter.Meter
	slots    chan struct{} // one for each file being written

	mu    sync.Mutex
	known map[string]bool // guarded by mu; directories that survive a loss of power
}

var _ sink.Sink = (*Sink)(nil)

// New makes a sink from a valid config. It does not touch the disk.
func New(cfg Config, o Options) *Sink {
	cfg.Dir = filepath.Clean(cfg.Dir)
	return &Sink{
		cfg: cfg, lane: o.Lane, instance: archive.CleanInstance(o.Instance),
		meter: meter.New(o.Metrics, "file", o.Lane),
		slots: make(chan struct{}, cfg.InFlight),
		known: map[string]bool{},
	}
}

// Write implements sink.Sink: all records go into one file. A disk that hangs
// does not hold it beyond the end of ctx; the file may still appear then.
func (s *Sink) Write(ctx context.Context, records []sink.Record) []sink.Outcome {
	if len(records) == 0 {
		return nil
	}
	start := time.Now()
	out := sink.AllWritten(len(records))
	if err := s.write(ctx, records); err != nil {
		out = sink.Fail(len(records), sink.Transient, err)
	}
	s.meter.Write(start, records, out)
	return out
}

func (s *Sink) write(ctx context.Context, records []sink.Record) *sink.Error {
	object, err := archive.Pack(s.lane, s.instance, records)
	if err != nil {
		return sink.AsError(err)
	}
	return s.put(ctx, filepath.Join(s.cfg.Dir, filepath.FromSlash(object.Name.String())), object.Body)
}

// Check implements sink.Sink: it writes a tiny file of this collector, always the
// same, below _probe.
func (s *Sink) Check(ctx context.Context) error {
	if err := s.put(ctx, filepath.Join(s.cfg.Dir, probeDir, s.instance), []byte("spillway\n")); err != nil {
		return err
	}
	return nil
}

// put publishes a file. Files on a hanging disk keep their slots, so that no more
// than that many wait for it.
func (s *Sink) put(ctx context.Context, path string, body []byte) *sink.Error {
	if err := ctx.Err(); err != nil {
		return s.stopped(err)
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return s.stopped(ctx.Err())
	}
	s.meter.Call()
	done := make(chan error, 1)
	go func() {
		done <- s.publish(path, body)
		<-s.slots
	}()
	select {
	case err := <-done:
		return s.explain(err)
	case <-ctx.Done():
		return s.stopped(ctx.Err())
	}
}

func (s *Sink) publish(path string, body []byte) error {
	dir := filepath.Dir(path)
	if err := s.ensure(dir); err != nil {
		return err
	}
	err := durable.WriteFile(path, body, fileMode)
	if err != nil {
		s.mu.Lock()
		delete(s.known, dir) // it may have been removed
		s.mu.Unlock()
	}
	return err
}

// ensure makes a directory and its parents and sees to it that their names
// survive a loss of power. That a directory exists does not show that: whoever
// made it may not have come to syncing it, or may just be about to.
func (s *Sink) ensure(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[dir] {
		return nil
	}
	if err := durable.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	for d := dir; d != s.cfg.Dir && d != filepath.Dir(d); d = filepath.Dir(d) {
		if err := durable.SyncDir(filepath.Dir(d)); err != nil {
			return err
		}
	}
	// A parent that we may not read is not ours, and Dir was made by its owner.
	if err := durable.SyncDir(filepath.Dir(s.cfg.Dir)); err != nil && !errors.Is(err, syscall.EACCES) {
		return err
	}
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[dir] = true
	return nil
}

func (s *Sink) stopped(err error) *sink.Error {
	return &sink.Error{Cause: sink.CauseServer, Message: "write files in " + s.cfg.Dir + ": stopped before the disk had done it", Err: err}
}

// explain says what an error of the disk means. The names of single files are
// left out of the message, so that the same fault gives the same message.
func (s *Sink) explain(err error) *sink.Error {
	if err == nil {
		return nil
	}
	e := &sink.Error{Cause: sink.CauseServer, Message: "write files in " + s.cfg.Dir, Err: err}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		e.Message += ": " + err.Error()
		return e
	}
	e.Message += ": " + errno.Error()
	switch errno {
	case syscall.ENOSPC, syscall.EDQUOT:
		e.Message += ": make room on the disk"
	case syscall.EACCES, syscall.EPERM:
		e.Cause = sink.CauseAuth
		e.Message += ": let the collector's user write there"
	case syscall.EROFS, syscall.ENOENT, syscall.ENOTDIR, syscall.ENAMETOOLONG:
		e.Cause = sink.CauseConfig
		e.Message += ": correct dir, or what is mounted there"
	}
	return e
}

// Info implements sink.Sink.
func (s *Sink) Info() sink.Info { return sink.Info{Type: "file", Target: s.cfg.Dir} }

// Limits implements sink.Sink.
func (s *Sink) Limits() sink.Limits {
	return sink.Limits{MaxRecords: s.cfg.MaxRecords, MaxBytes: int64(s.cfg.MaxBytes), Linger: s.cfg.Linger, InFlight: s.cfg.InFlight}
}

// Close implements sink.Sink.
func (s *Sink) Close() error { return nil }
