package kinesis_test

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/kinesis"
	"spillway/collector/internal/sink/sinktest"
	"spillway/shared/configfile"
	"spillway/shared/rig/fault"
	rig "spillway/shared/rig/kinesis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return logrus.NewEntry(log)
}

// start starts a stand-in with the streams good (4 shards) and bad.
func start(t *testing.T, o rig.Options) *rig.Server {
	t.Helper()
	if o.Streams == nil {
		o.Streams = map[string]int{"good": 4, "bad": 1}
	}
	k, err := rig.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// open makes a sink of the good lane that writes to endpoint.
func open(t *testing.T, endpoint string, change func(*kinesis.Config)) *kinesis.Sink {
	t.Helper()
	cfg := kinesis.DefaultConfig()
	cfg.GoodStream, cfg.BadStream = "good", "bad"
	cfg.AWS.Region, cfg.AWS.Endpoint = "eu-west-1", endpoint
	cfg.AWS.AccessKeyID, cfg.AWS.SecretAccessKey = "rig", configfile.NewSecret("rig")
	cfg.AWS.RequestTimeout = 10 * time.Second
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	s, err := kinesis.New(cfg, kinesis.Options{Lane: sink.Good, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func breakIt(t *testing.T, k *rig.Server, f fault.Fault) {
	t.Helper()
	if err := k.Break(f); err != nil {
		t.Fatal(err)
	}
}

func mend(t *testing.T, k *rig.Server) {
	t.Helper()
	if err := k.Mend(); err != nil {
		t.Fatal(err)
	}
}

func TestSink_keepsTheContract(t *testing.T) {
	for _, mode := range []kinesis.CheckMode{kinesis.CheckDryRun, kinesis.CheckDescribe} {
		t.Run(string(mode), func(t *testing.T) {
			sinktest.Run(t, func(t *testing.T) sinktest.Destination {
				var hangs atomic.Pointer[func()]
				k := start(t, rig.Options{OnCall: func(rig.Call) {
					if f := hangs.Load(); f != nil {
						(*f)()
					}
				}})
				return sinktest.Destination{
					Sink: open(t, k.URL(), func(c *kinesis.Config) { c.Check = mode }),
					Stored: func() []sink.Record {
						var stored []sink.Record
						for r := range k.All("good") {
							stored = append(stored, sink.Record{Key: r.Key, Data: r.Data})
						}
						return stored
					},
					FailNotApplied: func() { breakIt(t, k, fault.Fault{Kind: fault.Error, Code: rig.AccessDenied}) },
					FailApplied:    func() { breakIt(t, k, fault.Fault{Kind: fault.Lost}) },
					Hang: func(f func()) {
						hangs.Store(&f)
						breakIt(t, k, fault.Fault{Kind: fault.Hang})
					},
					Mend: func() { hangs.Store(nil); mend(t, k) },
				}
			})
		})
	}
}

func TestSink_lanesWriteToTheirOwnStreams(t *testing.T) {
	k := start(t, rig.Options{})
	registry := prometheus.NewPedanticRegistry()
	cfg := kinesis.DefaultConfig()
	cfg.GoodStream, cfg.BadStream = "good", "arn:aws:kinesis:eu-west-1:000000000000:stream/bad"
	cfg.AWS.Region, cfg.AWS.Endpoint = "eu-west-1", k.URL()
	cfg.AWS.AccessKeyID, cfg.AWS.SecretAccessKey = "rig", configfile.NewSecret("rig")
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, lane := range sink.Lanes() {
		s, err := kinesis.New(cfg, kinesis.Options{Lane: lane, Log: quiet(), Metrics: registry})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range s.Write(t.Context(), sinktest.Records(1, 3+i)) {
			if o.Class != sink.Written {
				t.Errorf("%s: %v", lane, o.Err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if good, bad := k.Count("good"), k.Count("bad"); good != 3 || bad != 4 {
		t.Errorf("%d good and %d bad records, want 3 and 4", good, bad)
	}
	want := `
# HELP spillway_collector_sink_records_total Records of which a Write said what became of them, by that.
# TYPE spillway_collector_sink_records_total counter
spillway_collector_sink_records_total{class="written",lane="bad",sink="kinesis"} 4
spillway_collector_sink_records_total{class="written",lane="good",sink="kinesis"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "spillway_collector_sink_records_total"); err != nil {
		t.Error(err)
	}
}

func TestSink_ShardsTouched_countsShardsSince(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), nil)
	before := time.Now()
	s.Write(t.Context(), sinktest.Records(1, 200))
	if n := s.ShardsTouched(before); n != 4 {
		t.Errorf("%d shards touched by 200 keys, want 4", n)
	}
	after := time.Now()
	if n := s.ShardsTouched(after); n != 0 {
		t.Errorf("%d shards touched since the last Write", n)
	}
	s.Write(t.Context(), sinktest.Records(1, 1))
	if n := s.ShardsTouched(after); n != 1 {
		t.Errorf("%d shards touched by one record", n)
	}
}

func TestSink_Write_recordsThatNeverFit_arePermanentAndStopNobody(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), func(c *kinesis.Config) { c.MaxRecordBytes = configfile.KiB })
	records := sinktest.Records(1, 5)
	records[0].Data = make([]byte, 1025-len(records[0].Key))
	records[2].Key = ""
	records[3].Key = strings.Repeat("ä", 257)
	records[4].Key, records[4].Data = strings.Repeat("ä", 256), make([]byte, 1024-512)
	out := s.Write(t.Context(), records)
	for i, want := range []sink.Class{sink.Permanent, sink.Written, sink.Permanent, sink.Permanent, sink.Written} {
		if out[i].Class != want {
			t.Errorf("record %d: %v (%v), want %v", i, out[i].Class, out[i].Err, want)
		}
		if want == sink.Permanent && out[i].Err.Cause != sink.CauseRecord {
			t.Errorf("record %d: cause %q", i, out[i].Err.Cause)
		}
	}
	if n := k.Count("good"); n != 2 {
		t.Errorf("%d records written, want 2", n)
	}
}

func TestSink_Write_callerThatIgnoresLimits_isCutIntoCalls(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), func(c *kinesis.Config) { c.MaxRecordBytes, c.MaxBytes = 2*configfile.KiB, 8*configfile.KiB })
	records := sinktest.Records(1, 20)
	for i := range records {
		records[i].Data = fmt.Appendf(nil, "%1024d", i)
	}
	for i, o := range s.Write(t.Context(), records) {
		if o.Class != sink.Written {
			t.Errorf("record %d: %v", i, o.Err)
		}
	}
	if calls := k.Stats().Calls["PutRecords"]; calls != 3 {
		t.Errorf("%d calls for 20KiB in parts of 8KiB, want 3", calls)
	}
}

func TestSink_Write_failedRecordsOfA200_areNamedOneByOne(t *testing.T) {
	for code, want := range map[string]sink.Outcome{
		rig.Throttled:       {Class: sink.Throttled, Err: &sink.Error{Cause: sink.CauseThrottled}},
		rig.InternalFailure: {Class: sink.Transient, Err: &sink.Error{Cause: sink.CauseServer}},
		rig.InvalidArgument: {Class: sink.Permanent, Err: &sink.Error{Cause: sink.CauseRecord}},
		"SomethingNew":      {Class: sink.Transient, Err: &sink.Error{Cause: sink.CauseServer}},
	} {
		k := start(t, rig.Options{})
		s := open(t, k.URL(), nil)
		records := sinktest.Records(1, 300)
		breakIt(t, k, fault.Fault{Kind: fault.Record, Code: code, MatchFunc: func(data []byte) bool { return strings.Contains(string(data), "7 ") }})
		messages := map[string]bool{}
		for i, o := range s.Write(t.Context(), records) {
			if !strings.Contains(string(records[i].Data), "7 ") {
				if o.Class != sink.Written {
					t.Errorf("%s: record %d: %v", code, i, o.Err)
				}
				continue
			}
			if o.Class != want.Class || o.Err == nil || o.Err.Cause != want.Err.Cause || o.Err.Code != code {
				t.Errorf("%s: record %d: %v %+v, want %v", code, i, o.Class, o.Err, want)
				break
			}
			messages[o.Err.Error()] = true
		}
		if len(messages) != 1 {
			t.Errorf("%s: %d messages for one fault", code, len(messages))
		}
	}
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	valid := kinesis.DefaultConfig()
	valid.GoodStream, valid.BadStream = "good", "bad"
	if err := valid.Validate(); err != nil {
		t.Errorf("a valid config: %v", err)
	}
	for key, change := range map[string]func(*kinesis.Config){
		"good_stream":       func(c *kinesis.Config) { c.GoodStream = "" },
		"bad_stream":        func(c *kinesis.Config) { c.BadStream = "a b" },
		"max_records":       func(c *kinesis.Config) { c.MaxRecords = 501 },
		"max_bytes":         func(c *kinesis.Config) { c.MaxBytes = 11 * configfile.MiB },
		"max_record_bytes":  func(c *kinesis.Config) { c.MaxRecordBytes = 1 },
		"linger":            func(c *kinesis.Config) { c.Linger = -1 },
		"in_flight":         func(c *kinesis.Config) { c.InFlight = 0 },
		"check":             func(c *kinesis.Config) { c.Check = "maybe" },
		"endpoint":          func(c *kinesis.Config) { c.AWS.Endpoint = "localhost:4566" },
		"request_timeout":   func(c *kinesis.Config) { c.AWS.RequestTimeout = 0 },
		"secret_access_key": func(c *kinesis.Config) { c.AWS.AccessKeyID = "x" },
		"access_key_id":     func(c *kinesis.Config) { c.AWS.SecretAccessKey = configfile.NewSecret("x") },
		"external_id":       func(c *kinesis.Config) { c.AWS.ExternalID = "x" },
	} {
		c := valid
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("%s: %v", key, err)
		}
	}
	small := valid
	small.MaxBytes = configfile.KiB
	if err := small.Validate(); err == nil || !strings.HasPrefix(err.Error(), "max_bytes: ") {
		t.Errorf("max_bytes below max_record_bytes: %v", err)
	}
}
