package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/health"
	"spillway/shared/mode"
)

// modes keeps the mode this process runs true to the mode file. The file is the
// only desired state: who wants another mode writes it there first.
type modes struct {
	path  string
	log   *logrus.Entry
	apply func(ctx context.Context, to mode.Mode) error // switches the sinks

	mu     sync.Mutex // serializes switches and guards what follows
	file   mode.File  // the file that chose the present mode
	runs   mode.Mode
	broken string // what is wrong with the file, in words
}

// read reads the mode file and decides what to run: a file that cannot be used
// means primary, and a fallback that is not configured cannot be run.
func (m *modes) read(hasFallback bool) mode.Mode {
	file, err := mode.Read(m.path)
	m.mu.Lock()
	defer m.mu.Unlock()
	to := file.Mode
	m.file, m.broken = file, ""
	if err != nil {
		m.broken = err.Error()
		m.log.WithError(err).Error("the mode file cannot be used")
	} else if file.Mode == mode.Fallback && !hasFallback {
		to = mode.Primary
		m.broken = fmt.Sprintf("mode file %s says fallback, but no fallback config is given: running as primary (start with --fallback-config)", m.path)
		m.log.Error(m.broken)
	}
	if m.runs == "" { // at the start: nothing has to be switched
		m.runs = to
	}
	return to
}

// follow reads the mode file again and switches if it says so.
func (m *modes) follow(ctx context.Context, hasFallback bool) error {
	before := m.state().Name
	to := m.read(hasFallback)
	if err := m.apply(ctx, to); err != nil {
		return err
	}
	m.mu.Lock()
	m.runs = to
	m.mu.Unlock()
	if string(to) != before {
		s := m.state()
		m.log.WithFields(logrus.Fields{"mode": to, "by": s.By, "rev": s.Rev}).Info("switched without a restart, as the mode file says")
	}
	return nil
}

var errNoFallback = errors.New("no fallback config is given: start with --fallback-config")

// order writes the mode file, unless it says so already, and switches.
func (m *modes) order(ctx context.Context, to mode.Mode, hasFallback bool, by, reason string) (mode.File, error) {
	if to == mode.Fallback && !hasFallback {
		return mode.File{}, errNoFallback
	}
	file, err := mode.Read(m.path)
	if err != nil || file.Mode != to || file.Rev == 0 {
		if file, err = mode.Swap(m.path, file.Rev, mode.File{Mode: to, By: by, Reason: reason}); err != nil {
			return mode.File{}, err
		}
	}
	return file, m.follow(ctx, hasFallback)
}

// state is what the health report says of the mode.
func (m *modes) state() health.Mode {
	m.mu.Lock()
	defer m.mu.Unlock()
	return health.Mode{Name: string(m.runs), Rev: m.file.Rev, By: m.file.By, FileError: m.broken}
}
