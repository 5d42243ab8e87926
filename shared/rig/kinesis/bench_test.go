package kinesis_test

import (
	"bytes"
	"testing"

	"spillway/shared/rig/kinesis"
)

// BenchmarkServer_PutRecords measures the stand-in and the SDK together, with
// 500 records of 1 KiB a call.
func BenchmarkServer_PutRecords(b *testing.B) {
	k, err := kinesis.Start(kinesis.Options{Streams: map[string]int{"good": 4}, Compact: func(data []byte) []byte { return data[:0:0] }})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	client := newClient(k)
	records := entries(500)
	for i := range records {
		records[i].Data = bytes.Repeat([]byte("x"), 1024)
	}
	for b.Loop() {
		if _, err := put(client, "good", records); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(500*b.N)/b.Elapsed().Seconds(), "records/s")
}
