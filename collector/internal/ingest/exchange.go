package ingest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"spillway/collector/internal/ingest/protocol"
)

// exchange is one request and what is made of it. Exchanges are used again, so
// that a request costs few allocations.
type exchange struct {
	req     protocol.Request
	plan    protocol.Plan
	body    []byte
	records []Record
	values  []string // backs the values of response headers

	charged  int64 // of the bytes in flight
	poisoned bool  // somebody may still read its memory: not to be used again
}

const (
	// requestCharge and bodyCharge are what a request counts towards the bytes in
	// flight: headers, buffers and goroutine; and its body, as it was read, in
	// the record, and on its way into the store.
	requestCharge = 16 << 10
	bodyCharge    = 3

	firstRead   = 8 << 10   // room for most bodies, and what an announcement alone can cost
	keepAtMost  = 256 << 10 // larger buffers are not kept for the next request
	keepHeaders = 256
)

func charge(bodyBytes int) int64 { return requestCharge + bodyCharge*int64(bodyBytes) }

// begin fills in what is known before the body is read.
func (x *exchange) begin(r *http.Request, now time.Time) {
	target := r.RequestURI
	if !strings.HasPrefix(target, "/") && r.URL.Host != "" {
		// An absolute target. Only its path and query matter; Host is set from it.
		target = r.URL.EscapedPath()
		if r.URL.RawQuery != "" {
			target += "?" + r.URL.RawQuery
		}
	}
	target, _, _ = strings.Cut(target, "#")
	path, query, _ := strings.Cut(target, "?")
	x.req = protocol.Request{
		Method: r.Method, Path: path, Query: query, Host: r.Host,
		Headers: x.req.Headers[:0], RemoteAddr: r.RemoteAddr, At: now,
	}
	x.headers(r)
}

// headers lists the headers of a request. net/http keeps them in a map, under
// canonical names: the order in which names arrived is lost, so they are put in
// alphabetical order, which at least is always the same. Two that net/http
// takes out are put back.
func (x *exchange) headers(r *http.Request) {
	list := x.req.Headers
	for name, values := range r.Header {
		for _, value := range values {
			list = append(list, protocol.Header{Name: name, Value: value})
		}
	}
	if r.Host != "" {
		list = append(list, protocol.Header{Name: "Host", Value: r.Host})
	}
	if len(r.TransferEncoding) > 0 {
		list = append(list, protocol.Header{Name: "Transfer-Encoding", Value: strings.Join(r.TransferEncoding, ", ")})
	}
	// Stable: several values of one name keep their order.
	slices.SortStableFunc(list, func(a, b protocol.Header) int { return strings.Compare(a.Name, b.Name) })
	x.req.Headers = list
}

// within says whether request line and headers keep to their limits.
func (x *exchange) within(cfg *Config, r *http.Request) bool {
	line := len(r.Method) + 1 + len(r.RequestURI) + 1 + len(r.Proto)
	size := 0
	for _, h := range x.req.Headers {
		size += len(h.Name) + len(h.Value) + len(": \r\n")
	}
	return line <= int(cfg.MaxRequestLineBytes) && size <= int(cfg.MaxHeaderBytes)
}

// What can be wrong with a body.
var (
	errTooLarge = errors.New("the body is too large")
	errTooSlow  = errors.New("the request took too long to arrive")
	errCutOff   = errors.New("the body is cut off or malformed")
	errBusy     = errors.New("too many bytes in flight")
)

// readBody reads the body of a POST. Memory is charged as the body arrives, not
// as it was announced, so that clients which announce much and send little keep
// nobody out.
func (s *Server) readBody(cfg *Config, r *http.Request, x *exchange) error {
	most := int64(cfg.MaxBodyBytes)
	if r.ContentLength > most {
		return errTooLarge
	}
	size := firstRead
	if r.ContentLength >= 0 {
		size = int(min(r.ContentLength+1, firstRead)) // one more, to meet the end in the same read
	}
	for {
		if !s.reserve(cfg, x, charge(size)) {
			return errBusy
		}
		x.body = slices.Grow(x.body, size-len(x.body))
		for len(x.body) < size {
			n, err := r.Body.Read(x.body[len(x.body):size])
			x.body = x.body[:len(x.body)+n]
			switch {
			case int64(len(x.body)) > most:
				return errTooLarge
			case err == io.EOF:
				x.req.Body = x.body
				return nil
			case errors.Is(err, os.ErrDeadlineExceeded):
				return errTooSlow
			case err != nil:
				return errCutOff
			}
		}
		size *= 2
		if r.ContentLength >= 0 {
			size = int(min(int64(size), r.ContentLength+1))
		}
	}
}

// reserve raises what the exchange is charged to total, or says that there is no
// room.
func (s *Server) reserve(cfg *Config, x *exchange, total int64) bool {
	more := total - x.charged
	if s.inFlight.Add(more) > int64(cfg.MaxInFlightBytes) {
		s.inFlight.Add(-more)
		return false
	}
	x.charged = total
	return true
}

// release ends an exchange.
func (s *Server) release(x *exchange) {
	s.inFlight.Add(-x.charged)
	x.charged = 0
	if x.poisoned || cap(x.body) > keepAtMost || x.plan.Footprint() > keepAtMost || cap(x.req.Headers) > keepHeaders {
		return
	}
	clear(x.records)
	clear(x.values)
	clear(x.req.Headers)
	x.body, x.records, x.values = x.body[:0], x.records[:0], x.values[:0]
	s.exchanges.Put(x)
}
