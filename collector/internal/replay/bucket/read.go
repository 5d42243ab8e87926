package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"spillway/collector/internal/replay"
)

// piece is how many bytes of an object one call reads. An open object takes that
// much memory.
const piece = 4 << 20

// Open implements replay.Store.
func (s *Store) Open(ctx context.Context, e replay.Entry) (io.ReadCloser, error) {
	return &reader{ctx: ctx, store: s, entry: e}, nil
}

// reader reads an object piece by piece, each whole before it is handed on.
type reader struct {
	ctx   context.Context
	store *Store
	entry replay.Entry
	at    int64 // what has been fetched
	rest  []byte
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.at >= r.entry.Size {
			return 0, io.EOF
		}
		if err := r.fetch(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *reader) fetch() error {
	want := min(piece, r.entry.Size-r.at)
	in := &s3.GetObjectInput{
		Bucket: &r.store.cfg.Bucket, Key: &r.entry.Key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", r.at, r.at+want-1)),
	}
	if r.entry.Version != "" {
		in.IfMatch = &r.entry.Version
	}
	err := r.store.call(r.ctx, "read objects", func(ctx context.Context) error {
		out, err := r.store.client.GetObject(ctx, in)
		if err != nil {
			return err
		}
		defer func() { _ = out.Body.Close() }()
		body, err := io.ReadAll(io.LimitReader(out.Body, want+1))
		if err != nil {
			return err
		}
		if int64(len(body)) != want {
			return fmt.Errorf("the answer has %d bytes instead of %d", len(body), want)
		}
		r.rest = body
		return nil
	})
	switch {
	case errors.Is(err, errMissing):
		return errors.New("the object was deleted meanwhile")
	case errors.Is(err, errRefused):
		return errors.New("the object was replaced meanwhile")
	case err != nil:
		return err
	}
	r.at += want
	return nil
}

// Close implements io.Closer.
func (r *reader) Close() error { return nil }
