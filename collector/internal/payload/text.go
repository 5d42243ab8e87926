package payload

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Excerpt returns the beginning of the payload in the form in which Java prints
// a Thrift struct, at most maxRunes characters. It is what a size_violation bad
// row shows of a payload: consumers of bad rows know this form. Bytes that are
// not valid UTF-8 become U+FFFD.
func (p *Payload) Excerpt(maxRunes int) string {
	e := excerpt{left: maxRunes}
	e.write("CollectorPayload(schema:")
	e.required(p.Schema)
	e.write(", ipAddress:")
	e.required(p.IPAddress)
	e.write(", timestamp:")
	e.write(strconv.FormatInt(p.Timestamp, 10))
	e.write(", encoding:")
	e.required(p.Encoding)
	e.write(", collector:")
	e.required(p.Collector)
	e.optional("userAgent", p.UserAgent)
	e.optional("refererUri", p.RefererURI)
	e.optional("path", p.Path)
	e.optional("querystring", p.QueryString)
	if p.Body != nil {
		e.write(", body:")
		// No character is longer than utf8.UTFMax bytes, so more is never shown.
		e.write(string(p.Body[:min(len(p.Body), max(e.left, 0)*utf8.UTFMax)]))
	}
	if p.Headers != nil {
		e.write(", headers:[")
		for i, h := range p.Headers {
			if i > 0 {
				e.write(", ")
			}
			e.write(h)
		}
		e.write("]")
	}
	e.optional("contentType", p.ContentType)
	e.optional("hostname", p.Hostname)
	e.optional("networkUserId", p.NetworkUserID)
	e.write(")")
	return e.out.String()
}

// excerpt collects text until its share of characters is used up.
type excerpt struct {
	out  strings.Builder
	left int
}

func (e *excerpt) write(s string) {
	for _, r := range s {
		if e.left <= 0 {
			return
		}
		e.left--
		e.out.WriteRune(r)
	}
}

func (e *excerpt) required(t Text) {
	if t.present {
		e.write(t.value)
	} else {
		e.write("null")
	}
}

func (e *excerpt) optional(name string, t Text) {
	if t.present {
		e.write(", ")
		e.write(name)
		e.write(":")
		e.write(t.value)
	}
}
