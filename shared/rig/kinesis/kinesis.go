// Package kinesis is a stand-in for Amazon Kinesis Data Streams that runs in the
// process: it speaks JSON 1.1 as the AWS SDK does, keeps to the service's limits
// and answers its errors, and can be broken in the ways the service breaks.
//
// The calls it knows: CreateStream, DeleteStream, ListStreams, DescribeStream,
// DescribeStreamSummary, UpdateMaxRecordSize, ListShards, PutRecord, PutRecords
// (also as DryRun), GetShardIterator and GetRecords. Streams are active at once.
// Signatures are not verified, but a call without one is refused.
//
//	k, err := kinesis.Start(kinesis.Options{Streams: map[string]int{"good": 4}})
//	defer k.Close()
//	k.Break(fault.Fault{Kind: fault.Error, Code: "ExpiredTokenException"})
//	...
//	k.Mend()
//	records := k.Records("good")
package kinesis

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"spillway/shared/rig/fault"
)

// Options of a stand-in. The zero value is a working one without streams.
type Options struct {
	Addr    string         // where to listen, an IPv4 host:port; empty: a free port of 127.0.0.1
	Streams map[string]int // streams that exist at the start, with their number of shards

	MaxRecordBytes int64 // largest record, key included, of new streams; 0: 1 MiB
	MaxCallBytes   int64 // largest PutRecords, data and keys; 0: 10 MiB
	ShardRate      Rate  // what a shard takes; zero: anything

	// Compact, if set, says what to keep of a record instead of its data, so
	// that many records need little memory. It may be called concurrently.
	Compact func(data []byte) []byte

	// OnCall, if set, is told of every call before its fault is chosen, and the
	// call waits for it. It may be called concurrently.
	OnCall func(Call)
}

// Rate is what one shard takes; zero fields do not limit.
type Rate struct {
	Records float64 // per second
	Bytes   float64 // per second, data and keys
}

// ServiceRate is what a shard of the real service takes.
func ServiceRate() Rate { return Rate{Records: 1000, Bytes: 1 << 20} }

// Call is one call as OnCall sees it.
type Call struct {
	Op      string // e.g. PutRecords
	Stream  string // may be empty
	Records int    // how many it carries
}

// Record is one stored record.
type Record struct {
	Seq   string // sequence number
	Shard string // id of its shard
	Key   string // partition key
	Data  []byte // its data, or what Options.Compact made of it; must not be changed
	At    time.Time
}

// Stats counts what became of calls and records.
type Stats struct {
	Calls     map[string]int // by operation, failed ones included
	Written   int            // records stored
	Throttled int            // records refused with ProvisionedThroughputExceededException
	Failed    int            // records refused for another reason, one by one
}

// Server is a running stand-in. It is safe for concurrent use.
type Server struct {
	*fault.Board // Break, Mend, Faults, Hits, WaitHits, Control

	options  Options
	listener *fault.Listener

	mu      sync.Mutex
	streams map[string]*stream // guarded by mu, and all that is in them
	rate    Rate               // guarded by mu
	stats   Stats              // guarded by mu
	grown   chan struct{}      // guarded by mu; closed when records arrive, then replaced
}

// Start starts a stand-in.
func Start(o Options) (*Server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.MaxRecordBytes == 0 {
		o.MaxRecordBytes = 1 << 20
	}
	if o.MaxCallBytes == 0 {
		o.MaxCallBytes = 10 << 20
	}
	s := &Server{
		options: o,
		streams: map[string]*stream{},
		rate:    o.ShardRate,
		stats:   Stats{Calls: map[string]int{}},
		grown:   make(chan struct{}),
	}
	s.Board = fault.NewBoard(func(down bool) error {
		if down {
			return s.listener.Down()
		}
		return s.listener.Up()
	})
	for name, shards := range o.Streams {
		if err := s.CreateStream(name, shards); err != nil {
			return nil, err
		}
	}
	var err error
	if s.listener, err = fault.Listen(o.Addr, http.HandlerFunc(s.serve)); err != nil {
		return nil, fmt.Errorf("start kinesis stand-in: %w", err)
	}
	return s, nil
}

// Close stops the stand-in. Its records can still be read from Go.
func (s *Server) Close() error { return s.listener.Close() }

// URL returns the endpoint for the SDK, e.g. http://127.0.0.1:40001. It stays
// the same for the life of the stand-in.
func (s *Server) URL() string { return s.listener.URL() }

// Addr returns host:port of the endpoint.
func (s *Server) Addr() string { return s.listener.Addr() }

// SetShardRate changes what each shard takes, from full buckets.
func (s *Server) SetShardRate(r Rate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rate = r
	for _, st := range s.streams {
		st.limit(r)
	}
}

// CreateStream makes a stream, as the call of that name does.
func (s *Server) CreateStream(name string, shards int) error {
	if _, err := s.createStream(&request{StreamName: name, ShardCount: shards}); err != nil {
		return fmt.Errorf("create stream %s: %w", name, err)
	}
	return nil
}

// DeleteStream removes a stream and its records, as the call of that name does.
func (s *Server) DeleteStream(name string) error {
	if _, err := s.deleteStream(&request{StreamName: name}); err != nil {
		return fmt.Errorf("delete stream %s: %w", name, err)
	}
	return nil
}

// Streams returns the names of the streams, sorted.
func (s *Server) Streams() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.streams))
}

// Records returns what a stream holds, in the order of arrival.
func (s *Server) Records(name string) []Record {
	return slices.AppendSeq(make([]Record, 0, s.Count(name)), s.All(name))
}

// All yields what a stream holds when it is called, in the order of arrival.
func (s *Server) All(name string) iter.Seq[Record] {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[name]
	if st == nil {
		return func(func(Record) bool) {}
	}
	stored := st.records[:len(st.records):len(st.records)] // only ever appended to
	return func(yield func(Record) bool) {
		for i := range stored {
			if !yield(stored[i].export()) {
				return
			}
		}
	}
}

// Count returns how many records a stream holds.
func (s *Server) Count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.streams[name]; st != nil {
		return len(st.records)
	}
	return 0
}

// Wait returns when a stream holds at least n records, or with ctx's error and
// how many there were.
func (s *Server) Wait(ctx context.Context, name string, n int) error {
	for {
		s.mu.Lock()
		grown := s.grown
		s.mu.Unlock()
		if s.Count(name) >= n {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d records in stream %s: have %d: %w", n, name, s.Count(name), ctx.Err())
		}
	}
}

// Stats returns the counts since the start.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Calls = maps.Clone(stats.Calls)
	return stats
}
