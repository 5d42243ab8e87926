// Package spool is the durable queue between the trackers and the destination:
// what was appended is on disk before anybody is answered, and stays there until
// it is acked.
//
// A Log is a directory of segments, numbered files of a fixed size. One goroutine
// writes: it takes every Append that waits, writes their records one after
// another, syncs once, and only then lets Append return and Read see them. Read
// hands the records out in order. Ack marks them, in any order, in memory; the
// marks are saved a little later. A segment whose records are all acked, and
// saved as acked, is emptied and written again, or removed.
//
// After a crash Open reads the labels of the segments, scans the one that was
// being written, and goes on in a new one. Records that were handed out but whose
// acks were not saved are handed out again. Damage costs the records it hit and
// nothing else: they are counted, and their bytes are set aside for people.
package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"spillway/collector/internal/spool/vfs"
)

// Record is one message in the log.
type Record struct {
	Seq  uint64    // rises over the life of the directory, never used twice; Append ignores it and assigns it
	At   time.Time // when it was received; kept to the millisecond
	Key  string    // at most 65,535 bytes
	Data []byte
}

// Options are the surroundings of a log.
type Options struct {
	Log     *logrus.Entry         // nil: nothing is logged
	Metrics prometheus.Registerer // nil: no metrics
	Lane    string                // label of the metrics; may be empty
	FS      vfs.FS                // nil: the directory itself
}

// Log is an open log. It is safe for concurrent use.
type Log struct {
	dir     string
	cfg     Config
	log     *logrus.Entry
	fs      vfs.FS
	lock    io.Closer
	metrics *metrics

	limitBytes int64
	commit     committer
	writing    atomic.Pointer[time.Time] // when the group being written was begun; nil if none is
	reader     reader
	requests   sync.Pool     // of *request
	sealed     chan vfs.File // segments whose seal is to be synced and that are to be closed
	stop       chan struct{} // closed when Close begins
	wait       sync.WaitGroup
	closeOnce  sync.Once
	closeErr   error

	saving     sync.Mutex // serializes saving acks and reclaiming, and guards what follows; taken before mu
	acks       ackFile
	shut       bool   // the directory may belong to another process by now
	ackFailing string // error of the last save, "" if it was done

	mu       sync.Mutex // guards what follows
	work     sync.Cond  // signalled when queue or closing changes; uses mu
	closing  bool
	queue    []*request // appends that wait to be written
	segments []*segment // ascending by number and seq
	spares   []spare
	pinned   *segment // in use by the reader: not to be reclaimed
	tip      uint64   // seq after the last durable record
	events   int64    // durable and not acked
	bytes    int64    // of these, estimated within segments acked in part
	reserved reservation
	handed   []mark // when records handed out were received, ascending by seq
	unreadAt int64  // no unread record was received before this; 0 if unknown
	readSeq  uint64 // records below were handed out
	dirty    bool   // acks since the last save
	saved    ackState
	disk     disk
	totals   totals

	readable chan struct{} // 1 when there may be something to read
	ackable  chan struct{} // 1 when there may be acks to save
}

// reservation is what the appends under way will need.
type reservation struct{ events, bytes int64 }

// spare is an emptied segment.
type spare struct {
	name string
	size int64
}

// mark says when a record was received.
type mark struct {
	seq uint64
	at  int64
}

// Open opens the log in dir, making it if it is missing. It returns a
// *LockedError while another process has it, a *FormatError if another version
// wrote it, and otherwise only fails if the directory cannot be used at all:
// damage in it is worked around and reported. Open takes time for reading the
// segment written last, not for the rest of the backlog.
func Open(dir string, cfg Config, opts Options) (*Log, error) {
	l, err := open(dir, cfg, opts)
	if err != nil {
		return nil, err
	}
	l.wait.Go(l.commitLoop)
	l.wait.Go(l.upkeep)
	return l, nil
}

func open(dir string, cfg Config, opts Options) (l *Log, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open spool %s: %w", dir, err)
	}
	fs := opts.FS
	if fs == nil {
		if fs, err = vfs.Dir(dir); err != nil {
			return nil, fmt.Errorf("open spool: %w", err)
		}
	}
	log := opts.Log
	if log == nil {
		quiet := logrus.New()
		quiet.SetOutput(io.Discard)
		log = logrus.NewEntry(quiet)
	}
	lock, err := fs.Lock(lockName)
	if held, ok := errors.AsType[*vfs.LockedError](err); ok {
		return nil, &LockedError{Dir: dir, PID: held.PID}
	}
	if err != nil {
		return nil, fmt.Errorf("open spool %s: it must be writable by this user: %w", dir, err)
	}
	l = &Log{
		dir:      dir,
		cfg:      cfg,
		log:      log,
		fs:       fs,
		lock:     lock,
		acks:     ackFile{fs: fs},
		stop:     make(chan struct{}),
		readable: make(chan struct{}, 1),
		ackable:  make(chan struct{}, 1),
		sealed:   make(chan vfs.File, 4),
	}
	l.work.L = &l.mu
	l.reader.turn = make(chan struct{}, 1)
	if err := l.recover(); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("open spool %s: %w", dir, err)
	}
	l.metrics = newMetrics(l, opts.Metrics, opts.Lane)
	return l, nil
}

// Sync saves the acks made so far: once it returns nil they survive a crash. It
// also gives back segments that are no longer needed.
func (l *Log) Sync() error {
	return l.saveAcks()
}

// Close finishes the appends under way, saves the acks and closes the log.
// Append and Read return ErrClosed from now on. A second Close returns what the
// first did.
func (l *Log) Close() error {
	l.closeOnce.Do(func() { l.closeErr = l.close() })
	return l.closeErr
}

func (l *Log) close() error {
	l.mu.Lock()
	l.closing = true
	l.work.Broadcast()
	l.mu.Unlock()
	close(l.stop)
	l.wait.Wait()
	l.syncSealed()
	l.reader.turn <- struct{}{} // kept: a Read that has the turn ends first
	l.reader.release(l)
	err := l.saveAcks()
	l.saving.Lock()
	l.shut = true
	l.acks.close()
	l.saving.Unlock()
	l.metrics.unregister()
	if unlockErr := l.lock.Close(); err == nil && unlockErr != nil {
		err = fmt.Errorf("unlock spool %s: %w", l.dir, unlockErr)
	}
	return err
}

// signal leaves one token in c.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ctxError is the error of a call that ended because its context did.
func ctxError(ctx context.Context, what string) error {
	return fmt.Errorf("%s: %w", what, ctx.Err())
}
