// Package protocol is what a Snowplow tracker may expect of a collector, as
// functions of a request: which path means what, what is recorded of a request,
// and what the answer says. It does no I/O and knows no HTTP server; the time
// and new ids are inputs. So the whole protocol is tested as a table, and the
// server around it can be exchanged.
//
// A request goes through two steps. Route looks at method and path only, so
// that a server can refuse a request before it reads a body. Then Answer serves
// what is not an event, and Plan turns an event into the records to store and
// the response to send once they are stored.
package protocol

import (
	"net/netip"
	"regexp"
	"strconv"
	"time"

	"github.com/google/uuid"

	"spillway/collector/internal/payload"
	"spillway/collector/internal/sink"
)

// Request is one HTTP request, as the protocol sees it. The protocol keeps
// nothing of it after the call that was given it, except what is named in Plan.
type Request struct {
	Method     string
	Path       string // as sent: percent-encoded, without query
	Query      string // as sent, without question mark
	Host       string // of the Host header or of an absolute target; may have a port
	Headers    []Header
	RemoteAddr string // address and port of the peer; anything else is a local peer without address
	Body       []byte // of a POST
	At         time.Time
}

// Header is one line of a header.
type Header struct{ Name, Value string }

// Response is the answer to a request. Nobody may change what its slices hold.
type Response struct {
	Status  int
	Headers []Header
	Body    []byte // not sent in answer to HEAD
}

// Record is one message to store.
type Record struct {
	Lane sink.Lane
	Key  string // partition key
	Data []byte
}

// Plan is what follows from an event. The caller may use a Plan again for the
// next request: everything in it is then overwritten.
type Plan struct {
	Records  []Record // to be stored before the response is sent
	Oversize []Record // whole payloads that no record can hold, to be kept before the response is sent
	Response Response

	payload payload.Payload
	headers []string // backs payload.Headers
	ends    []int    // where each of them ends in text
	text    []byte   // scratch for the texts of one request
	data    []byte   // backs Data of a single good record
	lines   []Header // backs Response.Headers
}

func (p *Plan) reset() {
	p.Records, p.Oversize = p.Records[:0], p.Oversize[:0]
	p.headers, p.ends, p.text, p.data, p.lines = p.headers[:0], p.ends[:0], p.text[:0], p.data[:0], p.lines[:0]
	p.Response, p.payload = Response{}, payload.Payload{}
}

// Options is what a Core needs besides its Config.
type Options struct {
	Collector        string        // what the payload's collector field says: name, version and sink
	ProcessorName    string        // who wrote a bad row
	ProcessorVersion string        // of the same; what bad rows cannot hold as a version is put into a form they can
	SinkHealthy      func() bool   // what /sink-health answers; nil is always healthy
	NewID            func() string // a new random UUID; nil is version 4
}

// Core is the protocol with a configuration. It is immutable and safe for
// concurrent use.
type Core struct {
	cfg     Config
	opts    Options
	trusted []netip.Prefix
	dnt     *regexp.Regexp // nil when do-not-track is off

	redirectDomains map[string]bool
	common          []Header // on every response
	maxAge          string
	cookieTail      string // everything behind the Domain attribute
	clientTail      string
	crossDomain     []byte
}

// New returns the protocol for a configuration, or why the configuration makes
// no sense.
func New(cfg Config, opts Options) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if opts.NewID == nil {
		opts.NewID = uuid.NewString
	}
	if opts.SinkHealthy == nil {
		opts.SinkHealthy = func() bool { return true }
	}
	opts.ProcessorVersion = badRowVersion(opts.ProcessorVersion)
	c := &Core{
		cfg:             cfg,
		opts:            opts,
		redirectDomains: make(map[string]bool),
		maxAge:          strconv.Itoa(int(cfg.CORS.MaxAge / time.Second)),
		crossDomain:     crossDomainPolicy(cfg.CrossDomain),
	}
	var err error
	if c.trusted, err = parseTrusted(cfg.TrustedProxies); err != nil {
		return nil, err
	}
	if cfg.DoNotTrack.Enabled {
		if c.dnt, err = wholeValue(cfg.DoNotTrack.Value); err != nil {
			return nil, err
		}
	}
	for _, d := range cfg.Redirects.Domains {
		c.redirectDomains[asciiLower(d)] = true
	}
	if cfg.HSTS.Enabled {
		seconds := strconv.Itoa(int(cfg.HSTS.MaxAge / time.Second))
		c.common = []Header{{"Strict-Transport-Security", "max-age=" + seconds + "; includeSubDomains"}}
	}
	c.cookieTail, c.clientTail = cookieTail(cfg.Cookie, cfg.Cookie.HTTPOnly), cookieTail(cfg.Cookie, false)
	return c, nil
}

// Footprint returns roughly how many bytes a Plan holds on to until it is used
// again.
func (p *Plan) Footprint() int {
	size := cap(p.data) + cap(p.text)
	for _, records := range [...][]Record{p.Records, p.Oversize} {
		for _, r := range records {
			size += len(r.Data)
		}
	}
	return size
}
