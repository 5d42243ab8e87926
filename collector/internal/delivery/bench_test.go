package delivery

import (
	"context"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"spillway/collector/internal/sink"
)

// endless is a queue that always has more, and counts what comes back.
type endless struct {
	all, next, left int
	data            []byte
	done            chan struct{}
}

func (e *endless) Read(ctx context.Context, maxRecords int, _ int64) ([]sink.Record, error) {
	n := min(maxRecords, e.all-e.next)
	if n == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	records := make([]sink.Record, n)
	for i := range records {
		e.next++
		records[i] = sink.Record{Seq: uint64(e.next), Key: "key", Data: e.data}
	}
	return records, nil
}

func (e *endless) Ack(seqs ...uint64) {
	if e.left -= len(seqs); e.left == 0 {
		close(e.done)
	}
}
func (e *endless) Sync() error    { return nil }
func (e *endless) Backlog() int64 { return 1 }

// void is a sink that takes everything at once.
type void struct{}

func (*void) Write(_ context.Context, records []sink.Record) []sink.Outcome {
	return sink.AllWritten(len(records))
}
func (*void) Check(context.Context) error { return nil }
func (*void) Info() sink.Info             { return sink.Info{Type: "void", Target: "void"} }
func (*void) Close() error                { return nil }
func (*void) Limits() sink.Limits {
	return sink.Limits{MaxRecords: 500, MaxBytes: 5 << 20, InFlight: 8}
}

// BenchmarkForwarder measures what delivery itself costs for each record of 1 KiB.
func BenchmarkForwarder(b *testing.B) {
	logger, _ := logtest.NewNullLogger()
	queue := &endless{all: b.N, left: b.N, data: make([]byte, 1024), done: make(chan struct{})}
	f := New(DefaultConfig(), queue, Route{Sink: &void{}}, &graves{}, Options{Lane: sink.Good, Log: logrus.NewEntry(logger)})
	ctx, cancel := context.WithCancel(context.Background())
	finished := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { finished <- f.Run(ctx) }()
	<-queue.done
	b.StopTimer()
	cancel()
	if err := <-finished; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
