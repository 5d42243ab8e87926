package app

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"spillway/collector/internal/config"
	"spillway/collector/internal/delivery"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/spool"
	"spillway/shared/rig/kinesis"
)

// A backlog, one shard of 1,000 records a second, and everything between them
// real: spool, forwarder, sink, SDK and HTTP. After a few seconds delivery runs at
// the shard's rate and hardly anything it sends is throttled. This takes real
// time, as the stand-in's buckets fill in real time.
func TestForwarder_settlesAtTheRateOfOneShard(t *testing.T) {
	const rate, records = 1000, 25_000
	const warmUp, measured = 6 * time.Second, 9 * time.Second
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	server, err := kinesis.Start(kinesis.Options{Streams: map[string]int{"good": 1, "bad": 1}, ShardRate: kinesis.Rate{Records: rate}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	cfg := config.Default()
	cfg.Sink.Type, cfg.Spool.MinFreeDisk, cfg.Delivery.StopTimeout = config.Kinesis, 0, 0
	k := &cfg.Sink.Kinesis
	k.GoodStream, k.BadStream, k.AWS.Region, k.AWS.Endpoint = "good", "bad", "eu-west-1", server.URL()

	log, err := spool.Open(filepath.Join(t.TempDir(), "good"), cfg.Spool, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	batch := make([]spool.Record, records)
	for i := range batch {
		batch[i] = spool.Record{At: time.Now(), Key: fmt.Sprint(i), Data: make([]byte, 300)}
	}
	if err := log.Append(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	to, err := MakeSink(cfg, sink.Good, quiet(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	f := delivery.New(cfg.Delivery, queue{log}, delivery.Route{Sink: to}, &refusals{log: quiet()}, delivery.Options{Lane: sink.Good, Log: quiet()})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	<-time.After(warmUp)
	before, began := f.Status(), time.Now()
	<-time.After(measured)
	after, took := f.Status(), time.Since(began).Seconds()
	written, throttled := float64(after.WrittenTotal-before.WrittenTotal), float64(after.ThrottledTotal-before.ThrottledTotal)
	share := throttled / (written + throttled)
	t.Logf("one shard of %d records/s: %.0f/s written, %.1f %% of what was sent throttled; in the first %v %d written, %d throttled",
		rate, written/took, 100*share, warmUp, before.WrittenTotal, before.ThrottledTotal)
	// The shard's bucket may be full when the measurement begins: a second's worth on top.
	if perSecond := written / took; perSecond < 0.6*rate || perSecond > rate+rate/took+10 {
		t.Errorf("%.0f records a second are written, want about %d", perSecond, rate)
	}
	if share > 0.05 {
		t.Errorf("%.1f %% of what is sent is throttled, want less than 5 %%", 100*share)
	}
}
