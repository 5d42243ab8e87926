package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"spillway/collector/internal/replay"
)

// largestMark bounds what is read as a mark.
const largestMark = 1 << 20

// condition says when a write is done.
type condition struct {
	absent bool   // only if the key does not exist
	etag   string // only if the key has this version
}

// put writes a mark and returns its version. With a condition it returns
// errRefused when that does not hold.
func (s *Store) put(ctx context.Context, key string, body []byte, c condition) (etag string, err error) {
	in := &s3.PutObjectInput{Bucket: &s.cfg.Bucket, Key: &key, Body: bytes.NewReader(body), ContentType: aws.String("application/json")}
	if c.absent {
		in.IfNoneMatch = aws.String("*")
	}
	if c.etag != "" {
		in.IfMatch = &c.etag
	}
	err = s.call(ctx, "write marks", func(ctx context.Context) error {
		in.Body = bytes.NewReader(body)
		out, err := s.client.PutObject(ctx, in)
		if err != nil {
			return err
		}
		etag = aws.ToString(out.ETag)
		if etag == "" {
			return errors.New("the answer names no ETag: what answers may not be the service")
		}
		return nil
	})
	if errors.Is(err, errMissing) { // If-Match on a key that is gone
		return "", errRefused
	}
	return etag, err
}

// get reads a mark and its version. The error wraps replay.ErrNoMark where there
// is none.
func (s *Store) get(ctx context.Context, key string) (body []byte, etag string, err error) {
	err = s.call(ctx, "read marks", func(ctx context.Context) error {
		out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
		if err != nil {
			return err
		}
		defer func() { _ = out.Body.Close() }()
		etag = aws.ToString(out.ETag)
		body, err = io.ReadAll(io.LimitReader(out.Body, largestMark))
		return err
	})
	if errors.Is(err, errMissing) {
		return nil, "", fmt.Errorf("%s: %w", key, replay.ErrNoMark)
	}
	return body, etag, err
}

// exists says whether there is an object of this key.
func (s *Store) exists(ctx context.Context, key string) (bool, error) {
	err := s.call(ctx, "read marks", func(ctx context.Context) error {
		_, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
		return err
	})
	if errors.Is(err, errMissing) {
		return false, nil
	}
	return err == nil, err
}
