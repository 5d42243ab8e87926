package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/config"
	"spillway/collector/internal/deadletter"
	"spillway/collector/internal/delivery"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/spool"
	"spillway/collector/internal/spool/vfs"
	"spillway/shared/logsetup"
)

// Export is a delivery of what waits in the spool of a collector that does not
// run: its box died, or it cannot start.
type Export struct {
	Config config.Config // its DataDir has the spool, its Sink takes the records
	Lanes  []sink.Lane
	// Drain takes the spool's lock, acks what was delivered and keeps what can
	// never be delivered among the dead letters. Without it nothing in the data
	// directory changes, which may be mounted read-only.
	Drain bool
	Log   *logrus.Entry
}

// LaneExport is what became of a lane's records.
type LaneExport struct {
	Lane        sink.Lane `json:"lane"`
	Waiting     int64     `json:"waiting"`      // when the export began
	Delivered   uint64    `json:"delivered"`    // records the destination confirmed
	DeadLetters uint64    `json:"dead_letters"` // with Drain: kept among the dead letters
	Refused     uint64    `json:"refused"`      // without: can never be delivered there
	Damaged     uint64    `json:"damaged"`      // cannot be read
	Left        int64     `json:"left"`         // not delivered
	Reason      string    `json:"reason,omitempty"`
}

// Complete says that every record which waited is at the destination.
func (l LaneExport) Complete() bool { return l.Left == 0 && l.Refused == 0 && l.Damaged == 0 }

// Run exports until nothing is left or ctx ends. Faults of the destination are
// waited for, as a collector would. It returns what became of the lanes also when
// it returns an error.
func (e Export) Run(ctx context.Context) ([]LaneExport, error) {
	var done []LaneExport
	for _, lane := range e.Lanes {
		result, err := e.lane(ctx, lane)
		done = append(done, result)
		if err != nil {
			return done, fmt.Errorf("export the %s lane: %w", lane, err)
		}
	}
	return done, nil
}

func (e Export) lane(ctx context.Context, lane sink.Lane) (result LaneExport, err error) {
	result.Lane = lane
	dir := filepath.Join(e.Config.DataDir, "spool", string(lane))
	log := logsetup.Component(e.Log, "export").WithField("lane", lane)
	// Looked at first: a directory that is not there is a mistake, not a new spool.
	fs, err := vfs.ReadOnly(dir)
	if err != nil {
		return result, err
	}
	cfg := e.Config.Spool
	if lane == sink.Bad {
		cfg = e.Config.BadSpool
	}
	opts := spool.Options{Log: logsetup.Component(e.Log, "spool").WithField("lane", lane)}
	var dead delivery.DeadLetters = &refusals{log: log}
	if e.Drain {
		store, err := deadletter.Open(filepath.Join(e.Config.DataDir, "dead-letters"), e.Config.DeadLetters, deadletter.Options{Log: log})
		if err != nil {
			return result, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		dead = store
	} else {
		opts.FS = fs
	}
	from, err := spool.Open(dir, cfg, opts)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := MakeSink(e.Config, lane, logsetup.Component(e.Log, "sink").WithField("lane", lane), nil)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()

	result.Waiting = from.Stats().Events
	status, err := deliverOnce(ctx, e.Config, queue{from}, to, dead, lane, log, func(s delivery.Status) int64 {
		stats := from.Stats()
		return stats.Events - int64(stats.UnreadableRecords) - int64(s.ParkedRecords)
	})
	stats := from.Stats()
	result.Delivered, result.Left, result.Damaged = status.WrittenTotal, stats.Events, stats.CorruptRecords+stats.UnreadableRecords
	if result.Left > 0 {
		result.Reason = status.Sink.LastError
	}
	if r, ok := dead.(*refusals); ok {
		result.Refused = status.DeadLettersTotal
		if result.Refused > 0 {
			result.Reason = r.last()
		}
		if pid, busy := spool.Running(dir); busy && err == nil {
			err = fmt.Errorf("a collector (process %d) has opened the spool meanwhile: it delivers what is left", pid)
		}
	} else {
		result.DeadLetters = status.DeadLettersTotal
	}
	return result, err
}

// refusals stands in for the dead letters where nothing may be written: it only
// says what cannot be delivered.
type refusals struct {
	log *logrus.Entry

	mu     sync.Mutex
	reason string
}

// Put counts the entries as dealt with: their acks are kept in memory only.
func (r *refusals) Put(_ context.Context, entries ...deadletter.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		if e.Reason != r.reason {
			r.reason = e.Reason
			r.log.Warnf("record %d can never be delivered there and stays in the spool: %s", e.Seq, e.Reason)
		}
	}
	return nil
}

func (r *refusals) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reason
}
