package kinesis_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"spillway/shared/rig/fault"
	"spillway/shared/rig/kinesis"
)

func one(t *testing.T) (*kinesis.Server, *sdk.Client) {
	return start(t, kinesis.Options{Streams: map[string]int{"good": 4, "bad": 1}})
}

func breakIt(t *testing.T, k *kinesis.Server, f fault.Fault) {
	t.Helper()
	if err := k.Break(f); err != nil {
		t.Fatal(err)
	}
}

// mend mends everything and requires that the stand-in works again.
func mend(t *testing.T, k *kinesis.Server, client *sdk.Client) {
	t.Helper()
	if err := k.Mend(); err != nil {
		t.Fatal(err)
	}
	before := k.Count("good")
	if _, err := put(client, "good", entries(5)); err != nil {
		t.Fatalf("after mending: %v", err)
	}
	if got := k.Count("good"); got != before+5 {
		t.Errorf("after mending: %d records, want %d", got, before+5)
	}
}

func TestFault_errorCodes_reachTheSDK(t *testing.T) {
	k, client := one(t)
	for _, code := range []string{
		kinesis.Throttled, kinesis.InternalFailure, kinesis.ServiceUnavailable, kinesis.LimitExceeded, kinesis.Throttling,
		kinesis.NotFound, kinesis.InvalidArgument, kinesis.Validation, kinesis.AccessDenied, kinesis.ExpiredToken,
		kinesis.UnrecognizedClient, kinesis.InvalidSignature, kinesis.KMSAccessDenied, kinesis.KMSDisabled,
		kinesis.KMSInvalidState, kinesis.KMSNotFound, kinesis.KMSOptInRequired, kinesis.KMSThrottling,
	} {
		t.Run(code, func(t *testing.T) {
			breakIt(t, k, fault.Fault{Kind: fault.Error, Code: code, Times: 1})
			_, err := put(client, "good", entries(1))
			wantCode(t, err, code)
			resp, ok := errors.AsType[*awshttp.ResponseError](err)
			want := 400
			if code == kinesis.InternalFailure {
				want = 500
			} else if code == kinesis.ServiceUnavailable {
				want = 503
			}
			if !ok || resp.HTTPStatusCode() != want || resp.ServiceRequestID() == "" {
				t.Errorf("error %v, want HTTP %d with a request id", err, want)
			}
		})
	}
	if n := k.Count("good"); n != 0 {
		t.Errorf("%d records written by failed calls", n)
	}
	mend(t, k, client)
}

// What the caller sees of each kind, and whether the call took effect.
func TestFault_wireKinds_seenThroughTheSDK(t *testing.T) {
	noAnswer := func(err error) bool { // reset, end of file or broken pipe, as the moment will have it
		resp, ok := errors.AsType[*awshttp.ResponseError](err)
		return err != nil && (!ok || resp.HTTPStatusCode() == 0)
	}
	status := func(code int) func(error) bool {
		return func(err error) bool {
			resp, ok := errors.AsType[*awshttp.ResponseError](err)
			return ok && resp.HTTPStatusCode() == code
		}
	}
	for _, c := range []struct {
		name    string
		fault   fault.Fault
		seen    func(error) bool // nil: nothing, until the caller gives up
		applied int
	}{
		{"down", fault.Fault{Kind: fault.Down}, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }, 0},
		{"hang", fault.Fault{Kind: fault.Hang}, nil, 0},
		{"hang_applied", fault.Fault{Kind: fault.HangApplied}, nil, 1},
		{"reset", fault.Fault{Kind: fault.Reset}, noAnswer, 0},
		{"lost", fault.Fault{Kind: fault.Lost}, noAnswer, 1},
		{"trickle", fault.Fault{Kind: fault.Trickle, By: time.Hour}, nil, 1},
		{"delay", fault.Fault{Kind: fault.Delay, By: time.Hour}, nil, 0},
		{"garbage", fault.Fault{Kind: fault.Garbage}, func(err error) bool { return err != nil }, 0},
		{"status", fault.Fault{Kind: fault.Status, Status: 502}, status(502), 0},
		{"status with a body", fault.Fault{Kind: fault.Status, Status: 503, Message: "<html>Service Unavailable</html>"}, status(503), 0},
		{"error with status", fault.Fault{Kind: fault.Error, Code: kinesis.InternalFailure, Status: 504}, status(504), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, client := one(t)
			breakIt(t, k, c.fault)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error)
			go func() {
				_, err := client.PutRecords(ctx, &sdk.PutRecordsInput{StreamName: aws.String("good"), Records: entries(1)})
				result <- err
			}()
			if c.seen == nil {
				if err := errors.Join(k.WaitHits(ctx, c.fault.Kind, 1), k.Wait(ctx, "good", c.applied)); err != nil {
					t.Fatal(err)
				}
				cancel()
				if err := <-result; !errors.Is(err, context.Canceled) {
					t.Errorf("the caller gave up and saw %v", err)
				}
			} else if err := <-result; !c.seen(err) {
				t.Errorf("the caller saw %v", err)
			}
			if n := k.Count("good"); n != c.applied {
				t.Errorf("%d records written, want %d", n, c.applied)
			}
			mend(t, k, client)
		})
	}
}

func TestFault_empty_isAnAnswerWithoutResults(t *testing.T) {
	k, client := one(t)
	breakIt(t, k, fault.Fault{Kind: fault.Empty})
	out, err := put(client, "good", entries(3))
	if err == nil && len(out.Records) != 0 {
		t.Errorf("%d results", len(out.Records))
	}
	if n := k.Count("good"); n != 0 {
		t.Errorf("%d records written", n)
	}
	mend(t, k, client)
}

func TestFault_trickle_arrivesInTheEnd(t *testing.T) {
	k, client := one(t)
	breakIt(t, k, fault.Fault{Kind: fault.Trickle, By: time.Microsecond})
	out, err := put(client, "good", entries(1))
	if err != nil || len(out.Records) != 1 {
		t.Errorf("%v, %v", out, err)
	}
}

func TestFault_hang_endsWhenMended(t *testing.T) {
	k, client := one(t)
	breakIt(t, k, fault.Fault{Kind: fault.Hang})
	done := make(chan error)
	go func() {
		_, err := put(client, "good", entries(1))
		done <- err
	}()
	if err := k.WaitHits(t.Context(), fault.Hang, 1); err != nil {
		t.Fatal(err)
	}
	if err := k.Mend(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || k.Count("good") != 0 {
		t.Errorf("%d records, error %v, want none and an error", k.Count("good"), err)
	}
}

func TestFault_record_failsItsShareAndAppliesTheRest(t *testing.T) {
	k, client := one(t)
	breakIt(t, k, fault.Fault{Kind: fault.Record, Code: kinesis.Throttled, Share: 0.25})
	out, err := put(client, "good", entries(400))
	if err != nil {
		t.Fatal(err)
	}
	failed := int(*out.FailedRecordCount)
	if failed < 60 || failed > 140 {
		t.Errorf("%d of 400 failed, want about 100", failed)
	}
	if got := k.Count("good"); got != 400-failed || k.Hits(fault.Record) != failed || k.Stats().Throttled != failed {
		t.Errorf("%d written, %d hits, %+v with %d failed", got, k.Hits(fault.Record), k.Stats(), failed)
	}
	for i, r := range out.Records {
		if r.ErrorCode != nil && !strings.Contains(*r.ErrorMessage, "shardId-") {
			t.Errorf("result %d: message %q does not name the shard", i, *r.ErrorMessage)
		}
	}
}

func TestFault_match_strikesOnlyThePoisonRecord(t *testing.T) {
	k, client := one(t)
	breakIt(t, k, fault.Fault{Kind: fault.Error, Code: kinesis.InvalidArgument, Match: "data-3"})
	_, err := put(client, "good", entries(5))
	wantCode(t, err, kinesis.InvalidArgument)
	if _, err := put(client, "good", entries(3)); err != nil {
		t.Errorf("without the poison record: %v", err)
	}
	if err := k.Mend(); err != nil {
		t.Fatal(err)
	}
	breakIt(t, k, fault.Fault{Kind: fault.Record, Code: kinesis.InvalidArgument, MatchFunc: func(data []byte) bool { return string(data) == "data-3" }})
	out, err := put(client, "good", entries(5))
	if err != nil || *out.FailedRecordCount != 1 || *out.Records[3].ErrorCode != kinesis.InvalidArgument {
		t.Errorf("%v, %v", out, err)
	}
}

func TestFault_target_leavesTheOtherStreamAlone(t *testing.T) {
	k, client := one(t)
	breakIt(t, k, fault.Fault{Kind: fault.Error, Code: kinesis.AccessDenied, Target: "bad", Op: "PutRecords"})
	_, err := put(client, "bad", entries(1))
	wantCode(t, err, kinesis.AccessDenied)
	if _, err := put(client, "good", entries(1)); err != nil {
		t.Errorf("the good stream: %v", err)
	}
	if _, err := client.ListShards(t.Context(), &sdk.ListShardsInput{StreamName: aws.String("bad")}); err != nil {
		t.Errorf("another operation: %v", err)
	}
}

func TestFault_skew_refusesUntilTheCallerFollowsTheClock(t *testing.T) {
	for _, by := range []time.Duration{20 * time.Minute, -20 * time.Minute} {
		k, client := one(t)
		breakIt(t, k, fault.Fault{Kind: fault.Skew, By: by})
		_, err := put(client, "good", entries(1))
		wantCode(t, err, kinesis.InvalidSignature)
		if n := k.Count("good"); n != 0 {
			t.Errorf("%d records written", n)
		}
		// The SDK has learned the service's time from the refusal.
		if _, err := put(client, "good", entries(1)); err != nil {
			t.Errorf("the call after the refusal: %v", err)
		}
	}
}

func TestFault_down_keepsThePortAndComesBack(t *testing.T) {
	k, client := one(t)
	addr := k.Addr()
	for range 3 {
		breakIt(t, k, fault.Fault{Kind: fault.Down})
		if _, err := put(client, "good", entries(1)); err == nil {
			t.Error("a call came through while down")
		}
		if conn, err := net.Dial("tcp4", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("while down: %v, %v", conn, err)
		}
		if l, err := net.Listen("tcp4", addr); err == nil {
			l.Close()
			t.Error("another listener could take the port")
		}
		mend(t, k, client)
	}
}

func TestControl_breaksAndMendsOverHTTP(t *testing.T) {
	k, client := one(t)
	control := httptest.NewServer(k.Control())
	defer control.Close()
	do := func(method, path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, control.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := control.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, body := do("POST", "/fault?kind=error&code=ExpiredTokenException&op=PutRecords&target=good&share=1&times=5"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	_, err := put(client, "good", entries(1))
	wantCode(t, err, kinesis.ExpiredToken)
	if _, body := do("GET", "/fault"); !strings.Contains(body, `"times":4`) {
		t.Errorf("faults in force: %s", body)
	}
	if code, _ := do("POST", "/fault?kind=down"); code != 200 {
		t.Errorf("down: %d", code)
	}
	if _, err := put(client, "good", entries(1)); err == nil {
		t.Error("a call came through while down")
	}
	for _, wrong := range []string{"?kind=nonsense", "?kind=error", "?kind=hang&for=1s", "?kind=status&status=7", "?kind=delay&by=5", "?kind=hang&share=2", "?kind=skew"} {
		if code, body := do("POST", "/fault"+wrong); code != 400 || body == "" {
			t.Errorf("%s: %d %s", wrong, code, body)
		}
	}
	if code, body := do("DELETE", "/fault"); code != 200 || !strings.Contains(body, `"faults":[]`) {
		t.Errorf("%d %s", code, body)
	}
	mend(t, k, client)
}

func TestServer_OnCall_holdsTheCall(t *testing.T) {
	calls, release := make(chan kinesis.Call), make(chan struct{})
	k, client := start(t, kinesis.Options{
		Streams: map[string]int{"good": 1},
		OnCall:  func(c kinesis.Call) { calls <- c; <-release },
	})
	done := make(chan error)
	go func() {
		_, err := put(client, "good", entries(3))
		done <- err
	}()
	if got, want := <-calls, (kinesis.Call{Op: "PutRecords", Stream: "good", Records: 3}); got != want {
		t.Errorf("call %+v, want %+v", got, want)
	}
	if n := k.Count("good"); n != 0 {
		t.Errorf("%d records written before the call was released", n)
	}
	close(release)
	if err := <-done; err != nil || k.Count("good") != 3 {
		t.Errorf("%d records, %v", k.Count("good"), err)
	}
}
