package s3_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"spillway/shared/rig/fault"
	"spillway/shared/rig/s3"
)

const bucket = "spillway-fallback"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) (*s3.Server, *sdk.Client) {
	t.Helper()
	store, err := s3.Start(s3.Options{Buckets: []string{bucket}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store, sdk.New(sdk.Options{
		BaseEndpoint: aws.String(store.URL()),
		UsePathStyle: true,
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("rig", "rig", ""),
		Retryer:      aws.NopRetryer{},
		HTTPClient:   awshttp.NewBuildableClient(),
	})
}

func put(ctx context.Context, client *sdk.Client, key, body string) error {
	_, err := client.PutObject(ctx, &sdk.PutObjectInput{
		Bucket: aws.String(bucket), Key: &key, Body: strings.NewReader(body), Metadata: map[string]string{"count": "3"}})
	return err
}

func mend(t *testing.T, store *s3.Server, client *sdk.Client) {
	t.Helper()
	if err := store.Mend(); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), client, "after", "mended"); err != nil {
		t.Errorf("after mending: %v", err)
	}
}

func TestServer_objects_canBeInspected(t *testing.T) {
	store, client := start(t)
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	io.WriteString(zw, "one line\n")
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), client, "good/a.ndjson.gz", packed.String()); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), client, "bad/b.txt", "plain"); err != nil {
		t.Fatal(err)
	}
	if err := store.Wait(t.Context(), bucket, "", 2); err != nil {
		t.Fatal(err)
	}
	objects := store.Objects(bucket, "good/")
	if len(objects) != 1 || objects[0].Key != "good/a.ndjson.gz" || objects[0].SizeBytes != int64(packed.Len()) {
		t.Fatalf("objects %+v", objects)
	}
	if diff := cmp.Diff(map[string]string{"count": "3"}, objects[0].Metadata); diff != "" {
		t.Error(diff)
	}
	body, err := store.Body(bucket, "good/a.ndjson.gz")
	if err != nil || !bytes.Equal(body, packed.Bytes()) {
		t.Errorf("body %q, %v", body, err)
	}
	contents, err := store.Contents(bucket, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]byte{"good/a.ndjson.gz": []byte("one line\n"), "bad/b.txt": []byte("plain")}, contents); diff != "" {
		t.Error(diff)
	}
	if n := store.Calls()["PutObject"]; n != 2 {
		t.Errorf("%d calls of PutObject, want 2", n)
	}
}

func TestServer_conditionalPut_isRefusedWhenTheKeyExists(t *testing.T) {
	_, client := start(t)
	in := func() *sdk.PutObjectInput {
		return &sdk.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String("claim"), Body: strings.NewReader("x"), IfNoneMatch: aws.String("*")}
	}
	if _, err := client.PutObject(t.Context(), in()); err != nil {
		t.Fatal(err)
	}
	_, err := client.PutObject(t.Context(), in())
	if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != s3.PreconditionFailed {
		t.Errorf("second claim: %v", err)
	}
}

func TestServer_DeleteBucket_takesTheObjectsAlong(t *testing.T) {
	store, client := start(t)
	if err := put(t.Context(), client, "k", "v"); err != nil {
		t.Fatal(err)
	}
	if err := store.DeleteBucket(bucket); err != nil {
		t.Fatal(err)
	}
	err := put(t.Context(), client, "k", "v")
	if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != s3.NoSuchBucket {
		t.Errorf("put into a deleted bucket: %v", err)
	}
	if objects := store.Objects(bucket, ""); objects != nil {
		t.Errorf("objects %v", objects)
	}
	if err := store.CreateBucket("ab"); err == nil {
		t.Error("a bucket with a name of two letters was made")
	}
}

func TestServer_unsignedCall_isRefused(t *testing.T) {
	store, _ := start(t)
	req, err := http.NewRequestWithContext(t.Context(), "PUT", store.URL()+"/"+bucket+"/k", strings.NewReader("v"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 403 || len(store.Objects(bucket, "")) != 0 {
		t.Errorf("status %d, objects %v", resp.StatusCode, store.Objects(bucket, ""))
	}
}

func TestFault_errorCodes_reachTheSDK(t *testing.T) {
	store, client := start(t)
	for code, status := range map[string]int{
		s3.SlowDown: 503, s3.InternalError: 500, s3.ServiceUnavailable: 503, s3.AccessDenied: 403, s3.NoSuchBucket: 404,
		s3.InvalidAccessKey: 403, s3.SignatureMismatch: 403, s3.ExpiredToken: 400, s3.PermanentRedirect: 301,
		s3.WrongRegion: 400, s3.RequestTimeout: 400, s3.Conflict: 409, s3.PreconditionFailed: 412, s3.KMSDisabled: 400,
	} {
		t.Run(code, func(t *testing.T) {
			if err := store.Break(fault.Fault{Kind: fault.Error, Code: code, Op: "PutObject", Target: bucket}); err != nil {
				t.Fatal(err)
			}
			err := put(t.Context(), client, "k", strings.Repeat("x", 1<<20))
			api, ok := errors.AsType[smithy.APIError](err)
			if !ok || api.ErrorCode() != code || api.ErrorMessage() == "" {
				t.Errorf("error %v, want code %s", err, code)
			}
			if resp, ok := errors.AsType[*awshttp.ResponseError](err); !ok || resp.HTTPStatusCode() != status {
				t.Errorf("error %v, want HTTP %d", err, status)
			}
			if n := len(store.Objects(bucket, "k")); n != 0 {
				t.Errorf("%d objects stored", n)
			}
			mend(t, store, client)
		})
	}
}

func TestFault_wireKinds_seenThroughTheSDK(t *testing.T) {
	failed := func(err error) bool { return err != nil }
	noAnswer := func(err error) bool { // reset, end of file or broken pipe, as the moment will have it
		resp, ok := errors.AsType[*awshttp.ResponseError](err)
		return err != nil && (!ok || resp.HTTPStatusCode() == 0)
	}
	for _, c := range []struct {
		fault  fault.Fault
		seen   func(error) bool // nil: nothing, until the caller gives up
		stored int
	}{
		{fault.Fault{Kind: fault.Down}, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }, 0},
		{fault.Fault{Kind: fault.Hang}, nil, 0},
		{fault.Fault{Kind: fault.HangApplied}, nil, 1},
		{fault.Fault{Kind: fault.Reset}, noAnswer, 0},
		{fault.Fault{Kind: fault.Lost}, noAnswer, 1},
		{fault.Fault{Kind: fault.Delay, By: time.Hour}, nil, 0},
		{fault.Fault{Kind: fault.Delay, By: time.Millisecond}, func(err error) bool { return err == nil }, 1},
		{fault.Fault{Kind: fault.Status, Status: 500}, failed, 0},
		{fault.Fault{Kind: fault.Skew, By: time.Hour}, failed, 0},
	} {
		t.Run(string(c.fault.Kind), func(t *testing.T) {
			store, client := start(t)
			if err := store.Break(c.fault); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error)
			go func() { result <- put(ctx, client, "k", "body") }()
			if c.seen == nil {
				if err := errors.Join(store.WaitHits(ctx, c.fault.Kind, 1), store.Wait(ctx, bucket, "k", c.stored)); err != nil {
					t.Fatal(err)
				}
				cancel()
				if err := <-result; !errors.Is(err, context.Canceled) {
					t.Errorf("the caller gave up and saw %v", err)
				}
			} else if err := <-result; !c.seen(err) {
				t.Errorf("the caller saw %v", err)
			}
			if n := len(store.Objects(bucket, "k")); n != c.stored {
				t.Errorf("%d objects stored, want %d", n, c.stored)
			}
			mend(t, store, client)
		})
	}
}

func TestFault_record_isNotPossible(t *testing.T) {
	store, _ := start(t)
	if err := store.Break(fault.Fault{Kind: fault.Record, Code: s3.SlowDown}); err == nil {
		t.Error("a store without records took a fault of single records")
	}
}
