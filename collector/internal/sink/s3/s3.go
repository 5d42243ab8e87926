// Package s3 writes records to objects in S3, or in a store that speaks like it.
//
// One Write is one PutObject of one object (package archive says what is in it
// and what it is called), which is there as a whole or not at all. Its key
// follows from its content: a Write that is repeated because its answer was lost
// replaces what it wrote before, and no other Write can have the same key. So no
// conditional requests are needed.
//
// What each error means stands in verdict.go. None is the fault of a record.
package s3

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/awsclient"
	"spillway/collector/internal/sink/meter"
)

// probeDir is where Check writes, below the prefix.
const probeDir = "_probe"

// Options are what a Sink needs besides its Config.
type Options struct {
	Lane     sink.Lane
	Instance string                // the collector's name, which stands in keys
	Log      *logrus.Entry         // for what the SDK has to say
	Metrics  prometheus.Registerer // may be nil
}

// Sink writes the objects of one lane. It implements sink.Sink and is safe for
// concurrent use.
type Sink struct {
	cfg      Config
	lane     sink.Lane
	instance string
	client   *s3.Client
	conns    *awsclient.Client
	meter    *meter.Meter
	where    string // the bucket and where it is, for messages
}

var _ sink.Sink = (*Sink)(nil)

// New makes a sink from a valid config. It makes no call: neither the bucket nor
// the network nor the credentials need to be there.
func New(cfg Config, o Options) (*Sink, error) {
	conns, err := awsclient.New(cfg.AWS, cfg.InFlight, o.Log)
	if err != nil {
		return nil, fmt.Errorf("make s3 client: %w", err)
	}
	s := &Sink{
		cfg: cfg, lane: o.Lane, instance: archive.CleanInstance(o.Instance), conns: conns,
		client: NewClient(cfg, conns),
		meter:  meter.New(o.Metrics, "s3", o.Lane),
		where:  "bucket " + cfg.Bucket + " in " + conns.AWS.Region,
	}
	if cfg.AWS.Endpoint != "" {
		s.where += " at " + cfg.AWS.Endpoint
	}
	return s, nil
}

// NewClient returns a client of the SDK for the bucket's service, for whoever
// reads what the sink wrote.
func NewClient(cfg Config, conns *awsclient.Client) *s3.Client {
	return s3.NewFromConfig(conns.AWS, func(o *s3.Options) {
		if cfg.AWS.Endpoint != "" {
			o.BaseEndpoint = &cfg.AWS.Endpoint
		}
		o.UsePathStyle = cfg.PathStyle
		// The checksums that the SDK adds by itself stand behind the body, in a framing
		// that some services store as if it were content. Write gives its own.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		if cfg.Checksums == ChecksumsWhenRequired {
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	})
}

// Write implements sink.Sink: all records go into one object.
func (s *Sink) Write(ctx context.Context, records []sink.Record) []sink.Outcome {
	if len(records) == 0 {
		return nil
	}
	start := time.Now()
	out := sink.AllWritten(len(records))
	if class, err := s.write(ctx, records); err != nil {
		out = sink.Fail(len(records), class, err)
	}
	s.meter.Write(start, records, out)
	return out
}

func (s *Sink) write(ctx context.Context, records []sink.Record) (sink.Class, *sink.Error) {
	object, err := archive.Pack(s.lane, s.instance, records)
	if err != nil {
		return sink.Transient, sink.AsError(err)
	}
	return s.put(ctx, "write objects to "+s.where, object.Name.Key(s.cfg.Prefix), object.Body, object.Metadata())
}

// put makes one PutObject.
func (s *Sink) put(ctx context.Context, doing, key string, body []byte, metadata map[string]string) (sink.Class, *sink.Error) {
	attempt, cancel := context.WithTimeout(ctx, s.cfg.AWS.RequestTimeout)
	defer cancel()
	in := &s3.PutObjectInput{
		Bucket: &s.cfg.Bucket, Key: &key, Body: bytes.NewReader(body), Metadata: metadata,
		ContentType: aws.String(archive.ContentType), StorageClass: types.StorageClass(s.cfg.StorageClass),
	}
	if s.cfg.Checksums == ChecksumsAlways {
		sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(body))
		in.ChecksumCRC32 = aws.String(base64.StdEncoding.EncodeToString(sum))
	}
	s.meter.Call()
	answer, err := s.client.PutObject(attempt, in)
	if err != nil {
		class, e := verdicts.Explain(awsclient.Call{Context: ctx, Timeout: s.cfg.AWS.RequestTimeout, Doing: doing}, err)
		return class, e
	}
	// The SDK takes any 200 for success, also that of a proxy's page.
	if aws.ToString(answer.ETag) == "" {
		return sink.Transient, &sink.Error{Cause: sink.CauseServer, Message: doing + ": the answer names no ETag: what answers may not be the service"}
	}
	return sink.Written, nil
}

// Check implements sink.Sink: it writes a tiny object of this collector, always
// the same, below _probe.
func (s *Sink) Check(ctx context.Context) error {
	key := path.Join(archive.CleanPrefix(s.cfg.Prefix), probeDir, s.instance)
	if _, err := s.put(ctx, "check that objects may be written to "+s.where, key, []byte("spillway\n"), nil); err != nil {
		return err
	}
	return nil
}

// Info implements sink.Sink.
func (s *Sink) Info() sink.Info {
	return sink.Info{Type: "s3", Target: strings.TrimSuffix("s3://"+s.cfg.Bucket+"/"+archive.CleanPrefix(s.cfg.Prefix), "/")}
}

// Limits implements sink.Sink.
func (s *Sink) Limits() sink.Limits {
	return sink.Limits{MaxRecords: s.cfg.MaxRecords, MaxBytes: int64(s.cfg.MaxBytes), Linger: s.cfg.Linger, InFlight: s.cfg.InFlight}
}

// Close implements sink.Sink.
func (s *Sink) Close() error {
	s.conns.Close()
	return nil
}
