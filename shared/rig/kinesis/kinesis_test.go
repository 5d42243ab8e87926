package kinesis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"spillway/shared/rig/kinesis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o kinesis.Options) (*kinesis.Server, *sdk.Client) {
	t.Helper()
	k, err := kinesis.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k, newClient(k)
}

func newClient(k *kinesis.Server) *sdk.Client {
	return sdk.New(sdk.Options{
		BaseEndpoint: aws.String(k.URL()),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("rig", "rig", ""),
		Retryer:      aws.NopRetryer{},
		HTTPClient:   awshttp.NewBuildableClient(),
	})
}

func entries(n int) []types.PutRecordsRequestEntry {
	list := make([]types.PutRecordsRequestEntry, n)
	for i := range list {
		list[i] = types.PutRecordsRequestEntry{PartitionKey: aws.String(fmt.Sprint("key-", i)), Data: fmt.Appendf(nil, "data-%d", i)}
	}
	return list
}

func put(client *sdk.Client, stream string, records []types.PutRecordsRequestEntry) (*sdk.PutRecordsOutput, error) {
	return client.PutRecords(context.Background(), &sdk.PutRecordsInput{StreamName: &stream, Records: records})
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok || api.ErrorCode() != code {
		t.Errorf("error %v, want code %s", err, code)
	}
}

// readAll reads a stream to its end through the SDK, as a consumer does.
func readAll(t *testing.T, client *sdk.Client, stream string) map[string]string {
	t.Helper()
	got := map[string]string{}
	shards, err := client.ListShards(t.Context(), &sdk.ListShardsInput{StreamName: &stream})
	if err != nil {
		t.Fatal(err)
	}
	for _, sh := range shards.Shards {
		it, err := client.GetShardIterator(t.Context(), &sdk.GetShardIteratorInput{
			StreamName: &stream, ShardId: sh.ShardId, ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
		if err != nil {
			t.Fatal(err)
		}
		for next := it.ShardIterator; ; {
			out, err := client.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: next, Limit: aws.Int32(7)})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range out.Records {
				if r.ApproximateArrivalTimestamp.IsZero() {
					t.Errorf("record %s has no arrival time", *r.SequenceNumber)
				}
				got[*r.PartitionKey] = string(r.Data)
			}
			if len(out.Records) == 0 {
				break
			}
			next = out.NextShardIterator
		}
	}
	return got
}

func TestServer_PutRecords_canBeReadBack(t *testing.T) {
	k, client := start(t, kinesis.Options{Streams: map[string]int{"good": 3}})
	out, err := put(client, "good", entries(500))
	if err != nil {
		t.Fatal(err)
	}
	if *out.FailedRecordCount != 0 || len(out.Records) != 500 {
		t.Fatalf("%d results with %d failed, want 500 with none", len(out.Records), *out.FailedRecordCount)
	}
	shards, seqs := map[string]int{}, map[string]bool{}
	for _, r := range out.Records {
		shards[*r.ShardId]++
		seqs[*r.SequenceNumber] = true
	}
	if len(shards) != 3 || len(seqs) != 500 {
		t.Errorf("shards %v and %d sequence numbers, want 3 and 500", shards, len(seqs))
	}
	got := readAll(t, client, "good")
	if len(got) != 500 || got["key-499"] != "data-499" {
		t.Errorf("read back %d records, key-499 = %q", len(got), got["key-499"])
	}
	if records := k.Records("good"); len(records) != 500 || records[7].Key != "key-7" || string(records[7].Data) != "data-7" {
		t.Errorf("Records returned %d records", len(records))
	}
	if err := k.Wait(t.Context(), "good", 500); err != nil {
		t.Error(err)
	}
}

func TestServer_PutRecords_routesAsTheHashRangesSay(t *testing.T) {
	_, client := start(t, kinesis.Options{Streams: map[string]int{"good": 7}})
	list, err := client.ListShards(t.Context(), &sdk.ListShardsInput{StreamName: aws.String("good"), MaxResults: aws.Int32(5)})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := client.ListShards(t.Context(), &sdk.ListShardsInput{NextToken: list.NextToken})
	if err != nil {
		t.Fatal(err)
	}
	shards := append(list.Shards, rest.Shards...)
	if len(shards) != 7 {
		t.Fatalf("%d shards, want 7", len(shards))
	}
	next := big.NewInt(0)
	for _, sh := range shards {
		first, _ := new(big.Int).SetString(*sh.HashKeyRange.StartingHashKey, 10)
		last, _ := new(big.Int).SetString(*sh.HashKeyRange.EndingHashKey, 10)
		if first.Cmp(next) != 0 {
			t.Errorf("%s starts at %s, want %s", *sh.ShardId, first, next)
		}
		next = new(big.Int).Add(last, big.NewInt(1))
		for _, hash := range []string{first.String(), last.String()} {
			out, err := client.PutRecord(t.Context(), &sdk.PutRecordInput{
				StreamName: aws.String("good"), PartitionKey: aws.String("k"), Data: []byte("d"), ExplicitHashKey: &hash})
			if err != nil {
				t.Fatal(err)
			}
			if *out.ShardId != *sh.ShardId {
				t.Errorf("hash key %s went to %s, want %s", hash, *out.ShardId, *sh.ShardId)
			}
		}
	}
	if next.Cmp(new(big.Int).Lsh(big.NewInt(1), 128)) != 0 {
		t.Errorf("the ranges end at %s", next)
	}
}

func TestServer_GetShardIterator_startsWhereAsked(t *testing.T) {
	k, client := start(t, kinesis.Options{Streams: map[string]int{"good": 1}})
	if _, err := put(client, "good", entries(3)); err != nil {
		t.Fatal(err)
	}
	second := k.Records("good")[1]
	for _, c := range []struct {
		from types.ShardIteratorType
		want string
	}{
		{types.ShardIteratorTypeTrimHorizon, "data-0 data-1 data-2"},
		{types.ShardIteratorTypeAtSequenceNumber, "data-1 data-2"},
		{types.ShardIteratorTypeAfterSequenceNumber, "data-2"},
		{types.ShardIteratorTypeLatest, ""},
	} {
		in := &sdk.GetShardIteratorInput{StreamName: aws.String("good"), ShardId: &second.Shard, ShardIteratorType: c.from}
		if strings.Contains(string(c.from), "SEQUENCE") {
			in.StartingSequenceNumber = &second.Seq
		}
		it, err := client.GetShardIterator(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := client.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: it.ShardIterator})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range out.Records {
			got = append(got, string(r.Data))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.from, got, c.want)
		}
	}
}

func TestServer_PutRecords_keepsToTheLimits(t *testing.T) {
	_, client := start(t, kinesis.Options{Streams: map[string]int{"good": 1}})
	record := func(key string, bytes int) types.PutRecordsRequestEntry {
		return types.PutRecordsRequestEntry{PartitionKey: &key, Data: make([]byte, bytes)}
	}
	var elevenMiB []types.PutRecordsRequestEntry
	for range 11 {
		elevenMiB = append(elevenMiB, record("k", 1<<20-1))
	}
	for _, c := range []struct {
		name    string
		records []types.PutRecordsRequestEntry
		code    string
	}{
		{"no records", []types.PutRecordsRequestEntry{}, kinesis.Validation},
		{"501 records", entries(501), kinesis.Validation},
		{"empty key", []types.PutRecordsRequestEntry{record("", 1)}, kinesis.Validation},
		{"long key", []types.PutRecordsRequestEntry{record(strings.Repeat("ü", 257), 1)}, kinesis.Validation},
		{"large data", []types.PutRecordsRequestEntry{record("k", 1<<20+1)}, kinesis.Validation},
		{"data and key too large", []types.PutRecordsRequestEntry{record("k", 1<<20)}, kinesis.InvalidArgument},
		{"large call", elevenMiB, kinesis.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := put(client, "good", c.records)
			wantCode(t, err, c.code)
		})
	}
	if _, err := put(client, "good", append(entries(499), record(strings.Repeat("ü", 256), 1<<20-512))); err != nil {
		t.Errorf("the largest record with the longest key: %v", err)
	}
	_, err := put(client, "missing", entries(1))
	wantCode(t, err, kinesis.NotFound)
}

func TestServer_UpdateMaxRecordSize_raisesTheLimit(t *testing.T) {
	_, client := start(t, kinesis.Options{Streams: map[string]int{"good": 1}})
	sum, err := client.DescribeStreamSummary(t.Context(), &sdk.DescribeStreamSummaryInput{StreamName: aws.String("good")})
	if err != nil {
		t.Fatal(err)
	}
	d := sum.StreamDescriptionSummary
	if *d.MaxRecordSizeInKiB != 1024 || *d.OpenShardCount != 1 || d.StreamStatus != types.StreamStatusActive || d.StreamCreationTimestamp.IsZero() {
		t.Errorf("summary %+v", d)
	}
	if _, err := client.UpdateMaxRecordSize(t.Context(), &sdk.UpdateMaxRecordSizeInput{StreamARN: d.StreamARN, MaxRecordSizeInKiB: aws.Int32(4096)}); err != nil {
		t.Fatal(err)
	}
	big := []types.PutRecordsRequestEntry{{PartitionKey: aws.String("k"), Data: make([]byte, 3<<20)}}
	if _, err := put(client, "good", big); err != nil {
		t.Errorf("3 MiB after the limit was raised to 4 MiB: %v", err)
	}
}

func TestServer_streams_areMadeListedAndDeleted(t *testing.T) {
	_, client := start(t, kinesis.Options{})
	name := aws.String("later")
	if _, err := client.CreateStream(t.Context(), &sdk.CreateStreamInput{StreamName: name, ShardCount: aws.Int32(2)}); err != nil {
		t.Fatal(err)
	}
	_, err := client.CreateStream(t.Context(), &sdk.CreateStreamInput{StreamName: name, ShardCount: aws.Int32(2)})
	wantCode(t, err, "ResourceInUseException")
	list, err := client.ListStreams(t.Context(), nil)
	if err != nil || len(list.StreamNames) != 1 || list.StreamNames[0] != "later" {
		t.Errorf("streams %v, %v", list, err)
	}
	desc, err := client.DescribeStream(t.Context(), &sdk.DescribeStreamInput{StreamName: name, Limit: aws.Int32(1)})
	if err != nil || len(desc.StreamDescription.Shards) != 1 || !*desc.StreamDescription.HasMoreShards {
		t.Errorf("description %v, %v", desc, err)
	}
	if _, err := client.DeleteStream(t.Context(), &sdk.DeleteStreamInput{StreamName: name}); err != nil {
		t.Fatal(err)
	}
	_, err = client.DescribeStreamSummary(t.Context(), &sdk.DescribeStreamSummaryInput{StreamName: name})
	wantCode(t, err, kinesis.NotFound)
}

func TestServer_PutRecords_asDryRunWritesNothing(t *testing.T) {
	k, client := start(t, kinesis.Options{Streams: map[string]int{"good": 1}})
	_, err := client.PutRecords(t.Context(), &sdk.PutRecordsInput{StreamName: aws.String("good"), Records: entries(2), DryRun: aws.Bool(true)})
	if _, ok := errors.AsType[*types.DryRunOperationException](err); !ok {
		t.Errorf("error %v, want DryRunOperationException", err)
	}
	if n := k.Count("good"); n != 0 {
		t.Errorf("%d records written", n)
	}
}

func TestServer_shardRate_throttlesWhatIsOver(t *testing.T) {
	k, client := start(t, kinesis.Options{Streams: map[string]int{"good": 1}, ShardRate: kinesis.Rate{Records: 100}})
	var throttled int32
	for range 4 { // 2000 records, which are 20 seconds' worth
		out, err := put(client, "good", entries(500))
		if err != nil {
			t.Fatal(err)
		}
		throttled += *out.FailedRecordCount
		for _, r := range out.Records {
			if r.ErrorCode != nil && *r.ErrorCode != kinesis.Throttled || (r.ErrorCode == nil) == (r.SequenceNumber == nil) {
				t.Fatalf("result %+v", r)
			}
		}
	}
	if throttled == 0 || k.Count("good")+int(throttled) != 2000 || k.Stats().Throttled != int(throttled) {
		t.Errorf("%d throttled, %d stored, %+v", throttled, k.Count("good"), k.Stats())
	}
	k.SetShardRate(kinesis.Rate{Bytes: 1 << 20})
	large := entries(20)
	for i := range large {
		large[i].Data = bytes.Repeat([]byte("x"), 1<<18)
	}
	out, err := put(client, "good", large)
	if err != nil || *out.FailedRecordCount == 0 || *out.FailedRecordCount == 20 {
		t.Errorf("5 MiB into a shard of 1 MiB/s: %v, %v", out, err)
	}
}

func TestServer_Compact_keepsWhatTheCallbackSays(t *testing.T) {
	k, client := start(t, kinesis.Options{
		Streams: map[string]int{"good": 2},
		Compact: func(data []byte) []byte { return bytes.TrimPrefix(data, []byte("data-")) },
	})
	if _, err := put(client, "good", entries(3)); err != nil {
		t.Fatal(err)
	}
	if got := string(k.Records("good")[2].Data); got != "2" {
		t.Errorf("kept %q, want 2", got)
	}
}

func TestServer_unsignedCall_isRefused(t *testing.T) {
	k, _ := start(t, kinesis.Options{})
	req, err := http.NewRequestWithContext(t.Context(), "POST", k.URL(), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Target", "Kinesis_20131202.ListStreams")
	resp, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 400 || !strings.Contains(string(body), "MissingAuthenticationTokenException") {
		t.Errorf("%d %s, %v", resp.StatusCode, body, err)
	}
}
