package payload

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// base64Suffix is added to a field's name where its value is not valid UTF-8
// and therefore stands in base64.
const base64Suffix = "Base64"

// AppendJSON appends the payload as one JSON object on one line, without a
// final newline, and returns the result. Fields have their Thrift names and
// stand in Thrift order; absent ones are left out. A string that is not valid
// UTF-8 stands in base64 under its name with Base64 added; so does the whole
// list of headers where one of them is not.
//
// The same payload always gives the same bytes.
func (p *Payload) AppendJSON(dst []byte) []byte {
	o := object{dst: append(dst, '{')}
	o.text("ipAddress", p.IPAddress)
	o.key("timestamp", "")
	o.dst = strconv.AppendInt(o.dst, p.Timestamp, 10)
	o.text("encoding", p.Encoding)
	o.text("collector", p.Collector)
	o.text("userAgent", p.UserAgent)
	o.text("refererUri", p.RefererURI)
	o.text("path", p.Path)
	o.text("querystring", p.QueryString)
	if p.Body != nil {
		// The conversion is what lets one writer serve strings and bodies; a
		// body is copied once more here, on the way to an archive only.
		o.text("body", Some(string(p.Body)))
	}
	o.headers(p.Headers)
	o.text("contentType", p.ContentType)
	o.text("hostname", p.Hostname)
	o.text("networkUserId", p.NetworkUserID)
	o.text("schema", p.Schema)
	return append(o.dst, '}')
}

// MarshalJSON returns what AppendJSON appends. It never fails.
func (p *Payload) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil), nil }

// object writes the members of one JSON object.
type object struct {
	dst    []byte
	filled bool
}

func (o *object) key(name, suffix string) {
	if o.filled {
		o.dst = append(o.dst, ',')
	}
	o.filled = true
	o.dst = append(o.dst, '"')
	o.dst = append(o.dst, name...)
	o.dst = append(o.dst, suffix...)
	o.dst = append(o.dst, '"', ':')
}

func (o *object) text(name string, t Text) {
	switch {
	case !t.present:
	case utf8.ValidString(t.value):
		o.key(name, "")
		o.dst = AppendJSONString(o.dst, t.value)
	default:
		o.key(name, base64Suffix)
		o.dst = appendBase64(o.dst, t.value)
	}
}

func (o *object) headers(headers []string) {
	if headers == nil {
		return
	}
	suffix, write := "", AppendJSONString
	for _, h := range headers {
		if !utf8.ValidString(h) {
			suffix, write = base64Suffix, appendBase64
			break
		}
	}
	o.key("headers", suffix)
	o.dst = append(o.dst, '[')
	for i, h := range headers {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = write(o.dst, h)
	}
	o.dst = append(o.dst, ']')
}

func appendBase64(dst []byte, s string) []byte {
	dst = base64.StdEncoding.AppendEncode(append(dst, '"'), []byte(s))
	return append(dst, '"')
}

// AppendJSONString appends s as a JSON string. Bytes that are not valid UTF-8
// become U+FFFD. Besides what JSON demands, the line separators U+2028 and
// U+2029 are escaped, so that no reader sees two lines where there is one.
func AppendJSONString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
			i += size
			start = i
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// UnmarshalJSON reads the JSON form. Members it does not know are left alone,
// so that an archive may keep members of its own in the same object. A field
// that stands both as text and in base64 is an error, as is a missing timestamp.
// On error the payload is unchanged.
func (p *Payload) UnmarshalJSON(data []byte) error {
	var in struct {
		IPAddress     jsonText
		Timestamp     *int64 `json:"timestamp"`
		Encoding      jsonText
		Collector     jsonText
		UserAgent     jsonText
		RefererURI    jsonText
		Path          jsonText
		QueryString   jsonText
		Body          jsonText
		Headers       []string
		ContentType   jsonText
		Hostname      jsonText
		NetworkUserID jsonText `json:"networkUserId"`
		Schema        jsonText

		IPAddressBase64, EncodingBase64, CollectorBase64, UserAgentBase64, RefererURIBase64, PathBase64 []byte
		QueryStringBase64, BodyBase64, ContentTypeBase64, HostnameBase64, NetworkUserIDBase64           []byte
		SchemaBase64                                                                                    []byte
		HeadersBase64                                                                                   [][]byte
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("read payload: %w", err)
	}
	if in.Timestamp == nil {
		return fmt.Errorf("read payload: the timestamp is missing")
	}
	out := Payload{Timestamp: *in.Timestamp}
	for _, f := range []struct {
		name string
		to   *Text
		text jsonText
		raw  []byte
	}{
		{"ipAddress", &out.IPAddress, in.IPAddress, in.IPAddressBase64},
		{"encoding", &out.Encoding, in.Encoding, in.EncodingBase64},
		{"collector", &out.Collector, in.Collector, in.CollectorBase64},
		{"userAgent", &out.UserAgent, in.UserAgent, in.UserAgentBase64},
		{"refererUri", &out.RefererURI, in.RefererURI, in.RefererURIBase64},
		{"path", &out.Path, in.Path, in.PathBase64},
		{"querystring", &out.QueryString, in.QueryString, in.QueryStringBase64},
		{"contentType", &out.ContentType, in.ContentType, in.ContentTypeBase64},
		{"hostname", &out.Hostname, in.Hostname, in.HostnameBase64},
		{"networkUserId", &out.NetworkUserID, in.NetworkUserID, in.NetworkUserIDBase64},
		{"schema", &out.Schema, in.Schema, in.SchemaBase64},
	} {
		if f.text != nil && f.raw != nil {
			return fmt.Errorf("read payload: %s stands twice", f.name)
		}
		if f.text != nil {
			*f.to = Some(*f.text)
		} else if f.raw != nil {
			*f.to = Some(string(f.raw))
		}
	}
	if in.Body != nil && in.BodyBase64 != nil || in.Headers != nil && in.HeadersBase64 != nil {
		return fmt.Errorf("read payload: body or headers stand twice")
	}
	out.Body = in.BodyBase64
	if in.Body != nil {
		out.Body = []byte(*in.Body)
	}
	out.Headers = in.Headers
	if in.HeadersBase64 != nil {
		out.Headers = make([]string, len(in.HeadersBase64))
		for i, h := range in.HeadersBase64 {
			out.Headers[i] = string(h)
		}
	}
	*p = out
	return nil
}

// jsonText is nil where the member is missing or null.
type jsonText = *string
