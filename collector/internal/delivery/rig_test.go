package delivery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"go.uber.org/goleak"

	"spillway/collector/internal/deadletter"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a queue in memory. It fails its test when a record is acked twice, or
// one that was not handed out.
type memory struct {
	t testing.TB

	mu      sync.Mutex
	all     []sink.Record
	next    int // first of all not handed out
	acked   map[uint64]bool
	synced  int // acks at the last Sync
	readErr error
	changed chan struct{}
	largest int64 // most bytes handed out and not acked
	out     int64
	onAck   func(seq uint64)
}

func newMemory(t testing.TB) *memory {
	return &memory{t: t, acked: map[uint64]bool{}, changed: make(chan struct{})}
}

func (m *memory) change() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// add appends n records of size bytes, received now, and returns them.
func (m *memory) add(n, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range n {
		seq := uint64(len(m.all) + 1)
		m.all = append(m.all, sink.Record{Seq: seq, At: time.Now(), Key: fmt.Sprint("k", seq), Data: make([]byte, size)})
	}
	m.change()
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readErr = err
	m.change()
}

func (m *memory) Read(ctx context.Context, maxRecords int, maxBytes int64) ([]sink.Record, error) {
	for {
		m.mu.Lock()
		if m.readErr != nil {
			defer m.mu.Unlock()
			return nil, m.readErr
		}
		var records []sink.Record
		size := int64(0)
		for m.next < len(m.all) && len(records) < maxRecords {
			r := m.all[m.next]
			if size += r.Size(); len(records) > 0 && size > maxBytes {
				break
			}
			records = append(records, r)
			m.out += r.Size()
			m.next++
		}
		m.largest = max(m.largest, m.out)
		changed := m.changed
		m.mu.Unlock()
		if len(records) > 0 {
			return records, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (m *memory) Ack(seqs ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, seq := range seqs {
		if seq == 0 || seq > uint64(m.next) {
			m.t.Errorf("record %d was acked but never handed out", seq)
			continue
		}
		if m.acked[seq] {
			m.t.Errorf("record %d was acked twice", seq)
		}
		m.acked[seq] = true
		m.out -= m.all[seq-1].Size()
		if m.onAck != nil {
			m.onAck(seq)
		}
	}
	m.change()
}

func (m *memory) Sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = len(m.acked)
	return nil
}

func (m *memory) Backlog() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.all) - len(m.acked))
}

// waitAcked waits until n records are acked.
func (m *memory) waitAcked(n int) {
	m.t.Helper()
	timeout := time.NewTimer(24 * time.Hour) // in a bubble this costs nothing
	defer timeout.Stop()
	for {
		m.mu.Lock()
		have, changed := len(m.acked), m.changed
		m.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			m.t.Fatalf("%d records were acked in a day, want %d", have, n)
		}
	}
}

// graves is a dead-letter store in memory.
type graves struct {
	mu      sync.Mutex
	entries []deadletter.Entry
	err     error
	hang    bool
	puts    int
}

func (g *graves) Put(ctx context.Context, entries ...deadletter.Entry) error {
	g.mu.Lock()
	g.puts++
	err, hang := g.err, g.hang
	if err == nil && !hang {
		g.entries = append(g.entries, entries...)
	}
	g.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (g *graves) set(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *graves) seqs() map[uint64]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	seqs := map[uint64]int{}
	for _, e := range g.entries {
		seqs[e.Seq]++
	}
	return seqs
}

// lane is a Forwarder with everything around it. It must be made in a bubble.
type lane struct {
	*Forwarder
	t      *testing.T
	queue  *memory
	sink   *sinktest.Fake
	graves *graves
	log    *logtest.Hook
	cancel context.CancelFunc
	done   chan error
}

type setup struct {
	cfg     func(*Config)
	limits  sink.Limits
	route   func(main *sinktest.Fake) Route
	primary *Primary
	queue   *memory
}

func usual() sink.Limits {
	return sink.Limits{MaxRecords: 100, MaxBytes: 1 << 20, Linger: 10 * time.Millisecond, InFlight: 4}
}

// build makes a lane that does not run yet.
func build(t *testing.T, s setup) *lane {
	t.Helper()
	if s.limits == (sink.Limits{}) {
		s.limits = usual()
	}
	cfg := DefaultConfig()
	if s.cfg != nil {
		s.cfg(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	if s.queue == nil {
		s.queue = newMemory(t)
	}
	logger, hook := logtest.NewNullLogger()
	l := &lane{t: t, queue: s.queue, graves: &graves{}, log: hook, sink: sinktest.NewFake(t, sinktest.Options{Limits: s.limits})}
	route := Route{Sink: l.sink, Primary: true}
	if s.route != nil {
		route = s.route(l.sink)
	}
	l.Forwarder = New(cfg, l.queue, route, l.graves, Options{
		Lane: sink.Good, Primary: s.primary, Log: logrus.NewEntry(logger), Metrics: prometheus.NewRegistry(),
	})
	return l
}

// run starts the lane; it is stopped at the end of the test.
func (l *lane) run() *lane {
	ctx, cancel := context.WithCancel(l.t.Context())
	l.cancel, l.done = cancel, make(chan error, 1)
	go func() { l.done <- l.Run(ctx) }()
	l.t.Cleanup(func() { l.stop() })
	return l
}

// stop stops the lane and waits for it; later calls do nothing.
func (l *lane) stop() {
	if l.cancel == nil {
		return
	}
	l.cancel()
	l.cancel = nil
	if err := <-l.done; err != nil {
		l.t.Errorf("Run returned %v", err)
	}
	if got, want := l.queue.synced, len(l.queue.acked); got != want {
		l.t.Errorf("%d acks were synced at the end, of %d", got, want)
	}
}

// after lets d pass and everything settle.
func after(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// flushed asks for a flush and waits for it.
func (l *lane) flushed() {
	l.t.Helper()
	n := l.Flush()
	limit := time.Now().Add(2 * l.cfg.FlushTimeout)
	for l.FlushStatus().Completed < n {
		if time.Now().After(limit) {
			l.t.Fatalf("flush %d is not completed after %v: %+v", n, 2*l.cfg.FlushTimeout, l.FlushStatus())
		}
		after(10 * time.Millisecond)
	}
}

// writtenOnce fails the test unless the n first records were written exactly once
// and nothing else was.
func (l *lane) writtenOnce(n int) {
	l.t.Helper()
	written := l.sink.Written()
	for seq := uint64(1); seq <= uint64(n); seq++ {
		if written[seq] != 1 {
			l.t.Errorf("record %d was written %d times", seq, written[seq])
		}
	}
	if len(written) != n {
		l.t.Errorf("%d records were written, want %d", len(written), n)
	}
}

func (l *lane) logged(level logrus.Level) (lines []string) {
	for _, e := range l.log.AllEntries() {
		if e.Level == level {
			lines = append(lines, e.Message)
		}
	}
	return lines
}

func statePath(t *testing.T) string { return filepath.Join(t.TempDir(), "primary.json") }

var errDisk = errors.New("input/output error")
