package sinktest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"testing"
	"time"

	"spillway/collector/internal/sink"
)

// Options of a Fake. The zero value is a destination that takes everything.
type Options struct {
	Limits sink.Limits // zero fields are filled in: 500 records, 5 MiB, 1 Write at a time
	Info   sink.Info   // zero: fake, "fake"
	Shards int         // how many shards ShardsTouched knows; zero is 1
}

// Fake is a destination in memory that does as it is told. It is safe for
// concurrent use and waits only on channels and timers, so it may be used inside
// a synctest bubble (create it there).
//
// It fails its test when its caller breaks the contract: more records, bytes or
// Writes at a time than its Limits, a record changed while a Write has it, or a
// Write after Close.
type Fake struct {
	t testing.TB
	o Options

	mu        sync.Mutex
	script    []Step                                     // guarded by mu
	otherwise func(call int, records []sink.Record) Step // guarded by mu; nil: all written
	checks    func() error                               // guarded by mu; nil: all is well
	attempts  []Attempt                                  // guarded by mu; by time of start
	applied   []sink.Record                              // guarded by mu
	written   map[uint64]int                             // guarded by mu
	shards    map[uint32]time.Time                       // guarded by mu; last written at
	inFlight  int                                        // guarded by mu
	most      int                                        // guarded by mu
	changed   chan struct{}                              // guarded by mu; closed and replaced at each change
	closed    bool                                       // guarded by mu
}

// NewFake returns a Fake that writes everything until told otherwise.
func NewFake(t testing.TB, o Options) *Fake {
	if o.Limits.MaxRecords == 0 {
		o.Limits.MaxRecords = 500
	}
	if o.Limits.MaxBytes == 0 {
		o.Limits.MaxBytes = 5 << 20
	}
	if o.Limits.InFlight == 0 {
		o.Limits.InFlight = 1
	}
	if o.Info == (sink.Info{}) {
		o.Info = sink.Info{Type: "fake", Target: "fake"}
	}
	o.Shards = max(o.Shards, 1)
	return &Fake{t: t, o: o, written: map[uint64]int{}, shards: map[uint32]time.Time{}, changed: make(chan struct{})}
}

// Then adds steps to the script: each Write takes the next one.
func (f *Fake) Then(steps ...Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = append(f.script, steps...)
}

// Otherwise says what a Write does when the script is at its end; call counts
// all Writes from 0. Nil: it writes everything. The function is called under the
// Fake's lock and must not use the Fake.
func (f *Fake) Otherwise(fn func(call int, records []sink.Record) Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.otherwise = fn
}

// Always makes every Write behind the script do the same step. With OK() the
// destination is well again.
func (f *Fake) Always(step Step) {
	f.Otherwise(func(int, []sink.Record) Step { return step })
}

// OnCheck says what Check answers; nil: no error.
func (f *Fake) OnCheck(fn func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checks = fn
}

// Write does the next step of the script.
func (f *Fake) Write(ctx context.Context, records []sink.Record) []sink.Outcome {
	f.t.Helper()
	before := digest(records)
	step, n := f.begin(records)
	interrupted := step.wait(ctx)
	out := make([]sink.Outcome, len(records))
	for i, r := range records {
		switch {
		case interrupted != nil:
			out[i] = sink.Outcome{Class: sink.Transient, Err: interrupted}
		case step.Each != nil:
			out[i] = step.Each(i, r)
		default:
			out[i].Class = sink.Written
		}
	}
	if digest(records) != before {
		f.t.Errorf("fake sink: records changed while Write %d had them", n)
	}
	f.end(n, step, records, out)
	return out
}

func (f *Fake) begin(records []sink.Record) (Step, int) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	n, step := len(f.attempts), OK()
	if len(f.script) > 0 {
		step, f.script = f.script[0], f.script[1:]
	} else if f.otherwise != nil {
		step = f.otherwise(n, records)
	}
	seqs, size := make([]uint64, len(records)), int64(0)
	for i, r := range records {
		seqs[i], size = r.Seq, size+r.Size()
	}
	f.attempts = append(f.attempts, Attempt{StartedAt: time.Now(), Seqs: seqs, Bytes: size})
	f.inFlight++
	f.most = max(f.most, f.inFlight)
	f.change()

	l := f.o.Limits
	if f.closed {
		f.t.Errorf("fake sink: Write %d after Close", n)
	}
	if len(records) == 0 || len(records) > l.MaxRecords {
		f.t.Errorf("fake sink: Write %d of %d records, want 1 to %d", n, len(records), l.MaxRecords)
	}
	if size > l.MaxBytes && len(records) > 1 {
		f.t.Errorf("fake sink: Write %d of %d bytes, the limit is %d", n, size, l.MaxBytes)
	}
	if f.inFlight > l.InFlight {
		f.t.Errorf("fake sink: %d Writes at a time, the limit is %d", f.inFlight, l.InFlight)
	}
	return step, n
}

func (f *Fake) end(n int, step Step, records []sink.Record, out []sink.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range records {
		written := out[i].Class == sink.Written
		if written {
			f.written[r.Seq]++
			f.shards[f.shard(r.Key)] = time.Now()
		}
		if written || step.Applied {
			r.Data = slices.Clone(r.Data)
			f.applied = append(f.applied, r)
		}
	}
	f.attempts[n].EndedAt = time.Now()
	f.attempts[n].Outcomes = slices.Clone(out)
	f.inFlight--
	f.change()
}

func (f *Fake) shard(key string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	return h.Sum32() % uint32(f.o.Shards)
}

// change wakes those who wait. Called with mu held.
func (f *Fake) change() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Check answers what OnCheck says, or that ctx has ended.
func (f *Fake) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return interruption(err)
	}
	f.mu.Lock()
	checks := f.checks
	f.mu.Unlock()
	if checks == nil {
		return nil
	}
	return checks()
}

// Info returns the Options' Info.
func (f *Fake) Info() sink.Info { return f.o.Info }

// Limits returns the Options' Limits.
func (f *Fake) Limits() sink.Limits { return f.o.Limits }

// Close makes every later Write an error of the test.
func (f *Fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// ShardsTouched returns how many shards took a record since then.
func (f *Fake) ShardsTouched(since time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, at := range f.shards {
		if !at.Before(since) {
			n++
		}
	}
	return n
}

// digest tells whether records changed.
func digest(records []sink.Record) [sha256.Size]byte {
	h := sha256.New()
	for _, r := range records {
		_ = binary.Write(h, binary.BigEndian, []uint64{r.Seq, uint64(r.At.UnixNano()), uint64(len(r.Key)), uint64(len(r.Data))}) // a hash never fails
		_, _ = fmt.Fprint(h, r.Key)
		_, _ = h.Write(r.Data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
