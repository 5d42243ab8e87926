// Package rig starts local stand-ins for everything a collector talks to, ready
// for the demo and for end-to-end tests: Kinesis with the streams good and bad,
// S3 with the bucket spillway-fallback, and one control port on which a person
// breaks and mends them with curl:
//
//	curl -X POST   'http://127.0.0.1:4570/kinesis/fault?kind=down'
//	curl -X POST   'http://127.0.0.1:4570/kinesis/fault?kind=record&code=ProvisionedThroughputExceededException&share=0.3'
//	curl -X DELETE 'http://127.0.0.1:4570/kinesis/fault'
//	curl           'http://127.0.0.1:4570/'
//
// The parts stand in packages of their own: kinesis, s3 and their fault; chaos,
// a bad network; proc, real processes and their supervisor; tracker, the load
// and the books.
package rig

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"

	"spillway/shared/rig/fault"
	"spillway/shared/rig/kinesis"
	"spillway/shared/rig/s3"
	"spillway/shared/rig/tracker"
)

// What a rig has unless Options say otherwise.
const (
	GoodStream = "good"
	BadStream  = "bad"
	Shards     = 4 // of each stream
	Bucket     = "spillway-fallback"
	Region     = "us-east-1"
)

// Options of a rig. The zero value starts everything on free ports.
type Options struct {
	Kinesis kinesis.Options // no streams: good and bad, of 4 shards each
	S3      s3.Options      // no buckets: spillway-fallback
	Control string          // where the control port listens; empty: a free port of 127.0.0.1
}

// Rig is a running rig. It is safe for concurrent use.
type Rig struct {
	Kinesis *kinesis.Server
	S3      *s3.Server

	control *fault.Listener
}

// Start starts the stand-ins. They run until Close, or until ctx ends.
func Start(ctx context.Context, o Options) (*Rig, error) {
	if o.Kinesis.Streams == nil {
		o.Kinesis.Streams = map[string]int{GoodStream: Shards, BadStream: Shards}
	}
	if o.S3.Buckets == nil {
		o.S3.Buckets = []string{Bucket}
	}
	if o.Control == "" {
		o.Control = "127.0.0.1:0"
	}
	r := &Rig{}
	var err error
	if r.Kinesis, err = kinesis.Start(o.Kinesis); err != nil {
		return nil, err
	}
	if r.S3, err = s3.Start(o.S3); err != nil {
		return nil, errors.Join(err, r.Kinesis.Close())
	}
	if r.control, err = fault.Listen(o.Control, r.controlHandler()); err != nil {
		return nil, errors.Join(fmt.Errorf("start rig's control port: %w", err), r.Kinesis.Close(), r.S3.Close())
	}
	context.AfterFunc(ctx, func() { r.Close() })
	return r, nil
}

// Close stops the stand-ins. What they hold can still be read from Go.
func (r *Rig) Close() error {
	return errors.Join(r.control.Close(), r.Kinesis.Close(), r.S3.Close())
}

// ControlURL returns the control port's http://host:port.
func (r *Rig) ControlURL() string { return r.control.URL() }

// controlHandler serves the faults of each stand-in under its name and a page
// that says so.
func (r *Rig) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/kinesis/", http.StripPrefix("/kinesis", r.Kinesis.Control()))
	mux.Handle("/s3/", http.StripPrefix("/s3", r.S3.Control()))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, r.page()) })
	return mux
}

func (r *Rig) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kinesis %s\n", r.Kinesis.URL())
	for _, name := range r.Kinesis.Streams() {
		fmt.Fprintf(&b, "  stream %s: %d records\n", name, r.Kinesis.Count(name))
	}
	fmt.Fprintf(&b, "s3 %s\n", r.S3.URL())
	for _, name := range r.S3.Buckets() {
		fmt.Fprintf(&b, "  bucket %s: %d objects\n", name, len(r.S3.Objects(name, "")))
	}
	fmt.Fprintf(&b, "faults\n")
	for _, f := range r.Kinesis.Faults() {
		fmt.Fprintf(&b, "  kinesis: %v\n", f)
	}
	for _, f := range r.S3.Faults() {
		fmt.Fprintf(&b, "  s3: %v\n", f)
	}
	fmt.Fprintf(&b, "break with  curl -X POST   '%s/kinesis/fault?kind=down'\nmend with   curl -X DELETE '%[1]s/kinesis/fault'\nkinds       %v\n",
		r.ControlURL(), fault.Kinds())
	return b.String()
}

// Env returns an environment for a program that uses the rig through the AWS
// SDK: this process's own without anything that steers the SDK, plus endpoints,
// region and dummy credentials.
func (r *Rig) Env() []string {
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	return append(own,
		"AWS_ACCESS_KEY_ID=rig",
		"AWS_SECRET_ACCESS_KEY=rig",
		"AWS_REGION="+Region,
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE="+os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
		"AWS_ENDPOINT_URL_KINESIS="+r.Kinesis.URL(),
		"AWS_ENDPOINT_URL_S3="+r.S3.URL(),
	)
}

// Audit compares a tracker's books with what the stream and the objects under
// the prefix of the bucket hold. An object that cannot be unpacked is an error.
func (r *Rig) Audit(l *tracker.Ledger, stream, bucket, prefix string) (tracker.Report, error) {
	contents, err := r.S3.Contents(bucket, prefix)
	if err != nil {
		return tracker.Report{}, err
	}
	return tracker.Audit(l, data(r.Kinesis.All(stream)), func(yield func([]byte) bool) {
		for _, content := range contents {
			if !yield(content) {
				return
			}
		}
	}), nil
}

func data(records iter.Seq[kinesis.Record]) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for r := range records {
			if !yield(r.Data) {
				return
			}
		}
	}
}
