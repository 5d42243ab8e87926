// Package s3 is a stand-in for Amazon S3 that runs in the process: a complete
// object store in memory, with faults in front of it that break it in the ways
// the service breaks. Clients address it path style.
//
//	store, err := s3.Start(s3.Options{Buckets: []string{"spillway-fallback"}})
//	defer store.Close()
//	store.Break(fault.Fault{Kind: fault.Error, Code: s3.SlowDown, Times: 3})
//	...
//	for _, o := range store.Objects("spillway-fallback", "good/") {
//		content, err := store.Content(o.Bucket, o.Key)
//	}
package s3

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"spillway/shared/rig/fault"
)

// Options of a stand-in. The zero value is a working one without buckets.
type Options struct {
	Addr    string   // where to listen, an IPv4 host:port; empty: a free port of 127.0.0.1
	Buckets []string // buckets that exist at the start; a name has at least 3 letters

	// OnCall, if set, is told of every call before its fault is chosen, and the
	// call waits for it. It may be called concurrently.
	OnCall func(Call)
}

// Call is one call as OnCall sees it.
type Call struct {
	Op     string // e.g. PutObject
	Bucket string
	Key    string
}

// Object describes one stored object.
type Object struct {
	Bucket     string
	Key        string
	SizeBytes  int64
	ModifiedAt time.Time
	Metadata   map[string]string // what the client gave as x-amz-meta-*, with names in lower case
}

// Server is a running stand-in. It is safe for concurrent use.
type Server struct {
	*fault.Board // Break, Mend, Faults, Hits, WaitHits, Control

	options  Options
	listener *fault.Listener
	backend  *s3mem.Backend
	service  http.Handler

	mu      sync.Mutex
	calls   map[string]int // guarded by mu; by operation
	changed chan struct{}  // guarded by mu; closed when a call was applied, then replaced
}

// Start starts a stand-in.
func Start(o Options) (*Server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	s := &Server{options: o, backend: s3mem.New(), calls: map[string]int{}, changed: make(chan struct{})}
	s.service = gofakes3.New(s.backend, gofakes3.WithTimeSkewLimit(0)).Server() // clocks are the Skew fault's matter
	s.Board = fault.NewBoard(func(down bool) error {
		if down {
			return s.listener.Down()
		}
		return s.listener.Up()
	}, fault.Record)
	for _, name := range o.Buckets {
		if err := s.CreateBucket(name); err != nil {
			return nil, err
		}
	}
	var err error
	if s.listener, err = fault.Listen(o.Addr, http.HandlerFunc(s.serve)); err != nil {
		return nil, fmt.Errorf("start s3 stand-in: %w", err)
	}
	return s, nil
}

// Close stops the stand-in. Its objects can still be read from Go.
func (s *Server) Close() error { return s.listener.Close() }

// URL returns the endpoint for the SDK. It stays the same for the life of the
// stand-in.
func (s *Server) URL() string { return s.listener.URL() }

// Addr returns host:port of the endpoint.
func (s *Server) Addr() string { return s.listener.Addr() }

// CreateBucket makes an empty bucket.
func (s *Server) CreateBucket(name string) error {
	if err := gofakes3.ValidateBucketName(name); err != nil {
		return fmt.Errorf("create bucket %s: %w", name, err)
	}
	if err := s.backend.CreateBucket(name); err != nil {
		return fmt.Errorf("create bucket %s: %w", name, err)
	}
	return nil
}

// DeleteBucket removes a bucket and all it holds.
func (s *Server) DeleteBucket(name string) error {
	if err := s.backend.ForceDeleteBucket(name); err != nil {
		return fmt.Errorf("delete bucket %s: %w", name, err)
	}
	return nil
}

// Buckets returns the names of the buckets, sorted.
func (s *Server) Buckets() []string {
	list, err := s.backend.ListBuckets()
	if err != nil {
		return nil // cannot happen in memory
	}
	var names []string
	for _, b := range list {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return names
}

// Objects lists the objects of a bucket whose keys begin with prefix, by key. A
// bucket that does not exist has none.
func (s *Server) Objects(bucket, prefix string) []Object {
	list, err := s.backend.ListBucket(bucket, &gofakes3.Prefix{HasPrefix: prefix != "", Prefix: prefix}, gofakes3.ListBucketPage{})
	if err != nil {
		return nil
	}
	var objects []Object
	for _, c := range list.Contents {
		o, err := s.backend.HeadObject(bucket, c.Key)
		if err != nil {
			continue // deleted meanwhile
		}
		objects = append(objects, Object{Bucket: bucket, Key: c.Key, SizeBytes: c.Size, ModifiedAt: c.LastModified.Time, Metadata: userMetadata(o.Metadata)})
	}
	return objects
}

func userMetadata(all map[string]string) map[string]string {
	own := map[string]string{}
	for name, value := range all {
		if name, ok := strings.CutPrefix(strings.ToLower(name), "x-amz-meta-"); ok {
			own[name] = value
		}
	}
	return own
}

// Body returns an object's bytes as they were stored.
func (s *Server) Body(bucket, key string) ([]byte, error) {
	o, err := s.backend.GetObject(bucket, key, nil)
	if err != nil {
		return nil, fmt.Errorf("read object %s/%s: %w", bucket, key, err)
	}
	defer o.Contents.Close()
	body, err := io.ReadAll(o.Contents)
	if err != nil {
		return nil, fmt.Errorf("read object %s/%s: %w", bucket, key, err)
	}
	return body, nil
}

// Content returns an object's bytes, unpacked if its key ends with .gz.
func (s *Server) Content(bucket, key string) ([]byte, error) {
	body, err := s.Body(bucket, key)
	if err != nil || !strings.HasSuffix(key, ".gz") {
		return body, err
	}
	packed, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("unpack object %s/%s: %w", bucket, key, err)
	}
	content, err := io.ReadAll(packed)
	if err = errors.Join(err, packed.Close()); err != nil {
		return nil, fmt.Errorf("unpack object %s/%s: %w", bucket, key, err)
	}
	return content, nil
}

// Contents returns the content of every object under the prefix, by key.
func (s *Server) Contents(bucket, prefix string) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, o := range s.Objects(bucket, prefix) {
		content, err := s.Content(bucket, o.Key)
		if err != nil {
			return nil, err
		}
		all[o.Key] = content
	}
	return all, nil
}

// Wait returns when a bucket holds at least n objects under the prefix, or with
// ctx's error and how many there were.
func (s *Server) Wait(ctx context.Context, bucket, prefix string, n int) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		have := len(s.Objects(bucket, prefix))
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d objects under %s/%s: have %d: %w", n, bucket, prefix, have, ctx.Err())
		}
	}
}

// Calls returns how many calls there were, by operation, failed ones included.
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}
