package protocol

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Route is where a request leads. The zero Route leads nowhere: 404.
type Route struct {
	place place
	path  string // of an event, after mapping, as the payload will carry it
}

type place uint8

const (
	nowhere place = iota
	post
	pixel
	preflight
	redirectsOff
	root
	crossDomain
	health
	sinkHealth
	robots
)

// Event says whether the request is an event: something to admit, record and
// count. Everything else is answered with Answer, without a body being read.
func (r Route) Event() bool { return r.place == post || r.place == pixel }

// Post says whether the event is in the body of a POST, whose sender keeps it
// until it is answered with 200, or else in the query of a pixel request, whose
// sender mostly does not.
func (r Route) Post() bool { return r.place == post }

// Route finds where a request leads. It looks at method and path only.
//
// A preflight request is answered wherever it leads: a browser whose preflight
// fails never sends the event.
func (c *Core) Route(req *Request) Route {
	get := req.Method == http.MethodGet || req.Method == http.MethodHead
	switch {
	case req.Method == http.MethodOptions:
		return Route{place: preflight}
	case req.Method == http.MethodPost:
		return c.event(post, req.Path)
	case !get:
		return Route{}
	}
	switch req.Path {
	case "/i", "/ice.png":
		return Route{pixel, req.Path}
	case "/":
		if c.cfg.RootResponse.Enabled {
			return Route{place: root}
		}
	case "/crossdomain.xml":
		if c.cfg.CrossDomain.Enabled {
			return Route{place: crossDomain}
		}
	case "/health":
		return Route{place: health}
	case "/sink-health":
		return Route{place: sinkHealth}
	case "/robots.txt":
		return Route{place: robots}
	default:
		return c.event(pixel, req.Path)
	}
	return Route{}
}

func (c *Core) event(p place, rawPath string) Route {
	vendor, version, ok := twoSegments(rawPath)
	if !ok {
		return Route{}
	}
	path := rawPath
	if strings.IndexByte(rawPath, '%') >= 0 {
		v, err1 := url.PathUnescape(vendor)
		w, err2 := url.PathUnescape(version)
		if err1 != nil || err2 != nil {
			return Route{}
		}
		vendor, path = v, "/"+v+"/"+w
	}
	if mapped, ok := c.cfg.Paths[path]; ok {
		return Route{p, mapped}
	}
	if vendor == "r" && !c.cfg.Redirects.Enabled {
		return Route{place: redirectsOff}
	}
	return Route{p, path}
}

// twoSegments cuts /vendor/version. Neither may be empty: nothing downstream
// could read such a path.
func twoSegments(path string) (vendor, version string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return "", "", false
	}
	vendor, version, ok = strings.Cut(rest, "/")
	return vendor, version, ok && vendor != "" && version != "" && strings.IndexByte(version, '/') < 0
}

const (
	typeHTML  = "text/html; charset=utf-8"
	typePlain = "text/plain; charset=UTF-8"
)

var (
	bodyOK          = []byte("ok")
	bodyNotFound    = []byte("Not found")
	bodyUnavailable = []byte("Service Unavailable")
	bodyNoRedirects = []byte("redirects disabled")
	bodyRobots      = []byte("User-agent: *\nDisallow: /\n\nUser-agent: Googlebot\nDisallow: /\n\nUser-agent: AdsBot-Google\nDisallow: /")
)

// Answer returns the response to a request that is not an event.
func (c *Core) Answer(route Route, req *Request) Response {
	switch route.place {
	case preflight:
		lines := append(c.cors(nil, origin(req)),
			Header{"Access-Control-Allow-Headers", "Content-Type, SP-Anonymous"},
			Header{"Access-Control-Max-Age", c.maxAge})
		return c.respond(http.StatusOK, lines, "", nil)
	case root:
		var lines []Header
		for name, value := range c.cfg.RootResponse.Headers {
			lines = append(lines, Header{name, value})
		}
		return c.respond(c.cfg.RootResponse.Status, lines, c.rootType(), []byte(c.cfg.RootResponse.Body))
	case crossDomain:
		return c.respond(http.StatusOK, nil, "text/xml", c.crossDomain)
	case health:
		return c.respond(http.StatusOK, nil, typePlain, bodyOK)
	case sinkHealth:
		if !c.opts.SinkHealthy() {
			return c.respond(http.StatusServiceUnavailable, nil, typePlain, bodyUnavailable)
		}
		return c.respond(http.StatusOK, nil, typePlain, bodyOK)
	case robots:
		return c.respond(http.StatusOK, nil, typePlain, bodyRobots)
	case redirectsOff:
		return c.respond(http.StatusNotFound, c.cors(nil, origin(req)), typePlain, bodyNoRedirects)
	}
	return c.respond(http.StatusNotFound, c.cors(nil, origin(req)), typePlain, bodyNotFound)
}

// rootType is empty where the configured headers name a type of their own.
func (c *Core) rootType() string {
	for name := range c.cfg.RootResponse.Headers {
		if strings.EqualFold(name, "Content-Type") {
			return ""
		}
	}
	if c.cfg.RootResponse.Body == "" {
		return ""
	}
	return typeHTML
}

// Refuse returns the response to a request that is not taken: the reason for
// people, CORS headers so that a script sees the status, and Retry-After in
// whole seconds where retryAfter is more than nothing.
func (c *Core) Refuse(req *Request, status int, reason string, retryAfter time.Duration) Response {
	lines := c.cors(make([]Header, 0, 5), origin(req))
	if retryAfter > 0 {
		seconds := (retryAfter + time.Second - 1) / time.Second
		lines = append(lines, Header{"Retry-After", itoa(int64(seconds))})
	}
	return c.respond(status, lines, typePlain, []byte(reason))
}

// respond completes a response: every response is made here.
func (c *Core) respond(status int, lines []Header, contentType string, body []byte) Response {
	if contentType != "" {
		lines = append(lines, Header{"Content-Type", contentType})
	}
	return Response{Status: status, Headers: append(lines, c.common...), Body: body}
}

func crossDomainPolicy(cfg CrossDomain) []byte {
	out := []byte("<?xml version=\"1.0\"?>\n<cross-domain-policy>\n")
	for _, domain := range cfg.Domains {
		out = append(out, `  <allow-access-from domain="`+xmlEscape.Replace(domain)+`" secure="`...)
		if cfg.Secure {
			out = append(out, "true\" />\n"...)
		} else {
			out = append(out, "false\" />\n"...)
		}
	}
	return append(out, "</cross-domain-policy>"...)
}

var xmlEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")
