// Package payload is the record a collector hands to the rest of a Snowplow
// pipeline: one HTTP request, as a CollectorPayload.
//
// A payload has three forms. The struct is what the collector fills in. The
// Thrift form (AppendThrift, Decode) is what stands in the spool and in Kinesis
// and what Snowplow Enrich reads. The JSON form (AppendJSON, UnmarshalJSON) is
// what people and query engines read in archived objects; it turns back into
// the very same Thrift bytes.
//
// Trackers send whatever they like, so no string here is promised to be UTF-8.
package payload

// Schema is the value of the schema field of every payload.
const Schema = "iglu:com.snowplowanalytics.snowplow/CollectorPayload/thrift/1-0-0"

// Payload is one request as Snowplow Enrich wants it. Every string may be
// absent, which is not the same as empty. The zero value is the payload in
// which everything is absent but the timestamp.
//
// A Payload is a plain value without locks: it may be read by many goroutines
// and changed by one. AppendThrift and AppendJSON copy everything they write,
// so Body and Headers may be reused once they have returned.
type Payload struct {
	Schema        Text
	IPAddress     Text
	Timestamp     int64 // when the request was received, milliseconds since the Unix epoch
	Encoding      Text  // of the query string; always UTF-8
	Collector     Text  // name, version and sink of the collector
	UserAgent     Text
	RefererURI    Text
	Path          Text     // after path mapping
	QueryString   Text     // raw, without the question mark
	Body          []byte   // nil is absent, an empty slice is present and empty
	Headers       []string // "Name: value"; nil is absent, an empty slice is present and empty
	ContentType   Text     // in lower case
	Hostname      Text     // without port
	NetworkUserID Text
}

// Text is a string that may be absent. The zero value is absent.
type Text struct {
	value   string
	present bool
}

// Some returns s as a Text that is present, also when s is empty.
func Some(s string) Text { return Text{value: s, present: true} }

// NonEmpty returns s as a Text, absent when s is empty.
func NonEmpty(s string) Text { return Text{value: s, present: s != ""} }

// Present says whether there is a value.
func (t Text) Present() bool { return t.present }

// String returns the value, or an empty string where there is none.
func (t Text) String() string { return t.value }
