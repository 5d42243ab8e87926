// Package kinesis writes records to a stream of Kinesis Data Streams.
//
// One Write is one PutRecords. The service says of each record by itself what
// became of it, and so does the Write: only a sequence number counts as written.
//
// The service also refuses a whole call for the sake of one record. Then the
// call is halved until the record is found (put.go), so that the others go. That
// record is Permanent only once the stream has taken another one after refusing
// it: as long as nothing is taken, the fault may lie with the stream, and a fault
// of the stream must never cost a record.
//
// With Config.Aggregate many records travel as one and share what becomes of it
// (aggregate.go).
//
// What each error means stands in verdict.go.
package kinesis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/awsclient"
	"spillway/collector/internal/sink/meter"
)

// Options are what a Sink needs besides its Config.
type Options struct {
	Lane    sink.Lane             // decides which of the two streams
	Log     *logrus.Entry         // for what the SDK has to say
	Metrics prometheus.Registerer // may be nil
}

// Sink writes to one stream. It implements sink.Sink and is safe for concurrent
// use.
type Sink struct {
	cfg    Config
	stream string
	client *kinesis.Client
	conns  *awsclient.Client
	log    *logrus.Entry
	meter  *meter.Meter
	where  string // the stream and where it is, for messages

	dryRunIgnored atomic.Bool // the endpoint has stored the record of a dry run

	mu      sync.Mutex
	shards  map[string]time.Time // guarded by mu; when each last took a record
	takenAt time.Time            // guarded by mu; when the stream last took a record
	refused map[uint64]time.Time // guarded by mu; records refused by themselves, since when
}

var _ sink.Sink = (*Sink)(nil)

// New makes a sink from a valid config. It makes no call: neither the stream nor
// the network nor the credentials need to be there.
func New(cfg Config, o Options) (*Sink, error) {
	conns, err := awsclient.New(cfg.AWS, cfg.InFlight, o.Log)
	if err != nil {
		return nil, fmt.Errorf("make kinesis client: %w", err)
	}
	s := &Sink{
		cfg: cfg, stream: cfg.stream(o.Lane), conns: conns, log: o.Log,
		meter:   meter.New(o.Metrics, "kinesis", o.Lane),
		shards:  map[string]time.Time{},
		refused: map[uint64]time.Time{},
	}
	s.client = kinesis.NewFromConfig(conns.AWS, func(k *kinesis.Options) {
		if cfg.AWS.Endpoint != "" {
			k.BaseEndpoint = &cfg.AWS.Endpoint
		}
	})
	s.where = "stream " + s.stream + " in " + conns.AWS.Region
	if cfg.AWS.Endpoint != "" {
		s.where += " at " + cfg.AWS.Endpoint
	}
	return s, nil
}

// Write implements sink.Sink. It copies what it sends.
func (s *Sink) Write(ctx context.Context, records []sink.Record) []sink.Outcome {
	start := time.Now()
	w := &write{sink: s, ctx: ctx, records: records, out: make([]sink.Outcome, len(records)), calls: maxCalls}
	fit := make([]int, 0, len(records))
	for i, r := range records {
		if err := s.unfit(r); err != nil {
			w.out[i] = sink.Outcome{Class: sink.Permanent, Err: err}
			continue
		}
		fit = append(fit, i)
	}
	if s.cfg.Aggregate {
		w.putAll(aggregate(records, fit, min(aggregateBytes, int(s.cfg.MaxRecordBytes))))
		fit = w.apart
	}
	w.putAll(plain(records, fit))
	w.resolve()
	s.meter.Write(start, records, w.out)
	return w.out
}

// unfit says why a record can never be written, if so.
func (s *Sink) unfit(r sink.Record) *sink.Error {
	if most := int64(s.cfg.MaxRecordBytes); r.Size() > most {
		return &sink.Error{Cause: sink.CauseRecord, Code: "TooLarge",
			Message: fmt.Sprintf("the record is %d bytes with its key, %s takes %d", r.Size(), s.where, most)}
	}
	if n := strings.Count(r.Key, "") - 1; n < 1 || n > mostKeyRunes {
		return &sink.Error{Cause: sink.CauseRecord, Code: "PartitionKey",
			Message: fmt.Sprintf("the partition key has %d characters, %s takes 1 to %d", n, s.where, mostKeyRunes)}
	}
	return nil
}

// cut returns how many of the parcels go into one call: all, but for a caller that
// does not keep to Limits.
func (s *Sink) cut(parcels []parcel) int {
	var bytes int64
	for n := range parcels {
		bytes += parcels[n].size()
		if n == s.cfg.MaxRecords || n > 0 && bytes > int64(s.cfg.MaxBytes) {
			return n
		}
	}
	return len(parcels)
}

// Info implements sink.Sink.
func (s *Sink) Info() sink.Info { return sink.Info{Type: "kinesis", Target: s.stream} }

// Limits implements sink.Sink.
func (s *Sink) Limits() sink.Limits {
	most, bytes := s.cfg.MaxRecords, int64(s.cfg.MaxBytes)
	if s.cfg.Aggregate { // many records are one to the service, and get a little larger
		most, bytes = most*aggregated, bytes/10*9
	}
	return sink.Limits{
		MaxRecords: most, MaxBytes: bytes, MaxRecordBytes: int64(s.cfg.MaxRecordBytes),
		Linger: s.cfg.Linger, InFlight: s.cfg.InFlight,
	}
}

// ShardsTouched returns how many shards of the stream took a record since then.
func (s *Sink) ShardsTouched(since time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, at := range s.shards {
		if !at.Before(since) {
			n++
		}
	}
	return n
}

// Close implements sink.Sink.
func (s *Sink) Close() error {
	s.conns.Close()
	return nil
}
