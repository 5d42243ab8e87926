package protocol

import (
	"net/url"
	"strings"
)

// isRedirect says whether an event is a click that leads on to somewhere.
func isRedirect(route Route) bool { return strings.HasPrefix(route.path, "/r/") }

// redirectTarget returns where a click leads: parameter u, where it is a URI
// and its host is allowed.
//
// The target is written anew from what was understood of it, so that the host
// that was checked is the host that a browser will see.
func (c *Core) redirectTarget(query string) (string, bool) {
	u, ok := queryValue(query, "u")
	if !ok || u == "" {
		return "", false
	}
	target, err := url.Parse(u)
	if err != nil {
		return "", false
	}
	if len(c.redirectDomains) > 0 && !c.redirectDomains[asciiLower(target.Hostname())] {
		return "", false
	}
	return escapeLine(target.String()), true
}

// bounceTarget is the request's own target with the mark of the second round.
func (c *Core) bounceTarget(req *Request) string {
	target := req.Path + "?"
	if req.Query != "" {
		target += req.Query + "&"
	}
	target = escapeLine(target + c.cfg.CookieBounce.Name + "=true")
	if name := c.cfg.CookieBounce.ForwardedProtocolHeader; name != "" && plainHost(req.Host) {
		for _, h := range req.Headers {
			if strings.EqualFold(h.Name, name) && (h.Value == "http" || h.Value == "https") {
				return h.Value + "://" + req.Host + target
			}
		}
	}
	// Without a scheme and host of its own the reference means the same place.
	return target
}

func plainHost(host string) bool {
	_, _, ok := splitOrigin("http://" + host)
	return ok
}

// escapeLine percent-encodes every byte that may not stand in a header line or
// a URI: controls, spaces, and what is not ASCII.
func escapeLine(s string) string {
	const hex = "0123456789ABCDEF"
	var out []byte
	for i := range len(s) {
		c := s[i]
		if c > ' ' && c < 0x7f {
			if out != nil {
				out = append(out, c)
			}
			continue
		}
		if out == nil {
			out = append(make([]byte, 0, len(s)+16), s[:i]...)
		}
		out = append(out, '%', hex[c>>4], hex[c&15])
	}
	if out == nil {
		return s
	}
	return string(out)
}
