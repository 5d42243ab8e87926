package spool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spillway/collector/internal/spool/vfs/vfstest"
)

// failing makes the operations for which match holds fail, until stopped.
func failing(fs *vfstest.FS, how vfstest.Fault, match func(vfstest.Op) bool) (stop func()) {
	fs.Before(func(op vfstest.Op) vfstest.Fault {
		if match(op) {
			return how
		}
		return vfstest.None
	})
	return func() { fs.Before(nil) }
}

func kind(kinds ...string) func(vfstest.Op) bool {
	return func(op vfstest.Op) bool {
		for _, k := range kinds {
			if op.Kind == k && !strings.HasPrefix(op.Name, acksName) {
				return true
			}
		}
		return false
	}
}

func TestLog_Append_afterAFailedSyncGoesOnInANewSegment(t *testing.T) {
	for _, how := range []vfstest.Fault{vfstest.NotApplied, vfstest.Applied} {
		for _, op := range []string{"write", "sync"} {
			t.Run(fmt.Sprint(op, how), func(t *testing.T) {
				fs := vfstest.New()
				cfg := small()
				cfg.SegmentBytes = 64 << 10
				l := memory(t, fs, cfg)
				before := appendN(t, l, 0, 2, 100)
				stop := failing(fs, how, kind(op))
				for range 3 {
					err := l.Append(t.Context(), []Record{record(50, 100)})
					if d, ok := errors.AsType[*DiskError](err); !ok || !errors.Is(err, vfstest.ErrInjected) || d.File == "" {
						t.Fatalf("got %v", err)
					}
				}
				if s := l.Stats(); !s.Failing || s.DiskErrors < 3 || s.LastError == "" || s.Events != 2 {
					t.Fatalf("stats %+v", s)
				}
				stop()
				after := appendN(t, l, 2, 2, 100)
				if s := l.Stats(); s.Failing || s.Segments != 2 {
					t.Fatalf("stats %+v", s)
				}
				want := append(before, after...)
				got := all(t, l)
				same(t, got, want)
				// A segment that failed is never written again.
				l.Ack(seqs(got)...)
				if err := l.Sync(); err != nil || l.Stats().Spares != 0 || l.Stats().Segments != 1 {
					t.Fatalf("%v, stats %+v", err, l.Stats())
				}
			})
		}
	}
}

func TestLog_Append_everyStepOfANewSegmentMayFail(t *testing.T) {
	for _, how := range []vfstest.Fault{vfstest.NotApplied, vfstest.Applied} {
		for _, op := range []string{"create", "allocate", "write", "sync", "rename", "syncdir"} {
			t.Run(fmt.Sprint(op, how), func(t *testing.T) {
				fs := vfstest.New()
				l := memory(t, fs, small())
				want := appendN(t, l, 0, 2, 3000) // fills a segment
				stop := failing(fs, how, kind(op))
				for range 20 {
					if err := l.Append(t.Context(), []Record{record(50, 3000)}); err == nil {
						t.Fatal("appended")
					}
				}
				if names := fs.Names(); len(names) > 2 {
					t.Errorf("left behind: %v", names)
				}
				stop()
				want = append(want, appendN(t, l, 2, 2, 3000)...)
				same(t, all(t, l), want)
				l.abort()
				l = memory(t, fs, small())
				same(t, all(t, l), want)
			})
		}
	}
}

func TestLog_fullDiskRefusesAppendsAndGoesOnDraining(t *testing.T) {
	fs := vfstest.New()
	fs.Capacity = 100 << 10
	cfg := small()
	cfg.MaxBytes = 1 << 30
	l := memory(t, fs, cfg)
	n := 0
	var err error
	for ; n < 1000; n++ {
		if err = l.Append(t.Context(), []Record{record(n, 3000)}); err != nil {
			break
		}
	}
	if full, ok := errors.AsType[*FullError](err); !ok || n != 10 || !strings.Contains(full.Reason, "bytes free") {
		t.Fatalf("after %d: %v", n, err)
	}
	ops := fs.Ops()
	if err := l.Append(t.Context(), []Record{record(n, 3000)}); !errors.Is(err, ErrFull) || fs.Ops() != ops {
		t.Fatalf("%v; %d operations to refuse an append", err, fs.Ops()-ops)
	}
	// Nothing is left for anybody: acks, reclaiming and a restart need no room.
	free, _, _ := fs.Usage()
	fs.Put("other", make([]byte, free))
	got := all(t, l)
	l.Ack(seqs(got)[:2]...)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	l.abort()
	l = memory(t, fs, cfg)
	got = all(t, l)
	if len(got) != 8 {
		t.Fatalf("%d records after a restart on a full disk, want 8", len(got))
	}
	l.Ack(seqs(got)...)
	if err := l.Sync(); err != nil || l.Stats().Events != 0 {
		t.Fatalf("%v, stats %+v", err, l.Stats())
	}
	// Room is back: so are appends, without a restart.
	fs.Put("other", nil)
	same(t, func() []Record { appendN(t, l, 77, 1, 100); return all(t, l) }(), []Record{record(77, 100)})
}

func TestLog_noRoomForAWriteIsFullNotBroken(t *testing.T) {
	// A volume that cannot reserve room says so only when it is written to.
	fs := vfstest.New()
	l := memory(t, fs, small())
	appendN(t, l, 0, 1, 100)
	fs.Put(first, fs.Content(first)[:dataOffset+blockSize])
	l.abort()
	fs.Capacity = 24 << 10
	cfg := small()
	cfg.MaxBytes = 1 << 30
	l = memory(t, fs, cfg)
	if err := l.Append(t.Context(), []Record{record(1, 5000)}); !errors.Is(err, ErrFull) {
		t.Fatalf("got %v", err)
	}
	if s := l.Stats(); s.Failing || s.Refused != 1 {
		t.Fatalf("stats %+v", s)
	}
}

func TestLog_minFreeDiskRefusesAndDropsSpares(t *testing.T) {
	fs := vfstest.New()
	fs.Capacity = 400 << 10
	cfg := small()
	cfg.MinFreeDisk = 100 << 10
	l := memory(t, fs, cfg)
	appendN(t, l, 0, 10, 3000)
	l.Ack(seqs(all(t, l))...)
	if err := l.Sync(); err != nil || l.Stats().Spares != 2 {
		t.Fatalf("%v, stats %+v", err, l.Stats())
	}
	free, _, _ := fs.Usage()
	fs.Put("other", make([]byte, free-(99<<10)))
	l.refreshUsage()
	err := l.Append(t.Context(), []Record{record(1, 1)})
	if full, ok := errors.AsType[*FullError](err); !ok || !strings.Contains(full.Reason, "min_free_disk is 100KiB") {
		t.Fatalf("got %v", err)
	}
	l.dropSpares()
	l.refreshUsage()
	if s := l.Stats(); s.Spares != 0 {
		t.Fatalf("stats %+v", s)
	}
	appendN(t, l, 20, 1, 1) // the spares' room was what lacked
}

func TestLog_Sync_survivesAnAckFileThatFails(t *testing.T) {
	// The save in place fails once; with syncdir the new file made instead fails too.
	acks := func(kind string) func(vfstest.Op) bool {
		first := true
		return func(op vfstest.Op) bool {
			if kind == "syncdir" && op.Kind == kind {
				return true
			}
			hit := first && (op.Kind == kind || kind == "syncdir" && op.Kind == "write")
			first = first && !hit
			return hit
		}
	}
	for _, how := range []vfstest.Fault{vfstest.NotApplied, vfstest.Applied} {
		for _, op := range []string{"write", "sync", "syncdir"} {
			t.Run(fmt.Sprint(op, how), func(t *testing.T) {
				fs := vfstest.New()
				l := memory(t, fs, small())
				want := appendN(t, l, 0, 6, 500)
				got := seqs(all(t, l))
				l.Ack(got[0])
				stop := failing(fs, how, acks(op))
				if err := l.Sync(); (err != nil) != (op == "syncdir") {
					t.Fatalf("got %v", err) // in place, or else in a new file
				}
				stop()
				l.Ack(got[2])
				if err := l.Sync(); err != nil {
					t.Fatal(err)
				}
				// Whatever the disk makes of what was not synced.
				for luck := range 4 {
					image := fs.Crash(func(n int) int { return luck % n })
					after := memory(t, image, small())
					same(t, all(t, after), append(want[1:2:2], want[3:]...))
				}
			})
		}
	}
}

func TestLog_acksAreSavedSoonAndAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		l, err := Open("mem", small(), Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		want := appendN(t, l, 0, 4, 100)
		got := drain(t, l, 4)
		stop := failing(fs, vfstest.NotApplied, func(op vfstest.Op) bool { return strings.HasPrefix(op.Name, acksName) })
		l.Ack(got[0].Seq)
		<-time.After(250 * time.Millisecond)
		if n := l.Stats().DiskErrors; n != 2 {
			t.Errorf("tried %d times in 250ms, want 2", n)
		}
		stop()
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		image := fs.Crash(func(int) int { return 1 })
		after := memory(t, image, small())
		same(t, all(t, after), want[1:])
		after.abort()
	})
}

func TestLog_Append_waitingAppendsShareOneSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		l, err := Open("mem", DefaultConfig(), Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		appendN(t, l, 0, 1, 10)
		hold, syncs := make(chan struct{}), 0
		fs.Before(func(op vfstest.Op) vfstest.Fault {
			if op.Kind == "sync" {
				syncs++
				<-hold
			}
			return vfstest.None
		})
		done := make(chan error, 65)
		for i := range 65 {
			go func() { done <- l.Append(context.Background(), []Record{record(i, 1000)}) }()
			synctest.Wait() // the first is being synced, the others wait
		}
		if s := l.Stats(); s.Events != 1 || len(done) != 0 {
			t.Errorf("%d events and %d answers before the sync returned", s.Events, len(done))
		}
		if records, _ := l.collect(100, 1<<20); len(records) != 1 {
			t.Errorf("%d records are readable before they are durable", len(records)-1)
		}
		close(hold)
		for range 65 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if syncs != 2 {
			t.Errorf("%d syncs for 1 + 64 appends, want 2", syncs)
		}
		fs.Before(nil)
	})
}

func TestLog_Append_endsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		l, err := Open("mem", small(), Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		appendN(t, l, 0, 1, 10)
		hold := make(chan struct{})
		fs.Before(func(op vfstest.Op) vfstest.Fault {
			if op.Kind == "sync" {
				<-hold
			}
			return vfstest.None
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan error, 2)
		for i := range 2 { // one under way, one in the queue
			go func() {
				r := record(1+i, 10)
				done <- l.Append(ctx, []Record{r})
				clear(r.Data) // the caller's again
			}()
			synctest.Wait()
		}
		for range 2 {
			if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		if err := l.Append(ctx, []Record{record(9, 1)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(hold)
		synctest.Wait()
		// The one under way became durable; the other was taken back.
		same(t, drain(t, l, 2), []Record{record(0, 10), record(1, 10)})
		if l.reserved != (reservation{}) || l.Stats().Events != 2 {
			t.Errorf("reserved %+v, stats %+v", l.reserved, l.Stats())
		}
		if _, err := l.Read(ctx, 1, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
	})
}

func TestLog_Stats_oldestAt(t *testing.T) {
	fs := vfstest.New()
	l := memory(t, fs, small())
	want := appendN(t, l, 0, 6, 100)
	check := func(when string, at time.Time) {
		t.Helper()
		if got := l.Stats().OldestAt; !got.Equal(at) {
			t.Errorf("%s: oldest at %v, want %v", when, got.UnixMilli(), at.UnixMilli())
		}
	}
	check("nothing read", want[0].At)
	var got []Record
	for range 3 {
		records, _ := l.collect(2, 1<<20)
		got = append(got, records...)
	}
	l.Ack(got[0].Seq)
	check("within what was handed out first", want[0].At)
	l.Ack(got[1].Seq)
	check("at the second hand-out", want[2].At)
	l.Ack(got[2].Seq, got[4].Seq)
	check("a hole", want[2].At)
	l.Ack(seqs(got)...)
	check("all acked", time.Time{})
	appendN(t, l, 100, 1, 10)
	check("one new", record(100, 1).At)
}
