package main_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/collector/internal/payload"
	"spillway/collector/internal/sink"
	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/proc"
)

const patience = time.Minute

// abused is a real collector with limits that a test reaches soon.
const abused = `http:
  header_timeout: 1s
  request_timeout: 2s
  max_body_bytes: 1MiB
  max_in_flight_bytes: 64MiB
  redirects: {enabled: true}
sink: {kinesis: {linger: 0s}}
`

// What nobody should do to a collector, and everybody will.
func TestProgram_underAbuse(t *testing.T) {
	t.Parallel()
	var builder proc.Builder
	t.Cleanup(func() { _ = builder.Close() })
	program, err := builder.Build("spillway/collector")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*testing.T, string){
		"hostile requests": hostileRequests, "headers of the client": answersCarryNoHeadersOfTheClient,
		"crowds of bad clients": crowdsOfBadClients, "a new certificate": reloadsItsCertificate,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, program)
		})
	}
}

func abuse(t *testing.T, program, config string) *process {
	t.Helper()
	p := start(t, program, config)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Tail(40))
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// exchange sends bytes over a connection of their own, ends its half and returns
// the answers until the collector ends the other.
func exchange(t *testing.T, addr, raw string) []*http.Response {
	t.Helper()
	c := dial(t, addr)
	defer c.Close()
	go func() { // a collector that has heard enough does not read the rest
		_, _ = io.WriteString(c, raw)
		if half, ok := c.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	return answers(t, c)
}

// dial connects, for goroutines of the test too: where it cannot, the test fails
// and what is sent goes nowhere.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Error(err)
		nowhere, closed := net.Pipe()
		_ = closed.Close()
		return nowhere
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	return c
}

// answers reads answers until the connection ends. That it never does is an error.
func answers(t *testing.T, c net.Conn) []*http.Response {
	t.Helper()
	var all []*http.Response
	in := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the collector left the connection open after %d answers", len(all))
			}
			return all
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		all = append(all, resp)
	}
}

func statuses(all []*http.Response) string {
	var text []string
	for _, r := range all {
		text = append(text, strconv.Itoa(r.StatusCode))
	}
	return strings.Join(text, " ")
}

// stored returns how many records have arrived since the last call, once nothing
// waits any more.
func (p *process) stored(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := p.WaitHealth(ctx, func(r *healthapi.Report) error {
		if r.Backlog.Events > 0 {
			return fmt.Errorf("%d records still wait", r.Backlog.Events)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	before := p.seen[sink.Good]
	p.seen[sink.Good] = p.Rig.Kinesis.Count(rig.GoodStream)
	return p.seen[sink.Good] - before
}

// Requests made to be understood in two ways, or not at all: each gets a clear
// answer, what is answered 200 is stored, and nothing hides behind it.
func hostileRequests(t *testing.T, program string) {
	p := abuse(t, program, abused)
	post := "POST /a/b HTTP/1.1\r\nHost: c\r\n"
	hidden := "GET /i?hidden HTTP/1.1\r\nHost: c\r\n\r\n"
	chunk := "3\r\nabc\r\n0\r\n\r\n"
	cases := []struct {
		name   string
		raw    string
		want   string
		stored int
	}{
		{"length and chunks, the length longer", post + "Content-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, "200", 1},
		{"length and chunks, the length shorter", post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + hidden, "200", 1},
		{"chunks and another coding", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunk + hidden, "501", 0},
		{"codings in a list", post + "Transfer-Encoding: chunked, identity\r\n\r\n" + chunk + hidden, "501", 0},
		{"an unknown coding", post + "Transfer-Encoding: xchunked\r\n\r\n" + chunk + hidden, "501", 0},
		{"a coding behind a vertical tab", post + "Transfer-Encoding: \x0bchunked\r\nContent-Length: 3\r\n\r\nabc" + hidden, "400", 0},
		{"a coding with a blank before the colon", post + "Transfer-Encoding : chunked\r\nContent-Length: 3\r\n\r\nabc" + hidden, "400", 0},
		{"a coding on a folded line", post + "X: x\r\n Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc", "200", 1},
		{"a coding in quotes", post + "Transfer-Encoding: \"chunked\"\r\n\r\n" + chunk + hidden, "501", 0},
		{"two lengths", post + "Content-Length: 3\r\nContent-Length: 30\r\n\r\nabc" + hidden, "400", 0},
		{"lengths in a list", post + "Content-Length: 3, 30\r\n\r\nabc" + hidden, "400", 0},
		{"a length with a sign", post + "Content-Length: +3\r\n\r\nabc" + hidden, "400", 0},
		{"a length in hexadecimal", post + "Content-Length: 0x3\r\n\r\nabc" + hidden, "400", 0},
		{"a length beyond all numbers", post + "Content-Length: 99999999999999999999\r\n\r\nabc", "400", 0},
		{"a length with a blank before the colon", post + "Content-Length : 3\r\n\r\nabc" + hidden, "400", 0},
		{"a bare carriage return in a header", post + "X: a\rTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc" + hidden, "400", 0},
		{"a bare carriage return at its end", post + "Content-Length: 3\r\rabc" + hidden, "400", 0},
		{"a null byte in a header", post + "X: a\x00b\r\nContent-Length: 3\r\n\r\nabc" + hidden, "400", 0},
		{"a null byte in a name", post + "X\x00: a\r\nContent-Length: 3\r\n\r\nabc" + hidden, "400", 0},
		{"a header without a name", post + ": a\r\nContent-Length: 3\r\n\r\nabc" + hidden, "400", 0},
		{"lines that end with a line feed alone", "POST /a/b HTTP/1.1\nHost: c\nContent-Length: 3\n\nabc" + hidden, "200 200", 2},
		{"a chunk of impossible size", post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\nabc", "400", 0},
		{"a chunk of negative size", post + "Transfer-Encoding: chunked\r\n\r\n-1\r\nabc", "400", 0},
		{"a chunk with a long tail", post + "Transfer-Encoding: chunked\r\n\r\n3;" + strings.Repeat("x", 20<<10) + "\r\nabc\r\n0\r\n\r\n", "400", 0},
		{"chunks that end early", post + "Transfer-Encoding: chunked\r\n\r\n3\r\nab", "400", 0},
		{"chunks without a length, and trailers", post + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n" + hidden, "200", 1},
		{"chunks over the limit", post + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("10000\r\n"+strings.Repeat("x", 0x10000)+"\r\n", 20) + "0\r\n\r\n", "413", 0},
		{"a length over the limit", post + "Content-Length: 1048577\r\n\r\n", "413", 0},
		{"no length", post + "\r\n", "200", 1},
		{"a body that ends early", post + "Content-Length: 10\r\n\r\nabc", "400", 0},
		{"a GET with a body", "GET /i HTTP/1.1\r\nHost: c\r\nContent-Length: 3\r\n\r\nabc" + hidden, "200 200", 2},
		{"an expectation", post + "Expect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", "100 200", 1},
		{"an expectation and no body", post + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n", "100 400", 0},
		{"an expectation over the limit", post + "Expect: 100-continue\r\nContent-Length: 1048577\r\n\r\n", "413", 0},
		{"another expectation", post + "Expect: more\r\nContent-Length: 3\r\n\r\nabc", "417", 0},
		{"HTTP/1.0", "POST /a/b HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc" + hidden, "200", 1},
		{"HTTP/1.0 that stays", "POST /a/b HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabcGET /i HTTP/1.0\r\n\r\n", "200 200", 2},
		{"HTTP/1.0 with chunks", "POST /a/b HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk, "200", 1},
		{"HTTP/2 without asking", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "404", 0},
		{"an upgrade to HTTP/2", "GET /i HTTP/1.1\r\nHost: c\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "200", 1},
		{"one long header", "GET /i HTTP/1.1\r\nHost: c\r\nX: " + strings.Repeat("x", 41<<10) + "\r\n\r\n", "400", 0},
		{"one endless header", "GET /i HTTP/1.1\r\nHost: c\r\nX: " + strings.Repeat("x", 4<<20), "431", 0},
		{"many headers", "GET /i HTTP/1.1\r\nHost: c\r\n" + strings.Repeat("X: y\r\n", 30000) + "\r\n", "431", 0},
		{"a long request line", "GET /i?" + strings.Repeat("x", 20<<10) + " HTTP/1.1\r\nHost: c\r\n\r\n", "400", 0},
		{"a cookie of semicolons", "GET /i HTTP/1.1\r\nHost: c\r\nCookie: " + strings.Repeat(";", 30<<10) + "\r\n\r\n", "200", 1},
		{"a thousand addresses", "GET /i HTTP/1.1\r\nHost: c\r\nX-Forwarded-For: " + strings.Repeat("1.2.3.4, ", 3000) + "\r\n\r\n", "200", 1},
		{"addresses that are none", "GET /i HTTP/1.1\r\nHost: c\r\nX-Forwarded-For: ,,[[::]]:%,' OR 1=1 --\r\nForwarded: for=\"[\r\n\r\n", "200", 1},
		{"an origin that is none", "GET /i HTTP/1.1\r\nHost: c\r\nOrigin: javascript:alert(1)//\"><script>\r\n\r\n", "200", 1},
		{"values that are no text", "GET /i HTTP/1.1\r\nHost: c\r\nUser-Agent: \xff\xfe\x80\r\nReferer: \xc3\x28\r\nCookie: sp=\xff\r\n\r\n", "200", 1},
		{"a log line of its own", "GET /i?x=%0atime=now%20level=error HTTP/1.1\r\nHost: c\r\nUser-Agent: \x1b[2Jx\r\n\r\n", "400", 0},
	}
	// Each row has a path of its own, by which its records are found.
	var rows sync.WaitGroup
	for i, c := range cases {
		rows.Go(func() {
			raw := strings.NewReplacer("POST /a/b", "POST "+rowPath(i), "GET /i", "GET "+rowPath(i)).Replace(c.raw)
			if got := statuses(exchange(t, p.Addr(), raw)); got != c.want {
				t.Errorf("%s: answered %q, want %q", c.name, got, c.want)
			}
		})
	}
	rows.Wait()
	p.stored(t)
	stored := map[string]int{}
	for _, r := range p.Rig.Kinesis.Records(rig.GoodStream) {
		decoded, err := payload.Decode(r.Data)
		if err != nil {
			t.Fatal(err)
		}
		stored[decoded.Path.String()]++
	}
	for i, c := range cases {
		if got := stored[rowPath(i)]; got != c.stored {
			t.Errorf("%s: stored %d, want %d", c.name, got, c.stored)
		}
	}
	p.serves(t)
}

func rowPath(row int) string { return fmt.Sprintf("/row/v%d", row) }

// What a request says goes back in headers only where it cannot make new ones.
func answersCarryNoHeadersOfTheClient(t *testing.T, program string) {
	p := abuse(t, program, abused)
	for _, target := range []string{
		"/r/tp2?u=http://x.example/%0d%0aX-Evil:%20yes", "/r/tp2?u=%0d%0aX-Evil:%20yes", "/r/tp2?u=http://x.example/%E5%98%8A%E5%98%8DX-Evil:yes",
		"/i?nuid=%0d%0aX-Evil:%20yes", "/i?nuid=a%3B%20Domain=evil.example", "/%0d%0aX-Evil:%20yes/b",
	} {
		for _, r := range exchange(t, p.Addr(), "GET "+target+" HTTP/1.1\r\nHost: c\r\nOrigin: http://a.example\r\nConnection: close\r\n\r\n") {
			if r.Header.Get("X-Evil") != "" || strings.Contains(r.Header.Get("Set-Cookie"), "evil") {
				t.Errorf("%s is answered with %v", target, r.Header)
			}
		}
	}
	p.serves(t)
}

// serves fails the test unless an ordinary event is taken, and arrives.
func (p *process) serves(t *testing.T) {
	t.Helper()
	p.stored(t)
	resp, err := (&http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}).Post(p.URL()+"/a/b", "text/plain", strings.NewReader("ordinary"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if n := p.stored(t); resp.StatusCode != http.StatusOK || n != 1 {
		t.Errorf("an ordinary event is answered %s and stored %d times", resp.Status, n)
	}
	if n := len(p.Collector.Restarts()); n > 0 {
		t.Errorf("the collector was restarted %d times", n)
	}
}

// Slow and idle clients in numbers, bodies that stop half-way and endless
// pipelines take neither the memory nor the service, and leave nothing behind.
func crowdsOfBadClients(t *testing.T, program string) {
	p := abuse(t, program, abused)
	p.serves(t)
	before := p.burden(t)
	p.crowd(t)
	first := p.settled(t, before)
	p.crowd(t)
	second := p.settled(t, before)
	t.Logf("before %+v, after one crowd %+v, after two %+v", before, first, second)
	if second.peak > first.peak+64<<10 {
		t.Error("memory grows with each crowd")
	}
	// The limit of bytes in flight, and what waits for the garbage collector.
	if second.peak > before.rss+3*64<<10 {
		t.Errorf("memory went from %d KiB to %d KiB, with 64 MiB allowed to be in flight", before.rss, second.peak)
	}
}

// crowd lets every kind of bad client at the collector at once.
func (p *process) crowd(t *testing.T) {
	t.Helper()
	const idle, slow = 2000, 100
	var all sync.WaitGroup
	for range idle {
		c := dial(t, p.Addr())
		defer c.Close()
	}
	p.serves(t)

	// A byte now and then, of headers and of a body: neither may go on for long. An
	// answer is lost where a byte arrives after the connection was closed.
	trickle := func(head string, want ...string) {
		c := dial(t, p.Addr())
		defer c.Close()
		if _, err := io.WriteString(c, head); err != nil {
			t.Error(err)
			return
		}
		done := make(chan struct{})
		defer close(done)
		go func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					if _, err := io.WriteString(c, "x"); err != nil {
						return
					}
				case <-done:
					return
				}
			}
		}()
		if got := statuses(answers(t, c)); !slices.Contains(want, got) {
			t.Errorf("a slow client was answered %q, want one of %q", got, want)
		}
	}
	for range slow {
		all.Go(func() { trickle("POST /a/b HTTP/1.1\r\nHost: c\r\nX: ", "") })
		all.Go(func() { trickle("POST /a/b HTTP/1.1\r\nHost: c\r\nContent-Length: 1000\r\n\r\n", "408", "503", "") })
	}
	// Bodies that stop just before their end: more than memory is to hold.
	most := "POST /a/b HTTP/1.1\r\nHost: c\r\nContent-Length: 1048576\r\n\r\n" + strings.Repeat("x", 1<<20-1)
	for range slow {
		all.Go(func() {
			c := dial(t, p.Addr())
			defer c.Close()
			go func() { _, _ = io.WriteString(c, most) }()
			if got := statuses(answers(t, c)); got != "408" && got != "503" && got != "" {
				t.Errorf("a body without an end was answered %q", got)
			}
		})
	}
	// Who finds the memory full is told to come again, and is let in before long.
	proc.Eventually(t, patience, func() error {
		got := statuses(exchange(t, p.Addr(), "POST /a/b HTTP/1.1\r\nHost: c\r\nContent-Length: 3\r\n\r\nabc"))
		if got != "200" {
			return fmt.Errorf("an ordinary event is answered %s", got)
		}
		return nil
	})
	all.Wait()

	const piped = 300
	p.stored(t)
	got := exchange(t, p.Addr(), strings.Repeat("GET /i?e=pv HTTP/1.1\r\nHost: c\r\n\r\n", piped))
	taken := 0
	for _, r := range got {
		if r.StatusCode == http.StatusOK {
			taken++
		}
	}
	if n := p.stored(t); len(got) != piped || taken != piped || n != piped {
		t.Errorf("of %d requests in a row %d were answered, %d with 200, and %d stored", piped, len(got), taken, n)
	}
	p.serves(t)
}

// burden is what a collector holds.
type burden struct {
	rss, peak          int64 // in KiB, now and at most
	goroutines, openFD float64
}

func (p *process) burden(t *testing.T) burden {
	t.Helper()
	b := burden{goroutines: p.metric(t, "go_goroutines"), openFD: p.metric(t, "process_open_fds")}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Collector.Process().PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		for name, into := range map[string]*int64{"VmRSS": &b.rss, "VmHWM": &b.peak} {
			if value, ok := strings.CutPrefix(line, name+":"); ok {
				if _, err := fmt.Sscan(value, into); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return b
}

func (p *process) metric(t *testing.T, name string) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	body, err := proc.HTTP(ctx, p.AdminURL()+healthapi.PathMetrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// settled waits until the collector holds no more connections and goroutines than
// before, give or take a few.
func (p *process) settled(t *testing.T, before burden) burden {
	t.Helper()
	var now burden
	proc.Eventually(t, patience, func() error {
		now = p.burden(t)
		if now.goroutines > before.goroutines+20 || now.openFD > before.openFD+20 {
			return fmt.Errorf("before %+v, now %+v", before, now)
		}
		return nil
	})
	return now
}
