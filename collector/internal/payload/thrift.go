package payload

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The Thrift form is a bare struct in TBinaryProtocol: for each field one byte
// of type, two of id, then the value; big-endian throughout; a zero byte ends
// the struct. A string is four bytes of length and its bytes, a list one byte
// of element type, four of count and its elements. Fields stand in ascending
// order of id, an absent one is left out, and the timestamp is always there.
// Any other order would mean the same to a reader, but the same payload must
// give the same bytes wherever it was encoded.
const (
	typeStop   = 0
	typeI64    = 10
	typeString = 11
	typeList   = 15

	idIPAddress     = 100
	idTimestamp     = 200
	idEncoding      = 210
	idCollector     = 220
	idUserAgent     = 300
	idRefererURI    = 310
	idPath          = 320
	idQueryString   = 330
	idBody          = 340
	idHeaders       = 350
	idContentType   = 360
	idHostname      = 400
	idNetworkUserID = 410
	idSchema        = 31337
)

const (
	fieldHeader  = 3 // type and id
	lengthPrefix = 4
)

// AppendThrift appends the payload's Thrift form to dst and returns the result.
// It allocates only where dst is too short, and always gives the same bytes for
// the same payload.
func (p *Payload) AppendThrift(dst []byte) []byte {
	dst = appendText(dst, idIPAddress, p.IPAddress)
	dst = binary.BigEndian.AppendUint64(appendField(dst, typeI64, idTimestamp), uint64(p.Timestamp))
	dst = appendText(dst, idEncoding, p.Encoding)
	dst = appendText(dst, idCollector, p.Collector)
	dst = appendText(dst, idUserAgent, p.UserAgent)
	dst = appendText(dst, idRefererURI, p.RefererURI)
	dst = appendText(dst, idPath, p.Path)
	dst = appendText(dst, idQueryString, p.QueryString)
	if p.Body != nil {
		dst = appendString(appendField(dst, typeString, idBody), p.Body)
	}
	if p.Headers != nil {
		dst = append(appendField(dst, typeList, idHeaders), typeString)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(p.Headers)))
		for _, h := range p.Headers {
			dst = appendString(dst, h)
		}
	}
	dst = appendText(dst, idContentType, p.ContentType)
	dst = appendText(dst, idHostname, p.Hostname)
	dst = appendText(dst, idNetworkUserID, p.NetworkUserID)
	dst = appendText(dst, idSchema, p.Schema)
	return append(dst, typeStop)
}

// ThriftSize returns the length of the payload's Thrift form in bytes, without
// making it.
func (p *Payload) ThriftSize() int {
	size := fieldHeader + 8 + 1 // timestamp and the final stop
	for _, t := range [...]*Text{
		&p.IPAddress, &p.Encoding, &p.Collector, &p.UserAgent, &p.RefererURI, &p.Path, &p.QueryString,
		&p.ContentType, &p.Hostname, &p.NetworkUserID, &p.Schema,
	} {
		if t.present {
			size += fieldHeader + lengthPrefix + len(t.value)
		}
	}
	if p.Body != nil {
		size += fieldHeader + lengthPrefix + len(p.Body)
	}
	if p.Headers != nil {
		size += fieldHeader + 1 + lengthPrefix
		for _, h := range p.Headers {
			size += lengthPrefix + len(h)
		}
	}
	return size
}

func appendField(dst []byte, kind byte, id uint16) []byte {
	return append(dst, kind, byte(id>>8), byte(id))
}

func appendString[S string | []byte](dst []byte, s S) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...)
}

func appendText(dst []byte, id uint16, t Text) []byte {
	if !t.present {
		return dst
	}
	return appendString(appendField(dst, typeString, id), t.value)
}

// ErrFormat is in the chain of every error of Decode.
var ErrFormat = errors.New("not a collector payload")

// Decode reads the Thrift form. It accepts exactly what AppendThrift writes:
// unknown fields, another order of fields, bytes that are missing or too many
// are errors that wrap ErrFormat. So where Decode succeeds, AppendThrift gives
// back the same bytes, and where it fails the bytes must be kept as they are.
//
// The payload shares no memory with data. Decode never panics and never
// allocates more than a small multiple of len(data).
func Decode(data []byte) (*Payload, error) {
	d := decoder{data: data, text: string(data)}
	p := &Payload{}
	p.IPAddress = d.optional(idIPAddress)
	p.Timestamp = d.timestamp()
	p.Encoding = d.optional(idEncoding)
	p.Collector = d.optional(idCollector)
	p.UserAgent = d.optional(idUserAgent)
	p.RefererURI = d.optional(idRefererURI)
	p.Path = d.optional(idPath)
	p.QueryString = d.optional(idQueryString)
	if body := d.optional(idBody); body.present {
		p.Body = []byte(body.value)
	}
	p.Headers = d.headers()
	p.ContentType = d.optional(idContentType)
	p.Hostname = d.optional(idHostname)
	p.NetworkUserID = d.optional(idNetworkUserID)
	p.Schema = d.optional(idSchema)
	if err := d.end(); err != nil {
		return nil, err
	}
	return p, nil
}

// decoder reads fields in the order in which they must stand. After the first
// error it reads nothing more.
type decoder struct {
	data []byte
	text string // the same bytes once more, for all strings to share
	at   int
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s at byte %d", ErrFormat, fmt.Sprintf(format, args...), d.at)
	}
}

// take moves over n bytes and says whether they were there.
func (d *decoder) take(n int, what string) bool {
	if d.err == nil && n > len(d.data)-d.at {
		d.fail("%s is cut off", what)
	}
	if d.err != nil {
		return false
	}
	d.at += n
	return true
}

// field moves over the head of the given field if that is what comes next.
func (d *decoder) field(kind byte, id uint16) bool {
	if d.err != nil || len(d.data)-d.at < fieldHeader {
		return false
	}
	head := d.data[d.at:]
	if head[0] != kind || binary.BigEndian.Uint16(head[1:]) != id {
		return false
	}
	d.at += fieldHeader
	return true
}

func (d *decoder) count(what string) int {
	if !d.take(lengthPrefix, what) {
		return 0
	}
	n := int32(binary.BigEndian.Uint32(d.data[d.at-lengthPrefix:]))
	if n < 0 {
		d.fail("%s is negative", what)
		return 0
	}
	return int(n)
}

func (d *decoder) string() string {
	n := d.count("length of a string")
	if !d.take(n, "a string") {
		return ""
	}
	return d.text[d.at-n : d.at]
}

func (d *decoder) optional(id uint16) Text {
	if !d.field(typeString, id) {
		return Text{}
	}
	return Some(d.string())
}

func (d *decoder) timestamp() int64 {
	if !d.field(typeI64, idTimestamp) {
		d.fail("the timestamp is missing")
	}
	if !d.take(8, "the timestamp") {
		return 0
	}
	return int64(binary.BigEndian.Uint64(d.data[d.at-8:]))
}

func (d *decoder) headers() []string {
	if !d.field(typeList, idHeaders) || !d.take(1, "the list of headers") {
		return nil
	}
	if d.data[d.at-1] != typeString {
		d.fail("the headers are of type %d", d.data[d.at-1])
	}
	n := d.count("number of headers")
	if n > (len(d.data)-d.at)/lengthPrefix {
		d.fail("%d headers do not fit what is left", n)
	}
	if d.err != nil {
		return nil
	}
	headers := make([]string, n)
	for i := range headers {
		headers[i] = d.string()
	}
	return headers
}

func (d *decoder) end() error {
	if d.take(1, "the payload") && d.data[d.at-1] != typeStop {
		d.at--
		d.fail("there is a field that does not belong (type %d)", d.data[d.at])
	}
	if d.err == nil && d.at != len(d.data) {
		d.fail("%d more bytes follow the end", len(d.data)-d.at)
	}
	return d.err
}
