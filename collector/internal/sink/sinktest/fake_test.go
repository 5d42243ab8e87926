package sinktest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
)

func some(seqs ...uint64) []sink.Record {
	var records []sink.Record
	for _, seq := range seqs {
		records = append(records, sink.Record{Seq: seq, At: time.UnixMilli(int64(seq)), Key: fmt.Sprint("key-", seq), Data: fmt.Append(nil, "data-", seq)})
	}
	return records
}

func seqs(records []sink.Record) []uint64 {
	var out []uint64
	for _, r := range records {
		out = append(out, r.Seq)
	}
	return out
}

func TestFake_Write_followsItsScript(t *testing.T) {
	f := sinktest.NewFake(t, sinktest.Options{Shards: 4})
	f.Then(sinktest.Fail(sink.Throttled, sinktest.Over()), sinktest.Lost(sinktest.Down()),
		sinktest.FailSome(sink.Permanent, sinktest.Unfit(), func(_ int, r sink.Record) bool { return r.Seq == 2 }))
	for call, want := range [][]sink.Class{
		{sink.Throttled, sink.Throttled}, {sink.Transient, sink.Transient}, {sink.Written, sink.Permanent}, {sink.Written, sink.Written},
	} {
		for i, o := range f.Write(t.Context(), some(1, 2)) {
			if o.Class != want[i] || (o.Err == nil) != (o.Class == sink.Written) {
				t.Errorf("call %d record %d: %v %v, want %v", call, i, o.Class, o.Err, want[i])
			}
		}
	}
	if got, want := seqs(f.Applied()), []uint64{1, 2, 1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("applied %v, want %v", got, want)
	}
	if w := f.Written(); w[1] != 2 || w[2] != 1 || f.Calls() != 4 {
		t.Errorf("written %v in %d calls", w, f.Calls())
	}
	if n := f.ShardsTouched(time.Time{}); n < 1 || n > 2 {
		t.Errorf("%d shards touched by two keys", n)
	}
}

func TestFake_Write_hangsUntilReleasedOrCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := sinktest.NewFake(t, sinktest.Options{Limits: sink.Limits{InFlight: 2}})
		release := make(chan struct{})
		f.Always(sinktest.Hang(release))
		ctx, cancel := context.WithCancel(t.Context())
		given, cut := make(chan sink.Outcome), make(chan sink.Outcome)
		go func() { given <- f.Write(t.Context(), some(1))[0] }()
		go func() { cut <- f.Write(ctx, some(2))[0] }()
		if err := f.WaitCalls(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		cancel()
		if o := <-cut; o.Class != sink.Transient {
			t.Errorf("cancelled Write: %v", o)
		}
		close(release)
		if o := <-given; o.Class != sink.Written {
			t.Errorf("released Write: %v", o)
		}
		if now, most := f.InFlight(); now != 0 || most != 2 {
			t.Errorf("in flight %d, at most %d", now, most)
		}
		f.Always(sinktest.Slow(time.Hour))
		start := time.Now()
		f.Write(t.Context(), some(3))
		if took := time.Since(start); took != time.Hour {
			t.Errorf("took %v, want 1h", took)
		}
	})
}

// complaints stands in for a test that a Fake fails.
type complaints struct {
	testing.TB
	n int
}

func (c *complaints) Helper()               {}
func (c *complaints) Errorf(string, ...any) { c.n++ }

func TestFake_Write_complainsOfABrokenContract(t *testing.T) {
	for name, breakIt := range map[string]func(f *sinktest.Fake){
		"too many": func(f *sinktest.Fake) { f.Write(t.Context(), some(1, 2, 3)) },
		"too big":  func(f *sinktest.Fake) { f.Write(t.Context(), some(1, 222222222222222)) },
		"none":     func(f *sinktest.Fake) { f.Write(t.Context(), nil) },
		"closed":   func(f *sinktest.Fake) { _ = f.Close(); f.Write(t.Context(), some(1)) },
		"changed": func(f *sinktest.Fake) {
			f.Always(sinktest.Step{Each: func(_ int, r sink.Record) sink.Outcome { r.Data[0]++; return sink.Outcome{} }})
			f.Write(t.Context(), some(1))
		},
	} {
		c := &complaints{TB: t}
		breakIt(sinktest.NewFake(c, sinktest.Options{Limits: sink.Limits{MaxRecords: 2, MaxBytes: 40}}))
		if c.n != 1 {
			t.Errorf("%s: %d complaints, want 1", name, c.n)
		}
	}
}
