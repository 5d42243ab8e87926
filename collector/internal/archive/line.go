package archive

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"spillway/collector/internal/payload"
	"spillway/collector/internal/sink"
)

// A line of the good lane is the payload's JSON form with three members of the
// archive's own before it:
//
//	{"seq":17,"partitionKey":"…","ipAddress":"…","timestamp":1764551000123,…}
//
// receivedAt stands there too where the record was not received at the payload's
// timestamp. Data that is not a payload stands whole:
//
//	{"seq":18,"partitionKey":"…","timestamp":1764551000124,"thriftBase64":"…"}
//
// A line of the bad lane holds the bad row as it is, or in base64 where its bytes
// would not come back the same from JSON on one line:
//
//	{"seq":19,"partitionKey":"…","timestamp":1764551000125,"badRow":{…}}
//
// A partition key that is not valid UTF-8 stands as partitionKeyBase64.

// AppendLine appends the record as one line, without the newline at its end, and
// returns the result. The time is kept to the millisecond.
func AppendLine(dst []byte, lane sink.Lane, r sink.Record) []byte {
	start := len(dst)
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendUint(dst, r.Seq, 10)
	if utf8.ValidString(r.Key) {
		dst = payload.AppendJSONString(append(dst, `,"partitionKey":`...), r.Key)
	} else {
		dst = appendBase64(append(dst, `,"partitionKeyBase64":`...), []byte(r.Key))
	}
	if lane == sink.Bad {
		return appendBadRow(dst, start, r)
	}
	p, err := payload.Decode(r.Data)
	if err != nil {
		dst = strconv.AppendInt(append(dst, `,"timestamp":`...), r.At.UnixMilli(), 10)
		dst = appendBase64(append(dst, `,"thriftBase64":`...), r.Data)
		return append(dst, '}')
	}
	if ms := r.At.UnixMilli(); ms != p.Timestamp {
		dst = strconv.AppendInt(append(dst, `,"receivedAt":`...), ms, 10)
	}
	brace := len(dst)
	dst = p.AppendJSON(dst) // never an empty object, so a comma may stand for its brace
	dst[brace] = ','
	return dst
}

func appendBadRow(dst []byte, start int, r sink.Record) []byte {
	dst = strconv.AppendInt(append(dst, `,"timestamp":`...), r.At.UnixMilli(), 10)
	before := len(dst)
	if len(r.Data) > 0 && r.Data[0] == '{' && r.Data[len(r.Data)-1] == '}' &&
		!bytes.ContainsAny(r.Data, "\r\n") && utf8.Valid(r.Data) && json.Valid(r.Data) {
		dst = append(append(append(dst, `,"badRow":`...), r.Data...), '}')
		// One level deeper, a row nested as deeply as JSON readers go is too deep.
		if json.Valid(dst[start:]) {
			return dst
		}
	}
	return append(appendBase64(append(dst[:before], `,"badRowBase64":`...), r.Data), '}')
}

func appendBase64(dst, data []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), data), '"')
}

// ParseLine reads what AppendLine writes. It never panics; a line that is not
// one of this lane is an error. The record shares no memory with the line.
func ParseLine(lane sink.Lane, line []byte) (sink.Record, error) {
	var in struct {
		Seq                *uint64         `json:"seq"`
		PartitionKey       *string         `json:"partitionKey"`
		PartitionKeyBase64 []byte          `json:"partitionKeyBase64"`
		Timestamp          *int64          `json:"timestamp"`
		ReceivedAt         *int64          `json:"receivedAt"`
		ThriftBase64       []byte          `json:"thriftBase64"`
		BadRow             json.RawMessage `json:"badRow"`
		BadRowBase64       []byte          `json:"badRowBase64"`
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return sink.Record{}, fmt.Errorf("read line: %w", err)
	}
	r := sink.Record{Key: string(in.PartitionKeyBase64)}
	switch {
	case in.Seq == nil:
		return r, errors.New("read line: seq is missing")
	case in.Timestamp == nil:
		return r, errors.New("read line: timestamp is missing")
	case in.PartitionKey != nil && in.PartitionKeyBase64 != nil:
		return r, errors.New("read line: partitionKey stands twice")
	case in.PartitionKey == nil && in.PartitionKeyBase64 == nil:
		return r, errors.New("read line: partitionKey is missing")
	case in.PartitionKey != nil:
		r.Key = *in.PartitionKey
	}
	r.Seq, r.At = *in.Seq, time.UnixMilli(*in.Timestamp).UTC()
	if in.ReceivedAt != nil {
		r.At = time.UnixMilli(*in.ReceivedAt).UTC()
	}
	isBad := in.BadRow != nil || in.BadRowBase64 != nil
	switch {
	case isBad != (lane == sink.Bad):
		return r, fmt.Errorf("read line: it is not of the %s lane", lane)
	case in.BadRow != nil && in.BadRowBase64 != nil:
		return r, errors.New("read line: badRow stands twice")
	case in.BadRow != nil:
		r.Data = in.BadRow
	case isBad:
		r.Data = in.BadRowBase64
	case in.ThriftBase64 != nil:
		r.Data = in.ThriftBase64
	default:
		var p payload.Payload
		if err := p.UnmarshalJSON(line); err != nil {
			return r, fmt.Errorf("read line: %w", err)
		}
		r.Data = p.AppendThrift(make([]byte, 0, p.ThriftSize()))
	}
	return r, nil
}
