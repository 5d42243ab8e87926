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
			dir := benchDir(b)
			l := mustOpen(b, dir, DefaultConfig())
			device, _ := deviceBytes(b, dir)
			cpu := cpuSeconds(b)
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
			b.ReportMetric((cpuSeconds(b)-cpu)/float64(b.N)*1e5, "cpu-s/100k")
			reportAmplification(b, dir, device, int64(l.Stats().AppendedBytes))
		})
	}
}

// BenchmarkOutage fills a backlog with records of 20 KiB while nothing is read,
// is cut off without a word, opens it and drains it. Reported are the rates, what
// the device had to write for each byte, the time to open, and the peak of memory
// over all of it.
func BenchmarkOutage(b *testing.B) {
	const size = 20 << 10
	total, dir := backlogBytes(b), benchDir(b)
	for range b.N {
		l := mustOpen(b, dir, DefaultConfig())
		batch := make([]Record, 100)
		for i := range batch {
			batch[i] = record(i, size)
		}
		device, _ := deviceBytes(b, dir)
		began := time.Now()
		for range int(total) / size / len(batch) {
			if err := l.Append(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
		}
		want := l.Stats().Events
		b.ReportMetric(float64(want*size)/1e6/time.Since(began).Seconds(), "fill-MB/s")
		reportAmplification(b, dir, device, want*size)
		l.abort()

		began = time.Now()
		l = mustOpen(b, dir, DefaultConfig())
		b.ReportMetric(time.Since(began).Seconds(), "open-s")
		if got := l.Stats().Events; got != want {
			b.Fatalf("%d events, want %d", got, want)
		}
		began = time.Now()
		var bytes int64
		for n := int64(0); n < want; {
			records, err := l.Read(b.Context(), 500, 4<<20)
			if err != nil {
				b.Fatal(err)
			}
			for _, r := range records {
				bytes += int64(len(r.Data))
			}
			l.Ack(seqs(records)...)
			n += int64(len(records))
		}
		b.ReportMetric(float64(bytes)/1e6/time.Since(began).Seconds(), "drain-MB/s")
		b.ReportMetric(peakMemory(b), "peak-MiB")
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
