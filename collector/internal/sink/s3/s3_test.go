package s3_test

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/s3"
	"spillway/collector/internal/sink/sinktest"
	"spillway/shared/configfile"
	"spillway/shared/rig/fault"
	rig "spillway/shared/rig/s3"
)

const bucket = "spillway-fallback"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o rig.Options) *rig.Server {
	t.Helper()
	o.Buckets = []string{bucket}
	store, err := rig.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func config(endpoint string) s3.Config {
	cfg := s3.DefaultConfig()
	cfg.Bucket, cfg.Prefix, cfg.PathStyle = bucket, "/events/", true
	cfg.AWS.Region, cfg.AWS.Endpoint = "us-east-1", endpoint
	cfg.AWS.AccessKeyID, cfg.AWS.SecretAccessKey = "rig", configfile.NewSecret("rig")
	cfg.AWS.RequestTimeout = 10 * time.Second
	return cfg
}

func open(t *testing.T, cfg s3.Config, lane sink.Lane) *s3.Sink {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	s, err := s3.New(cfg, s3.Options{Lane: lane, Instance: "ip-10-0-0-12", Log: logrus.NewEntry(log)})
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

func breakIt(t *testing.T, store *rig.Server, f fault.Fault) {
	t.Helper()
	if err := store.Break(f); err != nil {
		t.Fatal(err)
	}
}

func mend(t *testing.T, store *rig.Server) {
	t.Helper()
	if err := store.Mend(); err != nil {
		t.Fatal(err)
	}
}

// stored reads every object of a lane.
func stored(t *testing.T, store *rig.Server, lane sink.Lane) []sink.Record {
	t.Helper()
	var records []sink.Record
	for _, o := range store.Objects(bucket, "events/"+string(lane)+"/") {
		body, err := store.Body(bucket, o.Key)
		if err != nil {
			t.Fatal(err)
		}
		r := archive.NewReader(lane, bytes.NewReader(body))
		for {
			record, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", o.Key, err)
			}
			records = append(records, record)
		}
		if o.Metadata["sha256"] != r.Sum() {
			t.Errorf("%s: metadata %v, content %s", o.Key, o.Metadata, r.Sum())
		}
	}
	return records
}

func TestSink_keepsTheContract(t *testing.T) {
	for _, lane := range sink.Lanes() {
		for _, checksums := range []s3.Checksums{s3.ChecksumsAlways, s3.ChecksumsWhenRequired} {
			t.Run(fmt.Sprint(lane, "/", checksums), func(t *testing.T) {
				sinktest.Run(t, func(t *testing.T) sinktest.Destination {
					var hangs atomic.Pointer[func()]
					store := start(t, rig.Options{OnCall: func(rig.Call) {
						if f := hangs.Load(); f != nil {
							(*f)()
						}
					}})
					cfg := config(store.URL())
					cfg.Checksums = checksums
					return sinktest.Destination{
						Sink:           open(t, cfg, lane),
						Stored:         func() []sink.Record { return stored(t, store, lane) },
						FailNotApplied: func() { breakIt(t, store, fault.Fault{Kind: fault.Error, Code: rig.SlowDown}) },
						FailApplied:    func() { breakIt(t, store, fault.Fault{Kind: fault.Lost}) },
						Hang: func(f func()) {
							hangs.Store(&f)
							breakIt(t, store, fault.Fault{Kind: fault.Hang})
						},
						Mend: func() { hangs.Store(nil); mend(t, store) },
					}
				})
			})
		}
	}
}

func TestSink_Write_oneObjectWithItsDescription(t *testing.T) {
	store := start(t, rig.Options{})
	cfg := config(store.URL())
	cfg.StorageClass = "STANDARD_IA"
	good, bad := open(t, cfg, sink.Good), open(t, cfg, sink.Bad)
	records := sinktest.Records(100, 5)
	good.Write(t.Context(), records)
	bad.Write(t.Context(), records)
	objects := store.Objects(bucket, "")
	if len(objects) != 2 || !strings.HasPrefix(objects[0].Key, "events/bad/date=2026-12-01/hour=01/ip-10-0-0-12/100-104-") {
		t.Fatalf("objects %+v", objects)
	}
	o := objects[1]
	sum := o.Metadata["sha256"]
	if len(sum) != 64 || o.Key != "events/good/date=2026-12-01/hour=01/ip-10-0-0-12/100-104-"+sum[:8]+".ndjson.gz" {
		t.Errorf("key %s of content %s", o.Key, sum)
	}
	want := map[string]string{"spillway-format": "1", "count": "5", "sha256": sum,
		"first-timestamp": "2026-12-01T01:02:03.000Z", "last-timestamp": "2026-12-01T01:02:03.004Z"}
	if diff := cmp.Diff(want, o.Metadata); diff != "" {
		t.Error(diff)
	}
	if got := good.Info(); got != (sink.Info{Type: "s3", Target: "s3://spillway-fallback/events"}) {
		t.Errorf("Info() = %+v", got)
	}
}

func TestSink_Write_repeatedAfterALostAnswer_replacesItself(t *testing.T) {
	store := start(t, rig.Options{})
	s := open(t, config(store.URL()), sink.Good)
	records := sinktest.Records(100, 50)
	breakIt(t, store, fault.Fault{Kind: fault.Lost, Times: 2})
	for attempt := range 3 {
		if o := s.Write(t.Context(), records)[0]; (o.Class == sink.Written) != (attempt == 2) {
			t.Errorf("attempt %d: %v, %v", attempt, o.Class, o.Err)
		}
	}
	if objects := store.Objects(bucket, ""); len(objects) != 1 {
		t.Errorf("%d objects, want 1", len(objects))
	}
	// Another set of records between the same numbers does not touch it.
	s.Write(t.Context(), append(records[:1:1], records[49]))
	if objects := store.Objects(bucket, ""); len(objects) != 2 || len(stored(t, store, sink.Good)) != 52 {
		t.Errorf("%d objects, want 2", len(objects))
	}
}

func TestSink_Write_overTLS_withAndWithoutChecksums(t *testing.T) {
	store := start(t, rig.Options{})
	target, err := url.Parse(store.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	proxy.Transport = transport
	var checksums []string
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		checksums = append(checksums, r.Header.Get("X-Amz-Checksum-Crc32"))
		if form := r.Header.Get("X-Amz-Content-Sha256"); strings.HasPrefix(form, "STREAMING") {
			t.Errorf("the content is sent in a framing: %s", form)
		}
		proxy.ServeHTTP(w, r)
	}))
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, mode := range []s3.Checksums{s3.ChecksumsAlways, s3.ChecksumsWhenRequired} {
		cfg := config(secure.URL)
		cfg.AWS.CAFile, cfg.Checksums = ca, mode
		for _, o := range open(t, cfg, sink.Good).Write(t.Context(), sinktest.Records(uint64(1000*i+1), 500)) {
			if o.Class != sink.Written {
				t.Fatalf("%s: %v", mode, o.Err)
			}
		}
	}
	if len(checksums) != 2 || checksums[0] == "" || checksums[1] != "" {
		t.Errorf("checksums sent: %q, want one by the first Write only", checksums)
	}
	if n := len(stored(t, store, sink.Good)); n != 1000 {
		t.Errorf("%d records stored, want 1000", n)
	}
}

type meaning struct {
	code  string
	class sink.Class
	cause sink.Cause
	word  string // that the message must say
}

func TestSink_Write_errorsOfTheService_areFaultsOfTheDestination(t *testing.T) {
	store := start(t, rig.Options{})
	s := open(t, config(store.URL()), sink.Good)
	for _, m := range []meaning{
		{rig.SlowDown, sink.Throttled, sink.CauseThrottled, "more than it gives"},
		{"KMS.ThrottlingException", sink.Throttled, sink.CauseThrottled, "more than it gives"},
		{rig.InternalError, sink.Transient, sink.CauseServer, "fault of its own"},
		{rig.ServiceUnavailable, sink.Transient, sink.CauseServer, "fault of its own"},
		{rig.Conflict, sink.Transient, sink.CauseServer, "fault of its own"},
		{"XMinioStorageFull", sink.Transient, sink.CauseServer, "no room"},
		{rig.AccessDenied, sink.Transient, sink.CauseAuth, "allow it"},
		{"AllAccessDisabled", sink.Transient, sink.CauseAuth, "allow it"},
		{rig.InvalidAccessKey, sink.Transient, sink.CauseAuth, "access key"},
		{rig.SignatureMismatch, sink.Transient, sink.CauseAuth, "secret key"},
		{rig.ExpiredToken, sink.Transient, sink.CauseAuth, "expired"},
		{rig.ClockSkewed, sink.Transient, sink.CauseAuth, "clock"},
		{rig.NoSuchBucket, sink.Transient, sink.CauseConfig, "create it"},
		{rig.PermanentRedirect, sink.Transient, sink.CauseConfig, "another region"},
		{rig.WrongRegion, sink.Transient, sink.CauseConfig, "expecting 'eu-west-1'"},
		{"NotImplemented", sink.Transient, sink.CauseConfig, "checksums: when_required"},
		{"InvalidStorageClass", sink.Transient, sink.CauseConfig, "storage_class"},
		{rig.KMSDisabled, sink.Transient, sink.CauseConfig, "KMS key"},
		{"KMS.AccessDeniedException", sink.Transient, sink.CauseAuth, "KMS key"},
		{rig.RequestTimeout, sink.Transient, sink.CauseNetwork, "in time"},
		{"BadDigest", sink.Transient, sink.CauseNetwork, "did not arrive"},
		{"SomethingNew", sink.Transient, sink.CauseServer, "fault of its own"},
	} {
		breakIt(t, store, fault.Fault{Kind: fault.Error, Code: m.code})
		before := store.Calls()["PutObject"]
		for _, o := range s.Write(t.Context(), sinktest.Records(1, 3)) {
			if o.Class != m.class || o.Err == nil || o.Err.Cause != m.cause || o.Err.Code != m.code ||
				!strings.Contains(o.Err.Message, m.word) || !strings.Contains(o.Err.Message, "bucket spillway-fallback in us-east-1 at "+store.URL()) {
				t.Errorf("%s: %v, %+v, want %v, %s, %q", m.code, o.Class, o.Err, m.class, m.cause, m.word)
				break
			}
		}
		if calls := store.Calls()["PutObject"] - before; calls != 1 {
			t.Errorf("%s: %d calls in one Write", m.code, calls)
		}
		mend(t, store)
	}
	if n := len(store.Objects(bucket, "")); n != 0 {
		t.Errorf("%d objects written by calls that failed", n)
	}
}

func TestSink_Write_troubleOnTheWire_isTransient(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   fault.Fault
		cause   sink.Cause
		word    string
		applied int
	}{
		{"refused", fault.Fault{Kind: fault.Down}, sink.CauseNetwork, "connection refused", 0},
		{"silent", fault.Fault{Kind: fault.Hang}, sink.CauseNetwork, "within 300ms", 0},
		{"silent but applied", fault.Fault{Kind: fault.HangApplied}, sink.CauseNetwork, "within 300ms", 1},
		{"reset", fault.Fault{Kind: fault.Reset}, sink.CauseNetwork, "connection broke", 0},
		{"reset but applied", fault.Fault{Kind: fault.Lost}, sink.CauseNetwork, "connection broke", 1},
		{"not the service", fault.Fault{Kind: fault.Garbage}, sink.CauseServer, "ETag", 0},
		{"empty answer", fault.Fault{Kind: fault.Empty}, sink.CauseServer, "ETag", 0},
		{"500 without a body", fault.Fault{Kind: fault.Status, Status: 500}, sink.CauseServer, "fault of its own", 0},
		{"403 of a proxy", fault.Fault{Kind: fault.Status, Status: 403}, sink.CauseAuth, "allow it", 0},
		{"404 of a proxy", fault.Fault{Kind: fault.Status, Status: 404}, sink.CauseConfig, "endpoint", 0},
		{"301 without a place", fault.Fault{Kind: fault.Status, Status: 301}, sink.CauseConfig, "another region", 0},
		{"307 without a place", fault.Fault{Kind: fault.Status, Status: 307}, sink.CauseConfig, "another region", 0},
		{"501", fault.Fault{Kind: fault.Status, Status: 501}, sink.CauseConfig, "does not support", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := start(t, rig.Options{})
			cfg := config(store.URL())
			cfg.AWS.RequestTimeout = 300 * time.Millisecond
			s := open(t, cfg, sink.Good)
			breakIt(t, store, c.fault)
			for _, o := range s.Write(t.Context(), sinktest.Records(1, 3)) {
				if o.Class != sink.Transient || o.Err == nil || o.Err.Cause != c.cause || !strings.Contains(o.Err.Message, c.word) {
					t.Errorf("%v, %+v, want %s, %q", o.Class, o.Err, c.cause, c.word)
				}
			}
			if n := len(store.Objects(bucket, "")); n != c.applied {
				t.Errorf("%d objects written, want %d", n, c.applied)
			}
			mend(t, store)
			if o := s.Write(t.Context(), sinktest.Records(1, 3))[0]; o.Class != sink.Written {
				t.Errorf("after mending: %v", o.Err)
			}
		})
	}
}

func TestSink_Write_redirect_isNotFollowed(t *testing.T) {
	var followed atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		followed.Store(true)
		w.Header().Set("ETag", `"x"`)
	}))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(other.URL, status))
		o := open(t, config(server.URL), sink.Good).Write(t.Context(), sinktest.Records(1, 1))[0]
		if o.Class != sink.Transient || o.Err.Cause != sink.CauseConfig || followed.Load() {
			t.Errorf("%d: %v, %v, followed: %t", status, o.Class, o.Err, followed.Load())
		}
		server.Close()
	}
}

func TestSink_Write_clockOffByMinutes_failsOnceThenFollows(t *testing.T) {
	store := start(t, rig.Options{})
	s := open(t, config(store.URL()), sink.Good)
	breakIt(t, store, fault.Fault{Kind: fault.Skew, By: time.Hour})
	if o := s.Write(t.Context(), sinktest.Records(1, 1))[0]; o.Class != sink.Transient || !strings.Contains(o.Err.Message, "check the clock") {
		t.Errorf("%v, %v", o.Class, o.Err)
	}
	if o := s.Write(t.Context(), sinktest.Records(1, 1))[0]; o.Class != sink.Written {
		t.Errorf("the second Write is still signed by the wrong clock: %v", o.Err)
	}
}

func TestSink_Check_overwritesItsOwnTinyObject(t *testing.T) {
	store := start(t, rig.Options{})
	s := open(t, config(store.URL()), sink.Good)
	for range 3 {
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	objects := store.Objects(bucket, "")
	if len(objects) != 1 || objects[0].Key != "events/_probe/ip-10-0-0-12" || objects[0].SizeBytes > 16 {
		t.Errorf("objects %+v", objects)
	}
	if err := store.DeleteBucket(bucket); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "NoSuchBucket") {
		t.Errorf("a missing bucket: %v", err)
	}
}

func TestNew_saysWhatIsWrongWithLocalSettings(t *testing.T) {
	cfg := config("")
	cfg.AWS.CAFile = filepath.Join(t.TempDir(), "none")
	if _, err := s3.New(cfg, s3.Options{Lane: sink.Good, Log: logrus.NewEntry(logrus.New())}); err == nil || !strings.Contains(err.Error(), "ca_file: ") {
		t.Errorf("%v", err)
	}
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	for _, name := range []string{bucket, "arn:aws:s3:eu-west-1:123456789012:accesspoint/spill"} {
		valid := config("")
		valid.Bucket = name
		if err := valid.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for key, change := range map[string]func(*s3.Config){
		"bucket: it is missing": func(c *s3.Config) { c.Bucket = "" },
		"bucket: \"s3://":       func(c *s3.Config) { c.Bucket = "s3://spillway-fallback/x" },
		"prefix: ":              func(c *s3.Config) { c.Prefix = strings.Repeat("x", 513) },
		"checksums: ":           func(c *s3.Config) { c.Checksums = "" },
		"max_records: ":         func(c *s3.Config) { c.MaxRecords = 0 },
		"max_bytes: ":           func(c *s3.Config) { c.MaxBytes = 1 },
		"linger: ":              func(c *s3.Config) { c.Linger = 2 * time.Hour },
		"in_flight: ":           func(c *s3.Config) { c.InFlight = 65 },
		"request_timeout: ":     func(c *s3.Config) { c.AWS.RequestTimeout = 0 },
	} {
		c := config("")
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
