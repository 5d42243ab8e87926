package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"spillway/collector/internal/sink"
)

// Destination is a sink under test and the stand-in behind it.
type Destination struct {
	Sink sink.Sink
	// Stored returns what arrived, in any order, a record that arrived twice
	// standing twice. Only Key and Data are looked at.
	Stored func() []sink.Record
	// FailNotApplied makes calls fail, and nothing is stored.
	FailNotApplied func()
	// FailApplied makes calls fail after all was stored: the answer is lost. Nil: it
	// cannot happen here.
	FailApplied func()
	// Hang makes calls wait without an answer and calls back when one does. Nil: it
	// cannot happen here.
	Hang func(hangs func())
	// Mend ends the faults.
	Mend func()
}

// Run tests that a sink keeps the contract of sink.Sink. Each part of the test
// has a destination of its own, which make returns and cleans up.
func Run(t *testing.T, make func(t *testing.T) Destination) {
	for _, part := range []struct {
		name string
		test func(t *testing.T, d Destination)
	}{
		{"says what it is", identity},
		{"writes all", writesAll},
		{"keeps nothing of the caller's", keepsNothing},
		{"failed and not applied", failedNotApplied},
		{"failed but applied", failedApplied},
		{"cancelled before", cancelledBefore},
		{"cancelled while it waits", cancelledMeanwhile},
		{"concurrent writes", concurrent},
		{"check", check},
	} {
		t.Run(part.name, func(t *testing.T) {
			d := make(t)
			defer func() {
				if err := d.Sink.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}()
			part.test(t, d)
		})
	}
}

// Records returns n records that are all different: texts and bytes that are not
// text, an empty one among them.
func Records(first uint64, n int) []sink.Record {
	records := make([]sink.Record, n)
	for i := range records {
		seq := first + uint64(i)
		data := fmt.Appendf(nil, "record %d \x00\xff\n", seq)
		if i == 1 {
			data = []byte{}
		}
		records[i] = sink.Record{Seq: seq, At: time.Date(2026, 12, 1, 1, 2, 3, i*1e6, time.UTC), Key: fmt.Sprint("key-", seq), Data: data}
	}
	return records
}

func identity(t *testing.T, d Destination) {
	if info := d.Sink.Info(); info.Type == "" || info.Target == "" {
		t.Errorf("Info() = %+v", info)
	}
	if l := d.Sink.Limits(); l.MaxRecords < 1 || l.MaxBytes < 1 || l.InFlight < 1 || l.Linger < 0 || l.MaxRecordBytes < 0 {
		t.Errorf("Limits() = %+v", l)
	}
	if out := d.Sink.Write(t.Context(), nil); len(out) != 0 || len(d.Stored()) != 0 {
		t.Errorf("a Write of nothing: %d outcomes, %d stored", len(out), len(d.Stored()))
	}
}

func writesAll(t *testing.T, d Destination) {
	records := Records(1, min(d.Sink.Limits().MaxRecords, 500))
	want(t, d.Sink.Write(t.Context(), records), len(records), sink.Written)
	wantStored(t, d, records, 1)
}

func keepsNothing(t *testing.T, d Destination) {
	records, scratch := Records(1, 10), Records(1, 10)
	want(t, d.Sink.Write(t.Context(), scratch), len(records), sink.Written)
	for i := range scratch {
		if !bytes.Equal(scratch[i].Data, records[i].Data) || scratch[i].Seq != records[i].Seq || scratch[i].Key != records[i].Key {
			t.Fatalf("record %d was changed", i)
		}
		clear(scratch[i].Data)
	}
	wantStored(t, d, records, 1)
}

func failedNotApplied(t *testing.T, d Destination) {
	records := Records(1, 10)
	d.FailNotApplied()
	want(t, d.Sink.Write(t.Context(), records), len(records), sink.Transient, sink.Throttled)
	if n := len(d.Stored()); n != 0 {
		t.Fatalf("%d records stored by a call that was not applied", n)
	}
	d.Mend()
	want(t, d.Sink.Write(t.Context(), records), len(records), sink.Written)
	wantStored(t, d, records, 1)
}

func failedApplied(t *testing.T, d Destination) {
	if d.FailApplied == nil {
		return
	}
	records := Records(1, 10)
	d.FailApplied()
	want(t, d.Sink.Write(t.Context(), records), len(records), sink.Transient)
	d.Mend()
	want(t, d.Sink.Write(t.Context(), records), len(records), sink.Written)
	wantStored(t, d, records, 2)
}

func cancelledBefore(t *testing.T, d Destination) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	records := Records(1, 3)
	want(t, d.Sink.Write(ctx, records), len(records), sink.Transient)
	if err := d.Sink.Check(ctx); err == nil {
		t.Error("Check succeeded although its context had ended")
	}
}

func cancelledMeanwhile(t *testing.T, d Destination) {
	if d.Hang == nil {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.Hang(cancel)
	records := Records(1, 3)
	want(t, d.Sink.Write(ctx, records), len(records), sink.Transient) // returns at all
	d.Mend()
	want(t, d.Sink.Write(t.Context(), records), len(records), sink.Written)
}

func concurrent(t *testing.T, d Destination) {
	const writers, each = 8, 20
	var all []sink.Record
	var group sync.WaitGroup
	for w := range writers {
		records := Records(uint64(1+w*each), each)
		records[1].Data = fmt.Append(nil, "not empty ", w)
		all = append(all, records...)
		group.Go(func() { want(t, d.Sink.Write(t.Context(), records), each, sink.Written) })
	}
	group.Wait()
	wantStored(t, d, all, 1)
}

func check(t *testing.T, d Destination) {
	if err := d.Sink.Check(t.Context()); err != nil {
		t.Errorf("Check of a destination that is well: %v", err)
	}
	d.FailNotApplied()
	err := d.Sink.Check(t.Context())
	if e, ok := errors.AsType[*sink.Error](err); !ok || e.Message == "" || e.Cause == "" {
		t.Errorf("Check of a destination that fails: %v, want an *Error with a cause and a message", err)
	}
	d.Mend()
	if err := d.Sink.Check(t.Context()); err != nil {
		t.Errorf("Check of a destination that was mended: %v", err)
	}
	if n := len(d.Stored()); n != 0 {
		t.Errorf("Check stored %d records", n)
	}
}

// want requires n outcomes, each of one of the classes, with an error where the
// record was not written.
func want(t *testing.T, out []sink.Outcome, n int, classes ...sink.Class) {
	t.Helper()
	if len(out) != n {
		t.Errorf("%d outcomes for %d records", len(out), n)
	}
	for i, o := range out {
		if !slices.Contains(classes, o.Class) {
			t.Errorf("record %d: %v (%v), want one of %v", i, o.Class, o.Err, classes)
			return
		}
		if o.Class == sink.Written && o.Err != nil || o.Class != sink.Written && (o.Err == nil || o.Err.Cause == "" || o.Err.Message == "") {
			t.Errorf("record %d: %v with the error %+v", i, o.Class, o.Err)
			return
		}
	}
}

// wantStored requires that exactly the records are stored, each at least once
// and at most so many times.
func wantStored(t *testing.T, d Destination, records []sink.Record, most int) {
	t.Helper()
	times := map[string]int{}
	for _, r := range d.Stored() {
		times[r.Key+"\n"+string(r.Data)]++
	}
	for _, r := range records {
		id := r.Key + "\n" + string(r.Data)
		if n := times[id]; n < 1 || n > most {
			t.Errorf("record %d is stored %d times, want 1 to %d", r.Seq, n, most)
		}
		delete(times, id)
	}
	for id := range times {
		t.Errorf("stored although never written: %q", id)
	}
}
