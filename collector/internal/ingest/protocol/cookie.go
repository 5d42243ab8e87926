package protocol

import (
	"net/http"
	"strings"
	"time"
)

// cookieValue returns the value of the first cookie with the given name. It
// reads the Cookie headers leniently: a part it does not understand hides no
// other part. Without a value there is no cookie.
func cookieValue(headers []Header, name string) (string, bool) {
	for _, h := range headers {
		if !strings.EqualFold(h.Name, "Cookie") {
			continue
		}
		for rest := h.Value; rest != ""; {
			var part string
			part, rest, _ = strings.Cut(rest, ";")
			key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
			if ok && key == name && value != "" {
				return value, true
			}
		}
	}
	return "", false
}

// appendCleanCookies appends the Cookie header as payloads have it: without
// spaces, and without the parts in which a character stands that no cookie may
// have. It may append nothing.
func appendCleanCookies(dst []byte, value string) []byte {
	start := len(dst)
	for rest := value; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, ";")
		if !cleanPart(part) {
			continue
		}
		undo := len(dst)
		if undo > start {
			dst = append(dst, ';')
		}
		filled := len(dst)
		for i := range len(part) {
			if part[i] != ' ' {
				dst = append(dst, part[i])
			}
		}
		if len(dst) == filled {
			dst = dst[:undo]
		}
	}
	return dst
}

func cleanPart(part string) bool {
	for i := range len(part) {
		if c := part[i]; c != ' ' && !isCookieOctet(c) {
			return false
		}
	}
	return true
}

// isCookieOctet says whether RFC 6265 lets c stand in the value of a cookie.
func isCookieOctet(c byte) bool {
	return c > ' ' && c < 0x7f && c != '"' && c != ',' && c != ';' && c != '\\'
}

// setCookies appends the Set-Cookie headers for an event.
//
// An anonymous request gets none, but what it brought along is expired. An id
// that cannot stand in a cookie (it came from the query) is recorded and not
// set: whatever a request says, it cannot write attributes into our header.
func (c *Core) setCookies(lines []Header, f *facts, now time.Time) []Header {
	cfg := &c.cfg.Cookie
	value, expires := f.userID, now.Add(cfg.Expiration)
	if f.anonymous {
		if !f.hasCookie {
			return lines
		}
		value, expires = "", now.Add(-cfg.Expiration)
	}
	for i := range len(value) {
		if !isCookieOctet(value[i]) {
			return lines
		}
	}
	domain := c.cookieDomain(f.origin)
	set := func(name, tail string) {
		b := make([]byte, 0, 192)
		b = append(b, name...)
		b = append(b, '=')
		b = append(b, value...)
		b = append(b, "; Expires="...)
		b = expires.UTC().AppendFormat(b, http.TimeFormat)
		if domain != "" {
			b = append(b, "; Domain="...)
			b = append(b, domain...)
		}
		b = append(b, tail...)
		lines = append(lines, Header{"Set-Cookie", string(b)})
	}
	set(cfg.Name, c.cookieTail)
	if cfg.ClientName != "" {
		set(cfg.ClientName, c.clientTail)
	}
	return lines
}

// cookieTail is what stands behind the Domain attribute. Browsers take
// SameSite=None only together with Secure.
func cookieTail(cfg Cookie, httpOnly bool) string {
	tail := "; Path=/"
	if cfg.SameSite != "" {
		tail += "; SameSite=" + cfg.SameSite
	}
	if cfg.Secure || cfg.SameSite == "None" {
		tail += "; Secure"
	}
	if httpOnly {
		tail += "; HttpOnly"
	}
	return tail
}

// cookieDomain returns the first configured domain that is, or is a parent of,
// a host in the Origin header.
func (c *Core) cookieDomain(origin string) string {
	if len(c.cfg.Cookie.Domains) == 0 || origin == "" {
		return c.cfg.Cookie.FallbackDomain
	}
	for _, domain := range c.cfg.Cookie.Domains {
		for part := range strings.SplitSeq(origin, " ") {
			_, authority, ok := splitOrigin(part)
			if !ok {
				continue
			}
			host := hostname(authority)
			if host == domain || strings.HasSuffix(host, domain) && host[len(host)-len(domain)-1] == '.' {
				return domain
			}
		}
	}
	return c.cfg.Cookie.FallbackDomain
}
