// Package bucket keeps replay's objects and marks in S3, or in a store that
// speaks like it.
//
// That no two replayers work on one object rests on conditional writes: a claim
// is made with If-None-Match and changed with If-Match (claim.go), and a store
// that takes such writes for plain ones is found out before anything is replayed
// (conditions.go). Objects are read in pieces, so that each call is short and a
// connection that breaks costs one piece (read.go).
package bucket

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/sirupsen/logrus"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/replay"
	"spillway/collector/internal/sink/awsclient"
	s3sink "spillway/collector/internal/sink/s3"
)

// connections is how many calls there are at a time at most.
const connections = 16

// Options of a Store.
type Options struct {
	Log *logrus.Entry
	// Owner names this replayer, as replay.Owner does.
	Owner string
	// ExpireAfter is how long another replayer's claim must have been seen
	// unchanged, on this host's own clock, before its owner counts as dead. Default
	// 1m. All replayers of a bucket should be given the same.
	ExpireAfter time.Duration
	// Single promises that no other replayer works below the place: claims are
	// taken as they are found, and no write is conditional.
	Single bool
}

// Store implements replay.Store.
type Store struct {
	cfg    s3sink.Config
	o      Options
	place  string
	client *s3.Client
	conns  *awsclient.Client

	mu       sync.Mutex // guards what follows
	sighting map[string]sighting
	trouble  string // what calls fail with, as it was logged; empty when they do not
	toldAt   time.Time
	failedAt time.Time
	failures int // since trouble began
}

// sighting is a claim of another replayer as it was first seen to be.
type sighting struct {
	etag    string
	firstAt time.Time
}

// Open returns the store of the config's bucket, for what is below its prefix. It
// makes no call.
func Open(cfg s3sink.Config, o Options) (*Store, error) {
	if o.ExpireAfter == 0 {
		o.ExpireAfter = time.Minute
	}
	conns, err := awsclient.New(cfg.AWS, connections, o.Log)
	if err != nil {
		return nil, fmt.Errorf("make s3 client: %w", err)
	}
	s := &Store{cfg: cfg, o: o, client: s3sink.NewClient(cfg, conns), conns: conns, sighting: map[string]sighting{}}
	if s.place = archive.CleanPrefix(cfg.Prefix); s.place != "" {
		s.place += "/"
	}
	return s, nil
}

// Close closes connections.
func (s *Store) Close() { s.conns.Close() }

// Place implements replay.Store.
func (s *Store) Place() string { return s.place }

// List implements replay.Store.
func (s *Store) List(ctx context.Context, place string, visit func(replay.Entry) error) error {
	in := &s3.ListObjectsV2Input{Bucket: &s.cfg.Bucket, Prefix: &place}
	for {
		var page *s3.ListObjectsV2Output
		if err := s.call(ctx, "list objects", func(ctx context.Context) (err error) {
			page, err = s.client.ListObjectsV2(ctx, in)
			return err
		}); err != nil {
			return err
		}
		for _, o := range page.Contents {
			e := replay.Entry{Key: aws.ToString(o.Key), Size: aws.ToInt64(o.Size), Version: aws.ToString(o.ETag)}
			if err := visit(e); err != nil {
				return err
			}
		}
		if !aws.ToBool(page.IsTruncated) || aws.ToString(page.NextContinuationToken) == "" {
			return nil
		}
		in.ContinuationToken = page.NextContinuationToken
	}
}

// ReadMark implements replay.Store.
func (s *Store) ReadMark(ctx context.Context, key string) (replay.Mark, error) {
	body, _, err := s.get(ctx, key)
	if err != nil {
		return replay.Mark{}, err
	}
	return replay.DecodeMark(body)
}

// Delete implements replay.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.call(ctx, "delete objects", func(ctx context.Context) error {
		_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
		return err
	})
	if errors.Is(err, errMissing) {
		return nil
	}
	return err
}
