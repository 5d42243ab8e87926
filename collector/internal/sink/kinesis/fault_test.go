package kinesis_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/kinesis"
	"spillway/collector/internal/sink/sinktest"
	"spillway/shared/configfile"
	"spillway/shared/rig/fault"
	rig "spillway/shared/rig/kinesis"
)

// fails requires that no record was written, all for the same reason.
func fails(t *testing.T, out []sink.Outcome, class sink.Class, cause sink.Cause, code string, words ...string) {
	t.Helper()
	for i, o := range out {
		if o.Class != class || o.Err == nil || o.Err.Cause != cause || o.Err.Code != code {
			t.Errorf("record %d: %v, %+v, want %v, %s, %q", i, o.Class, o.Err, class, cause, code)
			return
		}
		for _, word := range words {
			if !strings.Contains(o.Err.Message, word) {
				t.Errorf("message %q does not say %q", o.Err.Message, word)
			}
		}
		if o.Err != out[0].Err {
			t.Errorf("record %d has an error of its own", i)
		}
	}
}

type meaning struct {
	code  string
	class sink.Class
	cause sink.Cause
	word  string // that the message must say
}

var meanings = []meaning{
	{rig.Throttled, sink.Throttled, sink.CauseThrottled, "shards"},
	{rig.LimitExceeded, sink.Throttled, sink.CauseThrottled, "shards"},
	{rig.Throttling, sink.Throttled, sink.CauseThrottled, "more than it gives"},
	{"SlowDown", sink.Throttled, sink.CauseThrottled, "more than it gives"},
	{rig.KMSThrottling, sink.Throttled, sink.CauseThrottled, "KMS"},

	{rig.InternalFailure, sink.Transient, sink.CauseServer, "fault of its own"},
	{rig.ServiceUnavailable, sink.Transient, sink.CauseServer, "fault of its own"},
	{"SomethingNewException", sink.Transient, sink.CauseServer, "fault of its own"},
	{"SerializationException", sink.Transient, sink.CauseServer, "did not understand"},
	{"ResourceInUseException", sink.Transient, sink.CauseServer, "being made or deleted"},

	{rig.NotFound, sink.Transient, sink.CauseConfig, "create it"},
	{"UnknownOperationException", sink.Transient, sink.CauseConfig, "endpoint"},
	{rig.KMSDisabled, sink.Transient, sink.CauseConfig, "KMS key"},
	{rig.KMSInvalidState, sink.Transient, sink.CauseConfig, "KMS key"},
	{rig.KMSNotFound, sink.Transient, sink.CauseConfig, "KMS key"},
	{rig.KMSOptInRequired, sink.Transient, sink.CauseConfig, "KMS key"},

	{rig.KMSAccessDenied, sink.Transient, sink.CauseAuth, "KMS key"},
	{rig.AccessDenied, sink.Transient, sink.CauseAuth, "allow it"},
	{rig.ExpiredToken, sink.Transient, sink.CauseAuth, "expired"},
	{"ExpiredToken", sink.Transient, sink.CauseAuth, "expired"},
	{rig.UnrecognizedClient, sink.Transient, sink.CauseAuth, "access key"},
	{"InvalidClientTokenId", sink.Transient, sink.CauseAuth, "access key"},
	{"MissingAuthenticationTokenException", sink.Transient, sink.CauseAuth, "access key"},
	{rig.InvalidSignature, sink.Transient, sink.CauseAuth, "secret key"},
	{"IncompleteSignatureException", sink.Transient, sink.CauseAuth, "secret key"},
	{"RequestExpired", sink.Transient, sink.CauseAuth, "clock"},
	{"RequestTimeTooSkewed", sink.Transient, sink.CauseAuth, "clock"},
	{"RequestTimeoutException", sink.Transient, sink.CauseNetwork, "in time"},
}

func TestSink_Write_errorOfTheWholeCall_meansWhatItsCodeSays(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), nil)
	for _, m := range meanings {
		breakIt(t, k, fault.Fault{Kind: fault.Error, Code: m.code})
		before := k.Stats().Calls["PutRecords"]
		out := s.Write(t.Context(), sinktest.Records(1, 4))
		fails(t, out, m.class, m.cause, m.code, m.word, "stream good in eu-west-1 at "+k.URL())
		if calls := k.Stats().Calls["PutRecords"] - before; calls != 1 {
			t.Errorf("%s: %d calls in one Write", m.code, calls)
		}
		mend(t, k)
	}
	if n := k.Count("good"); n != 0 {
		t.Errorf("%d records written by calls that failed", n)
	}
}

func TestSink_Write_whatTheSDKCallsThrottling_isThrottled(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), nil)
	for code := range retry.DefaultThrottleErrorCodes {
		breakIt(t, k, fault.Fault{Kind: fault.Error, Code: code})
		fails(t, s.Write(t.Context(), sinktest.Records(1, 1)), sink.Throttled, sink.CauseThrottled, code)
		mend(t, k)
	}
}

func TestSink_Write_troubleOnTheWire_isTransient(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   fault.Fault
		cause   sink.Cause
		code    string
		word    string
		applied int
	}{
		{"refused", fault.Fault{Kind: fault.Down}, sink.CauseNetwork, "", "connection refused", 0},
		{"silent", fault.Fault{Kind: fault.Hang}, sink.CauseNetwork, "", "within 300ms", 0},
		{"silent but applied", fault.Fault{Kind: fault.HangApplied}, sink.CauseNetwork, "", "within 300ms", 3},
		{"slow answer", fault.Fault{Kind: fault.Trickle, By: time.Hour}, sink.CauseNetwork, "", "within 300ms", 3},
		{"reset", fault.Fault{Kind: fault.Reset}, sink.CauseNetwork, "", "connection broke", 0},
		{"reset but applied", fault.Fault{Kind: fault.Lost}, sink.CauseNetwork, "", "connection broke", 3},
		{"not the service", fault.Fault{Kind: fault.Garbage}, sink.CauseServer, "", "could not be read", 0},
		{"empty answer", fault.Fault{Kind: fault.Empty}, sink.CauseServer, "", "results", 0},
		{"500 without a body", fault.Fault{Kind: fault.Status, Status: 500}, sink.CauseServer, "HTTP 500", "fault of its own", 0},
		{"502 of a proxy", fault.Fault{Kind: fault.Status, Status: 502}, sink.CauseServer, "HTTP 502", "fault of its own", 0},
		{"503 without a body", fault.Fault{Kind: fault.Status, Status: 503}, sink.CauseServer, "HTTP 503", "fault of its own", 0},
		{"504 with a body", fault.Fault{Kind: fault.Error, Code: rig.InternalFailure, Status: 504}, sink.CauseServer, rig.InternalFailure, "fault of its own", 0},
		{"403 of a proxy", fault.Fault{Kind: fault.Status, Status: 403}, sink.CauseAuth, "HTTP 403", "allow it", 0},
		{"404 of a proxy", fault.Fault{Kind: fault.Status, Status: 404}, sink.CauseConfig, "HTTP 404", "endpoint", 0},
		{"301", fault.Fault{Kind: fault.Status, Status: 301}, sink.CauseConfig, "HTTP 301", "endpoint", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := start(t, rig.Options{})
			s := open(t, k.URL(), func(c *kinesis.Config) { c.AWS.RequestTimeout = 300 * time.Millisecond })
			breakIt(t, k, c.fault)
			out := s.Write(t.Context(), sinktest.Records(1, 3))
			fails(t, out, sink.Transient, c.cause, c.code, c.word)
			again := s.Write(t.Context(), sinktest.Records(1, 3))
			fails(t, again, sink.Transient, c.cause, c.code, c.word)
			if out[0].Err.Error() != again[0].Err.Error() {
				t.Errorf("the same fault has two messages:\n%v\n%v", out[0].Err, again[0].Err)
			}
			if n := k.Count("good"); n != 2*c.applied {
				t.Errorf("%d records written, want %d", n, 2*c.applied)
			}
			mend(t, k)
			for _, o := range s.Write(t.Context(), sinktest.Records(1, 3)) {
				if o.Class != sink.Written {
					t.Errorf("after mending: %v", o.Err)
				}
			}
		})
	}
}

func TestSink_Write_429WithoutABody_isThrottled(t *testing.T) {
	k := start(t, rig.Options{})
	breakIt(t, k, fault.Fault{Kind: fault.Status, Status: 429})
	fails(t, open(t, k.URL(), nil).Write(t.Context(), sinktest.Records(1, 3)), sink.Throttled, sink.CauseThrottled, "HTTP 429")
}

// answering is a service that gives every call the same answer.
func answering(t *testing.T, tls bool, body string) *httptest.Server {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_, _ = io.WriteString(w, body)
	})
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if tls {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

func TestSink_Write_answerThatDoesNotAddUp_isNotTrusted(t *testing.T) {
	const ok = `{"SequenceNumber":"1","ShardId":"shardId-0"}`
	for _, c := range []struct {
		name string
		body string
		want []sink.Class
	}{
		{"too few", `{"FailedRecordCount":0,"Records":[` + ok + `]}`, []sink.Class{sink.Transient, sink.Transient}},
		{"too many", `{"FailedRecordCount":0,"Records":[` + ok + `,` + ok + `,` + ok + `]}`, []sink.Class{sink.Transient, sink.Transient}},
		{"none", `{"FailedRecordCount":0}`, []sink.Class{sink.Transient, sink.Transient}},
		{"no sequence number", `{"FailedRecordCount":0,"Records":[{"ShardId":"shardId-0"},` + ok + `]}`, []sink.Class{sink.Transient, sink.Written}},
		{"both", `{"FailedRecordCount":0,"Records":[{"SequenceNumber":"1","ErrorCode":"InternalFailure"},` + ok + `]}`, []sink.Class{sink.Transient, sink.Written}},
		{"a wrong count", `{"FailedRecordCount":0,"Records":[{"ErrorCode":"InternalFailure","ErrorMessage":"x"},` + ok + `]}`, []sink.Class{sink.Transient, sink.Written}},
		{"cut off", `{"FailedRecordCount":0,"Records":[` + ok + `,{"Seq`, []sink.Class{sink.Transient, sink.Transient}},
	} {
		out := open(t, answering(t, false, c.body).URL, nil).Write(t.Context(), sinktest.Records(1, 2))
		for i, o := range out {
			if o.Class != c.want[i] || (o.Err == nil) != (o.Class == sink.Written) {
				t.Errorf("%s: record %d: %v, %v, want %v", c.name, i, o.Class, o.Err, c.want[i])
			}
		}
	}
}

func TestSink_Write_withoutAWay_saysWhatIsMissing(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	secure := answering(t, true, "{}")
	plain := answering(t, false, "{}")
	for _, c := range []struct {
		name     string
		endpoint string
		change   func(*kinesis.Config)
		cause    sink.Cause
		word     string
	}{
		{"no such name", "http://kinesis.invalid", nil, sink.CauseNetwork, "kinesis.invalid"},
		{"unknown CA", secure.URL, nil, sink.CauseNetwork, "TLS failed"},
		{"no TLS", strings.Replace(plain.URL, "http:", "https:", 1), nil, sink.CauseNetwork, "HTTPS client"},
		{"no credentials", plain.URL, func(c *kinesis.Config) { c.AWS.AccessKeyID, c.AWS.SecretAccessKey = "", configfile.Secret{} }, sink.CauseAuth, "no credentials"},
	} {
		out := open(t, c.endpoint, c.change).Write(t.Context(), sinktest.Records(1, 2))
		fails(t, out, sink.Transient, c.cause, "", c.word)
	}
}

func TestSink_Write_trustsTheGivenCA(t *testing.T) {
	secure := answering(t, true, `{"FailedRecordCount":0,"Records":[{"SequenceNumber":"1","ShardId":"shardId-0"}]}`)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	byConfig := open(t, secure.URL, func(c *kinesis.Config) { c.AWS.CAFile = ca })
	t.Setenv("AWS_CA_BUNDLE", ca)
	for name, s := range map[string]*kinesis.Sink{"ca_file": byConfig, "AWS_CA_BUNDLE": open(t, secure.URL, nil)} {
		if o := s.Write(t.Context(), sinktest.Records(1, 1))[0]; o.Class != sink.Written {
			t.Errorf("%s: %v", name, o.Err)
		}
	}
}

func TestSink_Write_clockOffByMinutes_failsOnceThenFollows(t *testing.T) {
	for _, by := range []time.Duration{20 * time.Minute, -20 * time.Minute} {
		k := start(t, rig.Options{})
		s := open(t, k.URL(), nil)
		breakIt(t, k, fault.Fault{Kind: fault.Skew, By: by})
		fails(t, s.Write(t.Context(), sinktest.Records(1, 2)), sink.Transient, sink.CauseAuth, rig.InvalidSignature, "check the clock")
		for _, o := range s.Write(t.Context(), sinktest.Records(1, 2)) {
			if o.Class != sink.Written {
				t.Errorf("%v: the second Write is still signed by the wrong clock: %v", by, o.Err)
			}
		}
	}
}

func poison(code string) fault.Fault {
	return fault.Fault{Kind: fault.Error, Code: code, MatchFunc: func(data []byte) bool { return strings.Contains(string(data), "poison") }}
}

func TestSink_Write_poisonAmongMany_isFoundAndTheOthersGo(t *testing.T) {
	for _, code := range []string{rig.InvalidArgument, rig.Validation} {
		k := start(t, rig.Options{})
		s := open(t, k.URL(), nil)
		breakIt(t, k, poison(code))
		records := sinktest.Records(1, 500)
		at := map[int]bool{0: true, 255: true, 499: true}
		for i := range at {
			records[i].Data = fmt.Append(nil, "poison ", i)
		}
		for i, o := range s.Write(t.Context(), records) {
			want := sink.Written
			if at[i] {
				want = sink.Permanent
			}
			if o.Class != want {
				t.Errorf("record %d: %v (%v), want %v", i, o.Class, o.Err, want)
			}
			if at[i] && (o.Err.Cause != sink.CauseRecord || o.Err.Code != code) {
				t.Errorf("record %d: %+v", i, o.Err)
			}
		}
		if n := k.Count("good"); n != 497 {
			t.Errorf("%d records written, want 497", n)
		}
	}
}

func TestSink_Write_poisonAlone_isGivenUpOnlyWhenAnotherIsTaken(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), nil)
	bad, good := sinktest.Records(1, 1), sinktest.Records(2, 1)
	bad[0].Data = []byte("poison")
	s.Write(t.Context(), good) // taken before: proves nothing
	breakIt(t, k, poison(rig.Validation))
	for range 3 {
		fails(t, s.Write(t.Context(), bad), sink.Transient, sink.CauseConfig, rig.Validation, "kept until")
	}
	s.Write(t.Context(), good)
	fails(t, s.Write(t.Context(), bad), sink.Permanent, sink.CauseRecord, rig.Validation)
}

func TestSink_Write_streamThatRefusesEverything_costsNoRecord(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), nil)
	s.Write(t.Context(), sinktest.Records(1000, 1))
	breakIt(t, k, fault.Fault{Kind: fault.Error, Code: rig.InvalidArgument})
	records := sinktest.Records(1, 500)
	for attempt := range 5 {
		before := k.Stats().Calls["PutRecords"]
		for i, o := range s.Write(t.Context(), records) {
			if o.Class != sink.Transient || o.Err.Cause != sink.CauseConfig {
				t.Fatalf("attempt %d: record %d: %v, %v", attempt, i, o.Class, o.Err)
			}
		}
		if calls := k.Stats().Calls["PutRecords"] - before; calls > 64 {
			t.Errorf("%d calls in one Write", calls)
		}
	}
	mend(t, k)
	for i, o := range s.Write(t.Context(), records) {
		if o.Class != sink.Written {
			t.Errorf("after mending: record %d: %v", i, o.Err)
		}
	}
}

func TestSink_Write_callTooLarge_isHalved(t *testing.T) {
	k := start(t, rig.Options{MaxCallBytes: 64 << 10})
	s := open(t, k.URL(), nil)
	records := sinktest.Records(1, 100)
	for i := range records {
		records[i].Data = fmt.Appendf(nil, "%2000d", i)
	}
	for i, o := range s.Write(t.Context(), records) {
		if o.Class != sink.Written {
			t.Errorf("record %d: %v", i, o.Err)
		}
	}
	if n := k.Count("good"); n != 100 {
		t.Errorf("%d records written, want 100", n)
	}
}

func TestSink_Write_faultWhileHalving_stopsTheWrite(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), nil)
	records := sinktest.Records(1, 8)
	records[2].Data = []byte("denied")
	breakIt(t, k, fault.Fault{Kind: fault.Error, Code: rig.InvalidArgument, Times: 2})
	breakIt(t, k, fault.Fault{Kind: fault.Error, Code: rig.AccessDenied, MatchFunc: func(data []byte) bool { return string(data) == "denied" }})
	for i, o := range s.Write(t.Context(), records) {
		if want := i < 2; (o.Class == sink.Written) != want || !want && (o.Class != sink.Transient || o.Err.Code != rig.AccessDenied) {
			t.Errorf("record %d: %v, %v", i, o.Class, o.Err)
		}
	}
	if calls := k.Stats().Calls["PutRecords"]; calls != 4 {
		t.Errorf("%d calls, want 4: all, the first half, its first half, its second", calls)
	}
}

func TestNew_needsNeitherNetworkNorStream(t *testing.T) {
	var calls atomic.Int32
	metadata := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer metadata.Close()
	t.Setenv("AWS_DEFAULTS_MODE", "auto") // asks the instance's metadata
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
	open(t, "", func(c *kinesis.Config) { c.AWS.RoleARN = "arn:aws:iam::000000000000:role/spillway" })
	if n := calls.Load(); n != 0 {
		t.Errorf("New made %d calls", n)
	}
}

func TestNew_saysWhatIsWrongWithLocalSettings(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	for word, change := range map[string]func(*kinesis.Config){
		"region: ":  func(c *kinesis.Config) { c.AWS.Region = "" },
		"ca_file: ": func(c *kinesis.Config) { c.AWS.CAFile = filepath.Join(t.TempDir(), "none") },
		"nobody":    func(c *kinesis.Config) { c.AWS.Profile = "nobody" },
	} {
		cfg := kinesis.DefaultConfig()
		cfg.AWS.Region = "eu-west-1"
		change(&cfg)
		if _, err := kinesis.New(cfg, kinesis.Options{Lane: sink.Good, Log: quiet()}); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

func TestSink_Check_byDescribing_saysWhatStandsInTheWay(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), nil) // auto, and not at AWS
	if err := s.Check(t.Context()); err != nil || k.Stats().Calls["DescribeStreamSummary"] != 1 {
		t.Errorf("%v after %v", err, k.Stats().Calls)
	}
	if err := k.DeleteStream("good"); err != nil {
		t.Fatal(err)
	}
	e, ok := errors.AsType[*sink.Error](s.Check(t.Context()))
	if !ok || e.Cause != sink.CauseConfig || e.Code != rig.NotFound {
		t.Errorf("a missing stream: %+v", e)
	}
	for body, want := range map[string]sink.Cause{
		`{"StreamDescriptionSummary":{"StreamName":"good","StreamStatus":"DELETING"}}`: sink.CauseConfig,
		`{"StreamDescriptionSummary":{"StreamName":"good","StreamStatus":"CREATING"}}`: sink.CauseConfig,
		`{}`: sink.CauseServer,
	} {
		e, ok := errors.AsType[*sink.Error](open(t, answering(t, false, body).URL, nil).Check(t.Context()))
		if !ok || e.Cause != want {
			t.Errorf("%s: %+v", body, e)
		}
	}
	if err := open(t, answering(t, false, `{"StreamDescriptionSummary":{"StreamStatus":"UPDATING"}}`).URL, nil).Check(t.Context()); err != nil {
		t.Errorf("a stream that is being changed takes records: %v", err)
	}
}

func TestSink_Check_dryRun_writesNothing(t *testing.T) {
	k := start(t, rig.Options{})
	s := open(t, k.URL(), func(c *kinesis.Config) { c.Check = kinesis.CheckDryRun })
	if err := s.Check(t.Context()); err != nil || k.Count("good") != 0 || k.Stats().Calls["PutRecords"] != 1 {
		t.Errorf("%v, %d records, calls %v", err, k.Count("good"), k.Stats().Calls)
	}
	breakIt(t, k, fault.Fault{Kind: fault.Error, Code: rig.Validation})
	if e, ok := errors.AsType[*sink.Error](s.Check(t.Context())); !ok || e.Cause != sink.CauseConfig {
		t.Errorf("a refused dry run: %+v", e)
	}
}

func TestSink_Check_endpointThatIgnoresDryRuns_isAskedOnce(t *testing.T) {
	var targets []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		targets = append(targets, strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "Kinesis_20131202."))
		_, _ = io.WriteString(w, `{"FailedRecordCount":0,"Records":[{"SequenceNumber":"1","ShardId":"s"}],"StreamDescriptionSummary":{"StreamStatus":"ACTIVE"}}`)
	}))
	defer server.Close()
	s := open(t, server.URL, func(c *kinesis.Config) { c.Check = kinesis.CheckDryRun })
	for range 3 {
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(targets, " "); got != "PutRecords DescribeStreamSummary DescribeStreamSummary" {
		t.Errorf("calls: %s", got)
	}
}

func TestSink_Check_off_callsNobody(t *testing.T) {
	s := open(t, "http://kinesis.invalid", func(c *kinesis.Config) { c.Check = kinesis.CheckOff })
	if err := s.Check(context.Background()); err != nil {
		t.Error(err)
	}
}
