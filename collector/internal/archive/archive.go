// Package archive is the form in which records stand in objects and files when
// they do not go to a stream: gzip, one JSON object a line, at names that say
// which lane, hour and collector they are from.
//
// Whatever bytes a record has, its line turns back into the very same record.
// People and query engines see the payload's own fields (line.go); an object has
// a name that follows from its content (name.go), so that a repeated write
// replaces itself and nothing else. Pack makes an object from records, Reader
// gives the records back and passes over damaged lines.
package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"spillway/collector/internal/sink"
)

// Format is the version of lines and names, as it stands in the metadata.
const Format = "1"

// ContentType is the media type of an object. It is no content encoding, which
// clients would undo unasked.
const ContentType = "application/gzip"

// Object is a packed batch, ready to be stored.
type Object struct {
	Name    Name
	Body    []byte    // gzip
	Count   int       // records
	Bytes   int64     // of the content, before compression
	FirstAt time.Time // when the earliest record was received
	LastAt  time.Time // when the latest record was received
	SHA256  string    // of the content, in hex
}

// writers holds gzip writers, which are expensive to make.
var writers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// Pack makes the object of a batch, which must not be empty. The same records
// in the same order always give the same name. The object shares no memory with
// the records; packing takes memory for the compressed object and one line.
func Pack(lane sink.Lane, instance string, records []sink.Record) (*Object, error) {
	if len(records) == 0 {
		return nil, fmt.Errorf("pack an object: there are no records")
	}
	o := &Object{Count: len(records), FirstAt: records[0].At, LastAt: records[0].At}
	first, last := records[0].Seq, records[0].Seq
	var body bytes.Buffer
	packer := writers.Get().(*gzip.Writer)
	defer writers.Put(packer)
	packer.Reset(&body) // the header has neither a name nor a time
	sum := sha256.New()
	var line []byte
	for _, r := range records {
		line = append(AppendLine(line[:0], lane, r), '\n')
		o.Bytes += int64(len(line))
		_, _ = sum.Write(line) // a hash never fails
		if _, err := packer.Write(line); err != nil {
			return nil, fmt.Errorf("pack record %d: %w", r.Seq, err)
		}
		first, last = min(first, r.Seq), max(last, r.Seq)
		if r.At.Before(o.FirstAt) {
			o.FirstAt = r.At
		}
		if r.At.After(o.LastAt) {
			o.LastAt = r.At
		}
	}
	if err := packer.Close(); err != nil {
		return nil, fmt.Errorf("pack an object: %w", err)
	}
	o.Body = body.Bytes()
	o.SHA256 = hex.EncodeToString(sum.Sum(nil))
	o.Name = Name{Lane: lane, Hour: records[0].At.UTC().Truncate(time.Hour), Instance: instance, First: first, Last: last, Sum: o.SHA256[:sumLength]}
	return o, nil
}

// Metadata returns what is stored beside the object.
func (o *Object) Metadata() map[string]string {
	return map[string]string{
		"spillway-format": Format,
		"count":           strconv.Itoa(o.Count),
		"first-timestamp": timestamp(o.FirstAt),
		"last-timestamp":  timestamp(o.LastAt),
		"sha256":          o.SHA256,
	}
}

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
