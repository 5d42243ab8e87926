package spool

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// deviceBytes returns how many bytes were written to the device that holds dir,
// by whomever, so far; false where the kernel does not tell, as for tmpfs. What a
// process is charged with in /proc/self/io would count the room set aside too.
func deviceBytes(b *testing.B, dir string) (int64, bool) {
	b.Helper()
	unix.Sync()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(text)) // Documentation/block/stat: the seventh is sectors written
	if len(fields) < 7 {
		return 0, false
	}
	sectors, err := strconv.ParseInt(fields[6], 10, 64)
	return 512 * sectors, err == nil
}

// reportAmplification reports how many bytes the device was made to write for
// each byte of records since before.
func reportAmplification(b *testing.B, dir string, before, records int64) {
	b.Helper()
	if after, ok := deviceBytes(b, dir); ok && records > 0 {
		b.ReportMetric(float64(after-before)/float64(records), "device-bytes/byte")
	}
}

// peakMemory is the most memory this process has had, in MiB.
func peakMemory(b *testing.B) float64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Maxrss) / 1024
}

// cpuSeconds is the processor time this process has used.
func cpuSeconds(b *testing.B) float64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// backlogBytes is the size of the backlog of BenchmarkOutage: SPOOL_BENCH_BYTES,
// or 1 GiB.
func backlogBytes(b *testing.B) int64 {
	b.Helper()
	text := os.Getenv("SPOOL_BENCH_BYTES")
	if text == "" {
		return 1 << 30
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.Fatalf("SPOOL_BENCH_BYTES: %v", err)
	}
	return n
}
