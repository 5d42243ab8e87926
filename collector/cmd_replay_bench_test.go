package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/payload"
	"spillway/collector/internal/sink"
	s3sink "spillway/collector/internal/sink/s3"
	"spillway/shared/configfile"
	"spillway/shared/rig"
	"spillway/shared/rig/kinesis"
	"spillway/shared/rig/proc"
)

// BenchmarkReplay replays 100 000 events of 1.5 kB, in 10 objects, by the real
// program from the stand-in of S3 to that of Kinesis, which take their share of the
// same machine. The CPU time is the program's own.
func BenchmarkReplay(b *testing.B) {
	const objects, each = 10, 10_000
	var builder proc.Builder
	defer func() { _ = builder.Close() }() // a temporary folder
	program, err := builder.Build("spillway/collector")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		r, err := rig.Start(b.Context(), rig.Options{Kinesis: kinesis.Options{
			Streams: map[string]int{rig.GoodStream: 4, rig.BadStream: 4}, Compact: func([]byte) []byte { return nil },
		}})
		if err != nil {
			b.Fatal(err)
		}
		bytes := archiveForBench(b, r, objects, each)
		b.SetBytes(bytes)
		cmd := exec.CommandContext(b.Context(), program, "replay", "--from", "s3://"+rig.Bucket+"/bench", "--to", "kinesis", "--json",
			"--config", benchConfig(b, r))
		cmd.Env = r.Env()
		b.StartTimer()
		began := time.Now()
		out, err := cmd.Output()
		took := time.Since(began)
		if err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		b.StopTimer()
		if n := r.Kinesis.Count(rig.GoodStream); n != objects*each {
			b.Fatalf("%d events arrived", n)
		}
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		b.ReportMetric(objects*each/took.Seconds(), "events/s")
		b.ReportMetric(cpu.Seconds()/(objects*each/100_000.0), "cpu-s/100k-events")
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			b.ReportMetric(float64(usage.Maxrss)/1024, "MiB-peak")
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func benchConfig(b *testing.B, r *rig.Rig) string {
	b.Helper()
	path := b.TempDir() + "/collector.yaml"
	text := fmt.Sprintf("data_dir: %s\nsink:\n  type: kinesis\n  kinesis: {good_stream: good, bad_stream: bad, endpoint: %q}\n  s3: {path_style: true, endpoint: %q}\n",
		b.TempDir(), r.Kinesis.URL(), r.S3.URL())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// archiveForBench writes the objects as the collector does, and returns the bytes
// of the events.
func archiveForBench(b *testing.B, r *rig.Rig, objects, each int) (bytes int64) {
	b.Helper()
	cfg := s3sink.DefaultConfig()
	cfg.Bucket, cfg.Prefix, cfg.PathStyle = rig.Bucket, "bench", true
	cfg.AWS.Region, cfg.AWS.Endpoint, cfg.AWS.AccessKeyID, cfg.AWS.SecretAccessKey = rig.Region, r.S3.URL(), "rig", configfile.NewSecret("rig")
	s, err := s3sink.New(cfg, s3sink.Options{Lane: sink.Good, Instance: "bench", Log: logrus.NewEntry(logrus.New())})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }() // nothing is open
	for o := range objects {
		var records []sink.Record
		for i := range each {
			n := o*each + i
			at := time.Date(2026, 12, 1, 1, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Millisecond)
			var body strings.Builder
			for body.Len() < 1200 {
				fmt.Fprintf(&body, `{"e":"pv","eid":"%08x-0000-4000-8000-%012d","url":"https://shop.example/product/%d"},`, n*2654435761, n, body.Len()*n)
			}
			p := payload.Payload{Timestamp: at.UnixMilli(), Path: payload.Some("/com.snowplowanalytics.snowplow/tp2"), Body: []byte(body.String()),
				Headers: []string{"Accept: */*", "Host: collector.example"}, Schema: payload.Some(payload.Schema)}
			record := sink.Record{Seq: uint64(n), At: at, Key: fmt.Sprint(n), Data: p.AppendThrift(nil)}
			bytes += record.Size()
			records = append(records, record)
		}
		for _, out := range s.Write(b.Context(), records) {
			if out.Class != sink.Written {
				b.Fatal(out.Err)
			}
		}
	}
	return bytes
}
