package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"spillway/collector/internal/sink"
)

// maxLineBytes is the longest line that is read: a record of 10 MiB in which
// every byte must be escaped, with room.
const maxLineBytes = 80 << 20

// ErrTruncated is in the chain of the error that Next returns where an object
// ends too early.
var ErrTruncated = errors.New("the object is cut off")

// ErrCorrupt is in the chain of the error that Next returns where an object is
// not gzip, or its content is not what its checksum says.
var ErrCorrupt = errors.New("the object is damaged")

// LineError says that one line is damaged. The lines behind it can be read.
type LineError struct {
	Line int // counted from 1
	Err  error
}

// Error names the line.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong with the line.
func (e *LineError) Unwrap() error { return e.Err }

// Reader reads the records of one object. It holds one line in memory. It is
// not safe for concurrent use.
type Reader struct {
	lane sink.Lane
	raw  io.Reader
	in   *bufio.Reader // nil until the first Next
	sum  hash.Hash
	line int
	long []byte // a line that did not fit in's buffer
	err  error  // final
}

// NewReader returns a reader of an object of this lane, as it is stored.
func NewReader(lane sink.Lane, object io.Reader) *Reader {
	return &Reader{lane: lane, raw: object, sum: sha256.New()}
}

// Next returns the next record. A *LineError concerns one line, and the next
// call goes on behind it. Any other error is final: io.EOF where the object is
// at its end and whole, errors that wrap ErrTruncated or ErrCorrupt, or what the
// object's own reader returned.
func (r *Reader) Next() (sink.Record, error) {
	for r.err == nil {
		line, err := r.read()
		if err != nil {
			return sink.Record{}, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		record, err := ParseLine(r.lane, line)
		if err != nil {
			return sink.Record{}, &LineError{Line: r.line, Err: err}
		}
		return record, nil
	}
	return sink.Record{}, r.err
}

// Line returns the number of the line that the last Next was about.
func (r *Reader) Line() int { return r.line }

// Sum returns the SHA-256 of the content read so far, in hex. After io.EOF it is
// that of the whole content and begins with the Sum of the object's name.
func (r *Reader) Sum() string { return hex.EncodeToString(r.sum.Sum(nil)) }

// read returns the next line without its newline. The line is valid until the
// next call. An error that is not a *LineError is also kept in r.err.
func (r *Reader) read() ([]byte, error) {
	if r.in == nil {
		packed, err := gzip.NewReader(r.raw)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // even of no records the object is not empty
		}
		if err != nil {
			r.err = explain(err)
			return nil, r.err
		}
		r.in = bufio.NewReaderSize(io.TeeReader(packed, r.sum), 64<<10)
	}
	r.long = r.long[:0]
	tooLong := false
	for {
		part, err := r.in.ReadSlice('\n')
		if err == nil && len(r.long) == 0 && !tooLong {
			r.line++
			return part[:len(part)-1], nil
		}
		if tooLong = tooLong || len(r.long)+len(part) > maxLineBytes; !tooLong {
			r.long = append(r.long, part...)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			r.err = explain(err)
			// Without its newline a last line counts only where the object is whole.
			if !errors.Is(err, io.EOF) || len(r.long) == 0 && !tooLong {
				return nil, r.err
			}
		}
		if err == nil || r.err != nil {
			r.line++
			if tooLong {
				return nil, &LineError{Line: r.line, Err: fmt.Errorf("it is longer than %d bytes", maxLineBytes)}
			}
			return bytes.TrimSuffix(r.long, []byte{'\n'}), nil
		}
	}
}

// explain puts an error of reading or unpacking into this package's words.
func explain(err error) error {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("read object: %w: %w", ErrTruncated, err)
	case corrupt, errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return fmt.Errorf("read object: %w: %w", ErrCorrupt, err)
	case err == io.EOF:
		return io.EOF
	}
	return fmt.Errorf("read object: %w", err)
}
