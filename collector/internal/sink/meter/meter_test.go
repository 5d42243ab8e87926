package meter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/meter"
)

func TestMeter_sinksThatFollowOneAnother_countTogether(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	records := []sink.Record{{Key: "k", Data: []byte("abc")}, {Key: "k", Data: []byte("d")}}
	fault := &sink.Error{Cause: sink.CauseThrottled}
	for range 2 {
		m := meter.New(registry, "kinesis", sink.Good)
		m.Call()
		m.Write(time.Now(), records, []sink.Outcome{{Class: sink.Written}, {Class: sink.Throttled, Err: fault}})
	}
	meter.New(registry, "kinesis", sink.Bad).Call()
	meter.New(registry, "s3", sink.Good).Call()
	meter.New(nil, "s3", sink.Good).Call()
	want := `
# HELP spillway_collector_sink_calls_total Calls that were made to the destination to write records.
# TYPE spillway_collector_sink_calls_total counter
spillway_collector_sink_calls_total{lane="bad",sink="kinesis"} 1
spillway_collector_sink_calls_total{lane="good",sink="kinesis"} 2
spillway_collector_sink_calls_total{lane="good",sink="s3"} 1
# HELP spillway_collector_sink_failures_total Records that were not written, by where the fault lies.
# TYPE spillway_collector_sink_failures_total counter
spillway_collector_sink_failures_total{cause="throttled",lane="good",sink="kinesis"} 2
# HELP spillway_collector_sink_records_total Records of which a Write said what became of them, by that.
# TYPE spillway_collector_sink_records_total counter
spillway_collector_sink_records_total{class="throttled",lane="good",sink="kinesis"} 2
spillway_collector_sink_records_total{class="written",lane="good",sink="kinesis"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "spillway_collector_sink_calls_total",
		"spillway_collector_sink_failures_total", "spillway_collector_sink_records_total"); err != nil {
		t.Error(err)
	}
}
