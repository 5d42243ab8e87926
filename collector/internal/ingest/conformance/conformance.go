// Package conformance is the tracker protocol as a table: requests, and what
// must come of them. The rows can be run against the protocol as a function
// (Core), and over a socket against any collector that listens (Send).
//
// A row has the id of the behaviour it pins down. Where this collector answers
// otherwise than the reference collector, the row says why.
package conformance

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"spillway/collector/internal/ingest/protocol"
	"spillway/collector/internal/sink"
)

//go:embed cases.yaml
var cases []byte

// Case is one row.
type Case struct {
	ID        string    `yaml:"id"`
	Deviation string    `yaml:"deviation"` // why the answer is not the reference collector's
	Config    yaml.Node `yaml:"config"`    // what differs from the default
	Request   Request   `yaml:"request"`
	Want      Want      `yaml:"want"`
}

// Request is what a tracker sends.
type Request struct {
	Method  string   `yaml:"method"` // default GET
	Target  string   `yaml:"target"`
	Host    string   `yaml:"host"`    // default collector.example
	Headers []string `yaml:"headers"` // "Name: value"
	Body    string   `yaml:"body"`
	Repeat  int      `yaml:"repeat"` // the body is that many times Body
	Peer    string   `yaml:"peer"`   // address and port; default 192.0.2.2:40000; not over a socket
}

// Want is what must come of it. What is not said is not checked.
type Want struct {
	Status   int               `yaml:"status"`
	Pixel    bool              `yaml:"pixel"` // the body is the pixel
	Body     *string           `yaml:"body"`
	Contains []string          `yaml:"contains"` // the body contains these
	Headers  map[string]string `yaml:"headers"`
	Absent   []string          `yaml:"absent"` // headers that must not be there
	Cookies  *[]Cookie         `yaml:"cookies"`
	Good     *int              `yaml:"good"`   // records stored
	Bad      *int              `yaml:"bad"`    // bad rows stored
	Kept     *int              `yaml:"kept"`   // whole payloads kept in the dead letters
	Key      string            `yaml:"key"`    // partition key; "uuid" is any
	Record   map[string]any    `yaml:"record"` // fields of the first good record; "uuid" is any UUID, null is absent
	Listed   []string          `yaml:"listed"` // elements of the record's headers
	Unlisted []string          `yaml:"unlisted"`
	Last     string            `yaml:"last"` // the last element of the record's headers
}

// Cookie is a Set-Cookie header. All of it is checked.
type Cookie struct {
	Name     string        `yaml:"name"`
	Value    string        `yaml:"value"` // "uuid" is any UUID
	Expires  time.Duration `yaml:"expires"`
	Domain   string        `yaml:"domain"`
	SameSite string        `yaml:"same_site"`
	Secure   bool          `yaml:"secure"`
	HTTPOnly bool          `yaml:"http_only"`
}

// Outcome is what came of a request.
type Outcome struct {
	Status int
	Header http.Header
	Body   []byte

	Stored bool              // whether the rest is known
	Good   []protocol.Record // as stored
	Bad    []protocol.Record
	Kept   int
}

// Cases returns all rows.
func Cases() ([]Case, error) {
	dec := yaml.NewDecoder(bytes.NewReader(cases))
	dec.KnownFields(true)
	var all []Case
	if err := dec.Decode(&all); err != nil {
		return nil, fmt.Errorf("read cases.yaml: %w", err)
	}
	for i := range all {
		r := &all[i].Request
		r.Method = orElse(r.Method, http.MethodGet)
		r.Host = orElse(r.Host, "collector.example")
		r.Peer = orElse(r.Peer, "192.0.2.2:40000")
		if r.Repeat > 0 {
			r.Body = strings.Repeat(r.Body, r.Repeat)
		}
	}
	return all, nil
}

// Default says whether the row holds for the default configuration.
func (c *Case) Default() bool { return c.Config.IsZero() }

// Configure applies what the row wants of the configuration to cfg, a pointer
// to a structure with the keys of a protocol.Config.
func (c *Case) Configure(cfg any) error {
	if c.Default() {
		return nil
	}
	return c.Config.Decode(cfg)
}

// Core runs the row against the protocol as a function.
func (c *Case) Core(opts protocol.Options, at time.Time) (*Outcome, error) {
	cfg := protocol.DefaultConfig()
	if err := c.Configure(&cfg); err != nil {
		return nil, err
	}
	core, err := protocol.New(cfg, opts)
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(c.Request.Target, "?")
	req := &protocol.Request{
		Method: c.Request.Method, Path: path, Query: query, Host: c.Request.Host,
		RemoteAddr: c.Request.Peer, Body: []byte(c.Request.Body), At: at,
	}
	for _, h := range c.Request.Headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Headers = append(req.Headers, protocol.Header{Name: name, Value: value})
	}
	out := &Outcome{Header: http.Header{}, Stored: true}
	var resp protocol.Response
	if route := core.Route(req); route.Event() {
		var plan protocol.Plan
		core.Plan(route, req, &plan)
		resp, out.Kept = plan.Response, len(plan.Oversize)
		for _, r := range plan.Records {
			if r.Lane == sink.Good {
				out.Good = append(out.Good, r)
			} else {
				out.Bad = append(out.Bad, r)
			}
		}
	} else {
		resp = core.Answer(route, req)
	}
	out.Status = resp.Status
	for _, h := range resp.Headers {
		out.Header.Add(h.Name, h.Value)
	}
	if req.Method != http.MethodHead {
		out.Body = resp.Body
	}
	return out, nil
}

// Bytes returns the request as it goes over the wire, to be answered with a
// closed connection.
func (r *Request) Bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", r.Method, r.Target, r.Host)
	for _, h := range r.Headers {
		fmt.Fprintf(&b, "%s\r\n", h)
	}
	if r.Body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.Body))
	}
	b.WriteString("\r\n")
	b.WriteString(r.Body)
	return b.Bytes()
}

// Send runs the row over a new connection to address. What is stored is not
// known then; a caller that does know fills it in.
func (c *Case) Send(address string) (*Outcome, error) {
	nc, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := nc.Write(c.Request.Bytes()); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(nc), &http.Request{Method: c.Request.Method})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return &Outcome{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// fields returns a record as its JSON form has it.
func fields(jsonForm []byte) (map[string]any, error) {
	var m map[string]any
	return m, json.Unmarshal(jsonForm, &m)
}
