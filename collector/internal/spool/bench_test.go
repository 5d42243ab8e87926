package spool

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// benchDir is where benchmarks write: SPOOL_BENCH_DIR, for a disk other than
// that of the temporary directory.
func benchDir(b *testing.B) string {
	b.Helper()
	dir := os.Getenv("SPOOL_BENCH_DIR")
	if dir == "" {
		return b.TempDir()
	}
	dir, err := os.MkdirTemp(dir, "spool-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// BenchmarkLog_Append measures closed-loop writers of 1 KiB records with a reader
// that keeps up.
func BenchmarkLog_Append(b *testing.B) {
	for _, writers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			l := mustOpen(b, benchDir(b), DefaultConfig())
			var wg sync.WaitGroup
			var left atomic.Int64
			left.Store(int64(b.N))
			times := make([][]time.Duration, writers)
			r := record(0, 1024)
			b.ReportAllocs()
			b.ResetTimer()
			for w := range writers {
				wg.Go(func() {
					batch := []Record{r}
					for left.Add(-1) >= 0 {
						began := time.Now()
						if err := l.Append(b.Context(), batch); err != nil {
							b.Error(err)
							return
						}
						times[w] = append(times[w], time.Since(began))
					}
				})
			}
			wg.Go(func() {
				for n := 0; n < b.N; {
					records, err := l.Read(b.Context(), 500, 4<<20)
					if err != nil {
						b.Error(err)
						return
					}
					l.Ack(seqs(records)...)
					n += len(records)
				}
			})
			wg.Wait()
			b.StopTimer()
			all := slices.Concat(times...)
			slices.Sort(all)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(b.N)/float64(l.Stats().Groups), "records/sync")
		})
	}
}

// BenchmarkOpen measures opening, and then draining, a backlog of 1 GiB whose
// last segment was not sealed.
func BenchmarkOpen(b *testing.B) {
	const total, size = 1 << 30, 20 << 10
	dir := benchDir(b)
	l := mustOpen(b, dir, DefaultConfig())
	batch := make([]Record, 100)
	for i := range batch {
		batch[i] = record(i, size)
	}
	for range total / size / len(batch) {
		if err := l.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	want := l.Stats().Events
	l.abort()
	b.ResetTimer()
	for range b.N {
		l = mustOpen(b, dir, DefaultConfig())
		if got := l.Stats().Events; got != want {
			b.Fatalf("%d events, want %d", got, want)
		}
		b.StopTimer()
		began := time.Now()
		var n, bytes int64
		for n < want {
			records, err := l.Read(b.Context(), 500, 4<<20)
			if err != nil {
				b.Fatal(err)
			}
			for _, r := range records {
				bytes += int64(len(r.Data))
			}
			n += int64(len(records))
		}
		b.ReportMetric(float64(bytes)/1e6/time.Since(began).Seconds(), "drain-MB/s")
		l.abort()
		b.StartTimer()
	}
}
