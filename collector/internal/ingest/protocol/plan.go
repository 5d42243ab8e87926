package protocol

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"spillway/collector/internal/payload"
	"spillway/collector/internal/sink"
)

// anonymousID is the network user id of everybody who sends SP-Anonymous.
const anonymousID = "00000000-0000-0000-0000-000000000000"

var gif, _ = base64.StdEncoding.DecodeString("R0lGODlhAQABAPAAAP///wAAACH5BAUAAAAALAAAAAABAAEAAAICRAEAOw==")

// facts are what the headers and the query of one request say.
type facts struct {
	anonymous    bool // SP-Anonymous is there, whatever its value
	trusted      bool // the peer may say who the client is
	hasCookie    bool // the request carries the user id cookie
	origin       string
	userAgent    payload.Text
	referer      payload.Text
	contentType  string
	forwardedFor string
	userID       string
	bounce       bool // to be sent round once more rather than recorded
}

// Plan works out what follows from an event. The records are to be stored, all
// of them, before the response is sent; where that fails the response is not
// for sending (see Refuse).
//
// route is what Route said of req, and an Event. What stands in Records and
// Oversize are copies: req.Body may be used again.
func (c *Core) Plan(route Route, req *Request, plan *Plan) {
	plan.reset()
	f := c.read(req)
	c.identify(route, req, &f)

	// A person who refuses to be recorded is answered like anybody else.
	refused := false
	if c.dnt != nil {
		value, ok := cookieValue(req.Headers, c.cfg.DoNotTrack.Name)
		refused = ok && c.dnt.MatchString(value)
	}
	c.reply(route, req, &f, refused, plan)
	if refused || f.bounce {
		return
	}

	c.fill(route, req, &f, plan)
	key := ""
	if c.cfg.UseIPAsPartitionKey && plan.payload.IPAddress.String() != unknown {
		key = plan.payload.IPAddress.String()
	} else {
		key = c.opts.NewID()
	}
	if size := plan.payload.ThriftSize(); size < int(c.cfg.MaxRecordBytes) {
		plan.data = plan.payload.AppendThrift(plan.data)
		plan.Records = append(plan.Records, Record{sink.Good, key, plan.data})
	} else {
		c.split(size, key, req.At, plan)
	}
}

// read collects what is needed from the headers in one pass.
func (c *Core) read(req *Request) facts {
	f := facts{}
	first := func(t *payload.Text, value string) {
		if !t.Present() {
			*t = payload.Some(value)
		}
	}
	var origin, forwarded payload.Text
	for _, h := range req.Headers {
		switch known(h.Name) {
		case headerAnonymous:
			f.anonymous = true
		case headerOrigin:
			first(&origin, h.Value)
		case headerUserAgent:
			first(&f.userAgent, h.Value)
		case headerReferer:
			first(&f.referer, h.Value)
		case headerForwardedFor:
			first(&forwarded, h.Value)
		case headerContentType:
			if f.contentType == "" {
				f.contentType = contentType(h.Value)
			}
		}
	}
	f.origin, f.forwardedFor = origin.String(), forwarded.String()
	return f
}

// identify decides on the network user id.
func (c *Core) identify(route Route, req *Request, f *facts) {
	cookie, hasCookie := "", false
	if c.cfg.Cookie.Enabled {
		cookie, hasCookie = cookieValue(req.Headers, c.cfg.Cookie.Name)
	}
	f.hasCookie = hasCookie
	if f.anonymous {
		f.userID = anonymousID
		return
	}
	if id, ok := queryValue(req.Query, "nuid"); ok && id != "" {
		f.userID = id
		return
	}
	if hasCookie {
		f.userID = cookie
		return
	}
	if bounce := &c.cfg.CookieBounce; bounce.Enabled {
		switch second := strings.Contains(req.Query, bounce.Name); {
		case second:
			f.userID = bounce.FallbackUserID
			return
		case route.place == pixel && !isRedirect(route):
			f.bounce = true
		}
	}
	f.userID = c.opts.NewID()
}

// fill makes the payload.
func (c *Core) fill(route Route, req *Request, f *facts, plan *Plan) {
	peer := peerAddr(req.RemoteAddr)
	f.trusted = c.trusts(peer)
	p := &plan.payload
	switch {
	case f.anonymous:
		p.IPAddress = payload.Some(unknown)
	case f.trusted:
		p.IPAddress = payload.Some(clientAddress(peer, f.forwardedFor))
	default:
		p.IPAddress = payload.Some(renderAddr(peer))
	}
	p.Schema = payload.Some(payload.Schema)
	p.Timestamp = req.At.UnixMilli()
	p.Encoding = payload.Some("UTF-8")
	p.Collector = payload.Some(c.opts.Collector)
	p.UserAgent = f.userAgent
	p.RefererURI = f.referer
	p.Path = payload.Some(route.path)
	p.QueryString = payload.Some(req.Query)
	if route.place == post {
		// A POST without a body has an empty one.
		if p.Body = req.Body; p.Body == nil {
			p.Body = []byte{}
		}
		p.ContentType = payload.NonEmpty(f.contentType)
	}
	p.Hostname = payload.NonEmpty(hostname(req.Host))
	p.NetworkUserID = payload.Some(f.userID)
	plan.recordHeaders(req, f)
}

// reply makes the response.
func (c *Core) reply(route Route, req *Request, f *facts, refused bool, plan *Plan) {
	lines := plan.lines
	if c.cfg.Cookie.Enabled && !refused {
		lines = c.setCookies(lines, f, req.At)
	}
	if route.place == pixel {
		lines = append(lines, Header{"Cache-Control", "no-cache, no-store, must-revalidate"})
	}
	lines = c.cors(lines, f.origin)
	switch {
	case f.bounce:
		plan.Response = c.respond(http.StatusFound, append(lines, Header{"Location", c.bounceTarget(req)}), "", nil)
	case isRedirect(route):
		if target, ok := c.redirectTarget(req.Query); ok {
			plan.Response = c.respond(http.StatusFound, append(lines, Header{"Location", target}), "", nil)
		} else {
			plan.Response = c.respond(http.StatusBadRequest, lines, "", nil)
		}
	case route.place == pixel:
		plan.Response = c.respond(http.StatusOK, lines, "image/gif", gif)
	default:
		plan.Response = c.respond(http.StatusOK, lines, "text/plain", bodyOK)
	}
	plan.lines = plan.Response.Headers
}

// queryValue returns the first value of a parameter in a raw query. What cannot
// be decoded does not count.
func queryValue(query, name string) (string, bool) {
	if !strings.Contains(query, name) && strings.IndexByte(query, '%') < 0 {
		return "", false
	}
	for rest := query; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		key, value, _ := strings.Cut(pair, "=")
		if key != name {
			if strings.IndexByte(key, '%') < 0 {
				continue
			}
			if decoded, err := url.QueryUnescape(key); err != nil || decoded != name {
				continue
			}
		}
		decoded, err := url.QueryUnescape(value)
		return decoded, err == nil
	}
	return "", false
}
