package protocol

import (
	"strings"
)

// origin returns the first Origin header of a request.
func origin(req *Request) string {
	for _, h := range req.Headers {
		if strings.EqualFold(h.Name, "Origin") {
			return h.Value
		}
	}
	return ""
}

// cors appends the headers without which a browser hides the response from the
// script that sent the request. Requests carry cookies, so the origin itself
// must be named; "*" is for those who named none.
func (c *Core) cors(lines []Header, origin string) []Header {
	allow := "*"
	for rest := origin; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, " ")
		if _, _, ok := splitOrigin(part); ok {
			allow = part
			break
		}
	}
	return append(lines, Header{"Access-Control-Allow-Origin", allow}, Header{"Access-Control-Allow-Credentials", "true"})
}

// splitOrigin cuts an origin, scheme://host[:port], and says whether it is one.
// Nothing else is ever echoed.
func splitOrigin(s string) (scheme, authority string, ok bool) {
	scheme, authority, ok = strings.Cut(s, "://")
	if !ok || scheme == "" || authority == "" {
		return "", "", false
	}
	for i := range len(scheme) {
		if c := scheme[i]; !isAlphanumeric(c) && c != '+' && c != '-' && c != '.' {
			return "", "", false
		}
	}
	for i := range len(authority) {
		if c := authority[i]; !isAlphanumeric(c) && strings.IndexByte(".-_:[]", c) < 0 {
			return "", "", false
		}
	}
	return scheme, authority, true
}

// recordHeaders fills the payload's list of headers: "Name: value" for each, in
// the order given, and at the end the bare content type where there is one.
//
// Left out is what would betray an anonymous sender, and what an untrusted peer
// says about the address: Snowplow Enrich would believe it.
func (p *Plan) recordHeaders(req *Request, f *facts) {
	for _, h := range req.Headers {
		start := len(p.text)
		switch header := known(h.Name); {
		case header == headerCookie:
			if f.anonymous {
				continue
			}
			// Enrich looks for this spelling.
			p.text = append(p.text, "Cookie: "...)
			filled := len(p.text)
			if p.text = appendCleanCookies(p.text, h.Value); len(p.text) == filled {
				p.text = p.text[:start]
				continue
			}
		case (header == headerForwardedFor || header == headerForwarded) && (f.anonymous || !f.trusted),
			header == headerRealIP && f.anonymous:
			continue
		default:
			p.text = append(p.text, h.Name...)
			p.text = append(p.text, ": "...)
			p.text = append(p.text, h.Value...)
		}
		p.ends = append(p.ends, len(p.text))
	}
	// One string for all of them, rather than one each.
	all, start := string(p.text), 0
	if p.headers == nil {
		p.headers = []string{}
	}
	for _, end := range p.ends {
		p.headers = append(p.headers, all[start:end])
		start = end
	}
	if t := p.payload.ContentType; t.Present() {
		p.headers = append(p.headers, t.String())
	}
	p.payload.Headers = p.headers
}

// header is one of the request headers that mean something here.
type header uint8

const (
	headerOther header = iota
	headerAnonymous
	headerContentType
	headerCookie
	headerForwarded
	headerForwardedFor
	headerOrigin
	headerRealIP
	headerReferer
	headerUserAgent
)

// known recognises a header by its name, in whatever case.
func known(name string) header {
	match := func(want string, h header) header {
		if strings.EqualFold(name, want) {
			return h
		}
		return headerOther
	}
	switch len(name) {
	case 6:
		if name[0]|0x20 == 'o' {
			return match("Origin", headerOrigin)
		}
		return match("Cookie", headerCookie)
	case 7:
		return match("Referer", headerReferer)
	case 9:
		if name[0]|0x20 == 'f' {
			return match("Forwarded", headerForwarded)
		}
		return match("X-Real-IP", headerRealIP)
	case 10:
		return match("User-Agent", headerUserAgent)
	case 12:
		if name[0]|0x20 == 's' {
			return match("SP-Anonymous", headerAnonymous)
		}
		return match("Content-Type", headerContentType)
	case 15:
		return match("X-Forwarded-For", headerForwardedFor)
	}
	return headerOther
}
