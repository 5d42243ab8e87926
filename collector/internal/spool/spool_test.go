package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
	}
	goleak.VerifyTestMain(m)
}

// small returns a config with which a few records fill a segment.
func small() Config {
	cfg := DefaultConfig()
	cfg.SegmentBytes = 16 << 10
	cfg.MinFreeDisk = 0
	return cfg
}

func mustOpen(t testing.TB, dir string, cfg Config) *Log {
	t.Helper()
	l, err := Open(dir, cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func record(i, size int) Record {
	return Record{
		At:   time.UnixMilli(1_700_000_000_000 + int64(i)).UTC(),
		Key:  fmt.Sprintf("key-%d", i),
		Data: bytes.Repeat([]byte{byte('a' + i%26)}, size),
	}
}

func appendN(t testing.TB, l *Log, from, n, size int) []Record {
	t.Helper()
	var records []Record
	for i := from; i < from+n; i++ {
		r := record(i, size)
		if err := l.Append(t.Context(), []Record{r}); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// drain reads n records, and fails if they do not come.
func drain(t testing.TB, l *Log, n int) []Record {
	t.Helper()
	var got []Record
	for len(got) < n {
		records, err := l.Read(t.Context(), n-len(got), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, records...)
	}
	return got
}

func seqs(records []Record) []uint64 {
	var s []uint64
	for _, r := range records {
		s = append(s, r.Seq)
	}
	return s
}

// same compares records but for their seq, which must rise.
func same(t testing.TB, got, want []Record) {
	t.Helper()
	last := uint64(0)
	plain := make([]Record, len(got))
	for i, r := range got {
		if r.Seq <= last {
			t.Fatalf("seq %d comes after %d", r.Seq, last)
		}
		last = r.Seq
		r.Seq = 0
		plain[i] = r
	}
	if diff := cmp.Diff(want, plain, cmp.Comparer(bytes.Equal)); diff != "" {
		t.Fatalf("records (-want +got):\n%s", diff)
	}
}

func TestLog_Read_returnsWhatWasAppendedInOrderAcrossSegments(t *testing.T) {
	l := mustOpen(t, t.TempDir(), small())
	want := appendN(t, l, 0, 50, 1000)
	same(t, drain(t, l, 50), want)
	if s := l.Stats(); s.Events != 50 || s.Segments < 5 || s.Bytes < 50_000 || !s.OldestAt.Equal(want[0].At) {
		t.Fatalf("stats %+v", s)
	}
}

func TestLog_Append_ofManyRecordsSpansSegments(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, small())
	var want []Record
	for i := range 40 {
		want = append(want, record(i, 2000))
	}
	if err := l.Append(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	same(t, drain(t, l, 40), want)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, dir, small())
	same(t, drain(t, l, 40), want)
}

func TestLog_Ack_survivesCloseInAnyOrder(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, small())
	want := appendN(t, l, 0, 30, 1500)
	got := drain(t, l, 30)
	var left []Record
	for i := range got {
		if i%3 == 1 {
			left = append(left, want[i])
			continue
		}
		l.Ack(got[i].Seq)
	}
	if s := l.Stats(); s.Events != 10 || s.Acked != 20 {
		t.Fatalf("stats %+v", s)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, dir, small())
	if s := l.Stats(); s.Events != 10 {
		t.Fatalf("%d events after restart, want 10", s.Events)
	}
	more := appendN(t, l, 100, 3, 1500)
	again := drain(t, l, 13)
	same(t, again, append(left, more...))
	l.Ack(seqs(again)...)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if s := l.Stats(); s.Events != 0 || s.Bytes != 0 || s.Segments > 1 || !s.OldestAt.IsZero() {
		t.Fatalf("stats %+v", s)
	}
}

func TestLog_Close_makesCallsReturnErrClosed(t *testing.T) {
	l := mustOpen(t, t.TempDir(), small())
	done := make(chan error)
	go func() {
		_, err := l.Read(t.Context(), 1, 1)
		done <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Fatalf("waiting Read: %v", err)
	}
	if err := l.Append(t.Context(), []Record{record(0, 1)}); !errors.Is(err, ErrClosed) {
		t.Fatalf("Append: %v", err)
	}
	if _, err := l.Read(t.Context(), 1, 1); !errors.Is(err, ErrClosed) {
		t.Fatalf("Read: %v", err)
	}
	if err := l.Sync(); !errors.Is(err, ErrClosed) {
		t.Fatalf("Sync: %v", err)
	}
}

func TestOpen_refusesADirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir, small())
	_, err := Open(dir, small(), Options{})
	locked, ok := errors.AsType[*LockedError](err)
	if !ok || !errors.Is(err, ErrLocked) || locked.PID != os.Getpid() || !strings.Contains(err.Error(), dir) {
		t.Fatalf("got %v", err)
	}
}

func TestLog_Append_returnsErrFullAtLimitAndTakesAgainAfterAcks(t *testing.T) {
	cfg := small()
	cfg.MaxEvents = 10
	l := mustOpen(t, t.TempDir(), cfg)
	appendN(t, l, 0, 10, 10)
	err := l.Append(t.Context(), []Record{record(0, 10)})
	if full, ok := errors.AsType[*FullError](err); !ok || !errors.Is(err, ErrFull) || !strings.Contains(full.Reason, "max_events") {
		t.Fatalf("got %v", err)
	}
	l.Ack(drain(t, l, 1)[0].Seq)
	appendN(t, l, 10, 1, 10)
	if s := l.Stats(); s.Events != 10 || s.Refused != 1 {
		t.Fatalf("stats %+v", s)
	}

	cfg = small()
	cfg.MaxBytes = 32 << 10
	l = mustOpen(t, t.TempDir(), cfg)
	n := 0
	for ; ; n++ {
		if err = l.Append(t.Context(), []Record{record(n, 1000)}); err != nil {
			break
		}
	}
	if s := l.Stats(); !errors.Is(err, ErrFull) || n != 8 || s.Bytes != s.LimitBytes {
		t.Fatalf("%d appended, then %v; stats %+v", n, err, s)
	}
}

func TestLog_Append_concurrentAppendsShareSyncs(t *testing.T) {
	l := mustOpen(t, t.TempDir(), DefaultConfig())
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := range 20 {
				if err := l.Append(t.Context(), []Record{record(w*100+i, 1000)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s := l.Stats(); s.Appended != 1280 || s.Groups > 1280/4 {
		t.Fatalf("%d records in %d groups", s.Appended, s.Groups)
	}
	got := drain(t, l, 1280)
	seen := map[string]bool{}
	for _, r := range got {
		seen[r.Key] = true
	}
	if len(seen) != 1280 {
		t.Fatalf("%d different records", len(seen))
	}
}

func TestLog_segmentsAreWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, small())
	for round := range 20 {
		appendN(t, l, round*10, 10, 1500)
		l.Ack(seqs(drain(t, l, 10))...)
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if s := l.Stats(); s.Spares != 2 || s.DiskBytes > 10*16<<10 {
		t.Fatalf("stats %+v", s)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) > 8 {
		t.Fatalf("left in the directory: %v, %v", names, err)
	}
}

func TestOpen_metricsSayWhatStatsSay(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, lane := range []string{"good", "bad"} {
		l, err := Open(t.TempDir(), small(), Options{Metrics: registry, Lane: lane})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		appendN(t, l, 0, 3, 10)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "spillway_collector_spool_events" {
			if len(f.GetMetric()) != 2 || f.GetMetric()[0].GetGauge().GetValue() != 3 {
				t.Fatalf("got %v", f)
			}
			return
		}
	}
	t.Fatal("no metric of events")
}
