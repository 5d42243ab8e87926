package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/payload"
	"spillway/collector/internal/replay"
	"spillway/collector/internal/sink"
)

// memory is a store in memory that several replayers share. Claims are not
// renewed there: a replayer's are gone when it dies.
type memory struct {
	mu      sync.Mutex // guards what follows
	objects map[string][]byte
	marks   map[string]replay.Mark
	owners  map[string]*process // of claims
}

func newMemory() *memory {
	return &memory{objects: map[string][]byte{}, marks: map[string]replay.Mark{}, owners: map[string]*process{}}
}

// process is the memory as one replayer sees it, until it dies.
type process struct {
	*memory
	dead bool // guarded by mu; nothing it does takes effect
}

var errDead = errors.New("this replayer is dead")

func (m *memory) process() *process { return &process{memory: m} }

func (p *process) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	maps.DeleteFunc(p.owners, func(_ string, owner *process) bool { return owner == p })
}

func (p *process) Place() string { return "p/" }

func (p *process) List(_ context.Context, place string, visit func(replay.Entry) error) error {
	p.mu.Lock()
	keys := map[string]int64{}
	for key, body := range p.objects {
		keys[key] = int64(len(body))
	}
	for key := range p.marks {
		keys[key] = 1
	}
	p.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if strings.HasPrefix(key, place) {
			if err := visit(replay.Entry{Key: key, Size: keys[key]}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *process) Open(_ context.Context, e replay.Entry) (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return io.NopCloser(bytes.NewReader(p.objects[e.Key])), nil
}

func (p *process) ReadMark(_ context.Context, key string) (replay.Mark, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.marks[key]
	if !ok {
		return m, replay.ErrNoMark
	}
	return m, nil
}

func (p *process) Delete(_ context.Context, key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.marks, key)
	delete(p.objects, key)
	return nil
}

func (p *process) Claim(_ context.Context, _ replay.Entry, marks replay.Marks, _ string) (replay.Claim, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return nil, errDead
	}
	for _, key := range []string{marks.Done, marks.Damaged} {
		if _, ok := p.marks[key]; ok {
			return nil, replay.ErrDone
		}
	}
	if owner := p.owners[marks.Claim]; owner != nil {
		return nil, &replay.BusyError{By: "another"}
	}
	p.owners[marks.Claim] = p
	return &memoryClaim{p, marks, p.marks[marks.Claim]}, nil
}

type memoryClaim struct {
	*process
	marks replay.Marks
	found replay.Mark
}

func (c *memoryClaim) Found() replay.Mark { return c.found }

func (c *memoryClaim) write(key string, m replay.Mark) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return errDead
	}
	if c.owners[c.marks.Claim] != c.process {
		return replay.ErrLost
	}
	c.memory.marks[key] = m
	return nil
}

func (c *memoryClaim) Save(_ context.Context, m replay.Mark) error { return c.write(c.marks.Claim, m) }

func (c *memoryClaim) Finish(_ context.Context, m replay.Mark) error {
	if err := c.write(c.marks.Finished(m), m); err != nil {
		return err
	}
	return c.let(true)
}

func (c *memoryClaim) Release(_ context.Context, m replay.Mark) error {
	m.Released = true
	if err := c.write(c.marks.Claim, m); err != nil {
		return err
	}
	return c.let(false)
}

func (c *memoryClaim) let(done bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.owners, c.marks.Claim)
	if done {
		delete(c.memory.marks, c.marks.Claim)
	}
	return nil
}

// add packs records into an object and stores it.
func (m *memory) add(t fatal, lane sink.Lane, instance string, records []sink.Record) *archive.Object {
	t.Helper()
	o, err := archive.Pack(lane, instance, records)
	if err != nil {
		t.Fatal(err)
	}
	m.objects[o.Name.Key("p")] = o.Body
	return o
}

type fatal interface {
	Helper()
	Fatal(args ...any)
}

var hour = time.Date(2026, 12, 1, 1, 30, 0, 0, time.UTC)

// event is a record whose data names it.
func event(seq uint64, name string) sink.Record {
	p := payload.Payload{Timestamp: hour.UnixMilli(), QueryString: payload.Some("eid=" + name), Schema: payload.Some(payload.Schema)}
	return sink.Record{Seq: seq, At: hour, Key: "key of " + name, Data: p.AppendThrift(nil)}
}

func events(from uint64, n int, box string) []sink.Record {
	var records []sink.Record
	for i := range n {
		seq := from + uint64(i)
		records = append(records, event(seq, fmt.Sprint(box, "-", seq)))
	}
	return records
}

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

// destination is a forwarder and a sink in one. It takes records in batches,
// confirms them in any order, and counts what arrived, whoever brought it.
type destination struct {
	mu      sync.Mutex // guards what follows
	arrived map[string]int
	dieAt   int // the process that brings so many dies; 0: none does
}

func key(r sink.Record) string { return r.Key + "|" + string(r.Data) }

// deliver takes from the queue until ctx ends, or until p dies of it.
func (d *destination) deliver(p *process, queue *replay.Queue) func(context.Context) error {
	return func(ctx context.Context) error {
		var pending []uint64
		for ctx.Err() == nil {
			limited, cancel := context.WithTimeout(ctx, time.Millisecond)
			records, err := queue.Read(limited, 1+rand.IntN(40), 1<<20)
			cancel()
			if err != nil { // all that there is has been read
				queue.Ack(pending...)
				pending = nil
				continue
			}
			died := false
			d.mu.Lock()
			for _, r := range records {
				d.arrived[key(r)]++
				if d.dieAt > 0 {
					d.dieAt--
					died = died || d.dieAt == 0
				}
				pending = append(pending, r.Seq)
			}
			d.mu.Unlock()
			if died {
				p.die()
				return errDead
			}
			rand.Shuffle(len(pending), func(i, j int) { pending[i], pending[j] = pending[j], pending[i] })
			n := rand.IntN(len(pending) + 1)
			queue.Ack(pending[:n]...)
			pending = slices.Clone(pending[n:])
		}
		return nil
	}
}

// run replays what waits as one process.
func run(t *testing.T, p *process, d *destination, o replay.Options) (*replay.Report, error) {
	t.Helper()
	o.Store, o.Log, o.Report = p, quiet(), &replay.Report{}
	if o.Progress == nil {
		o.Progress = &replay.Progress{}
	}
	plan, err := replay.Look(t.Context(), p, replay.Selection{Lane: sink.Good})
	if err != nil {
		return o.Report, err
	}
	o.Report.Found(plan)
	r := replay.New(plan.Waiting, o)
	return o.Report, r.Run(t.Context(), d.deliver(p, r.Queue()))
}
