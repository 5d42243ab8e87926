package rig_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"go.uber.org/goleak"

	"spillway/shared/rig"
	"spillway/shared/rig/tracker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is a collector in one function: it writes each request's body to Kinesis
// or, if told so, to S3, and answers 200 only then.
func sink(t *testing.T, r *rig.Rig, fallback *bool) string {
	t.Helper()
	for _, v := range r.Env() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, value)
		}
	}
	t.Setenv("AWS_CA_BUNDLE", "") // as in Env, where it is absent
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithHTTPClient(awshttp.NewBuildableClient()), config.WithRetryMaxAttempts(1))
	if err != nil {
		t.Fatal(err)
	}
	stream, objects := kinesis.NewFromConfig(cfg), s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	write := func(body []byte) error {
		name, key := rig.GoodStream, string(body[len(body)/2:][:8])
		if !*fallback {
			_, err := stream.PutRecords(context.Background(), &kinesis.PutRecordsInput{StreamName: &name, Records: []types.PutRecordsRequestEntry{{Data: body, PartitionKey: &key}}})
			return err
		}
		var packed bytes.Buffer
		zw := gzip.NewWriter(&packed)
		zw.Write(body)
		if err := zw.Close(); err != nil {
			return err
		}
		bucket, object := rig.Bucket, "good/"+tracker.IDs(body)[0]+".gz"
		_, err := objects.PutObject(context.Background(), &s3.PutObjectInput{Bucket: &bucket, Key: &object, Body: bytes.NewReader(packed.Bytes())})
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil {
			err = write(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestRig_auditFindsEverythingInKinesisAndS3(t *testing.T) {
	r, err := rig.Start(t.Context(), rig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var fallback bool
	url := sink(t, r, &fallback)
	tr, err := tracker.New(tracker.Config{URL: url, Events: 30})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := curl(t, "POST", r.ControlURL()+"/kinesis/fault?kind=down"); err != nil {
		t.Fatal(err)
	}
	if page, err := curl(t, "GET", r.ControlURL()+"/"); err != nil || !strings.Contains(page, "stream good: 30 records") || !strings.Contains(page, "kinesis: kind=down") {
		t.Errorf("%v, page %s", err, page)
	}
	during, err := tracker.New(tracker.Config{URL: url, Events: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := during.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := during.Ledger().Counts(); c.Acked != 0 || c.Refused != 10 {
		t.Errorf("while Kinesis is down: %v", c)
	}
	fallback = true
	if err := during.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ledger        *tracker.Ledger
		inKinesis, s3 int
	}{{tr.Ledger(), 30, 0}, {during.Ledger(), 0, 10}} {
		report, err := r.Audit(c.ledger, rig.GoodStream, rig.Bucket, "good/")
		if err != nil || report.InKinesis != c.inKinesis || report.InS3 != c.s3 || len(report.Lost) != 0 || report.Duplicates() != 0 {
			t.Errorf("%v, %v", report, err)
		}
	}
}

func TestRig_endsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := rig.Start(ctx, rig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := r.Close(); err != nil { // waits for the closing that cancel began
		t.Error(err)
	}
	if _, err := curl(t, "GET", r.ControlURL()); err == nil {
		t.Error("the control port still answers")
	}
}

func TestRig_Env_holdsNothingElseThatSteersTheSDK(t *testing.T) {
	t.Setenv("AWS_CA_BUNDLE", "/some/file")
	t.Setenv("AWS_PROFILE", "real")
	r, err := rig.Start(t.Context(), rig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, v := range r.Env() {
		if strings.HasPrefix(v, "AWS_CA_BUNDLE=") || strings.HasPrefix(v, "AWS_PROFILE=") {
			t.Errorf("environment holds %s", v)
		}
	}
	if !slices.Contains(r.Env(), "AWS_ENDPOINT_URL_KINESIS="+r.Kinesis.URL()) {
		t.Error("environment lacks the Kinesis endpoint")
	}
}

func curl(t *testing.T, method, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = errors.New(resp.Status + ": " + string(body))
	}
	return string(body), err
}
