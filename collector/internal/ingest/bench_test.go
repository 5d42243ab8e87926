package ingest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"spillway/collector/internal/admission"
	"spillway/collector/internal/sink"
)

var _ Gate = (*admission.Gate)(nil)

// nothing stores nothing at no cost, so that what is measured is this package.
type nothing struct{}

func (nothing) Append(context.Context, sink.Lane, []Record) error { return nil }
func (nothing) Put(context.Context, string, ...Record) error      { return nil }

// aBody is a POST of a default tracker with one page view, about 1 KiB.
var aBody = `{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[{"e":"pv","url":"https://shop.example/` +
	strings.Repeat("a", 850) + `","p":"web","tv":"js-4.0.0"}]}`

var browserHeaders = []string{
	"Host: collector.example", "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
	"Accept: */*", "Accept-Language: en", "Accept-Encoding: gzip, deflate, br", "Content-Type: application/json; charset=UTF-8",
	"Origin: https://shop.example", "Referer: https://shop.example/", "X-Forwarded-For: 203.0.113.9",
	"Cookie: sp=dfdb716e-ecf9-4d00-8b10-44edfbc8a108",
}

type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkHandler is one event from its headers to its answer, without a
// connection.
func BenchmarkHandler(b *testing.B) {
	for name, method := range map[string]string{"post": "POST", "pixel": "GET"} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, nil)
			w.deps.Store = nothing{}
			target, content := tp2, aBody
			if method == "GET" {
				target, content = "/i?e=pv&p=web&tv=js-4.0.0", ""
			}
			r := httptest.NewRequest(method, target, nil)
			for _, h := range browserHeaders[1:] {
				name, value, _ := strings.Cut(h, ": ")
				r.Header.Set(name, value)
			}
			r.RemoteAddr = "10.0.0.7:40000"
			body := strings.NewReader(content)
			r.Body, r.ContentLength = io.NopCloser(body), int64(len(content))
			d := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(content)
				clear(d.header)
				w.ServeHTTP(d, r)
				if d.status != 200 {
					b.Fatal(d.status)
				}
			}
		})
	}
}

// BenchmarkServer is the whole way over loopback, beside a net/http server that
// does nothing but read the body and say ok.
func BenchmarkServer(b *testing.B) {
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{"text/plain"}
		_, _ = w.Write([]byte("ok"))
	})
	request := []byte("POST " + tp2 + " HTTP/1.1\r\n" + strings.Join(browserHeaders, "\r\n") +
		fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n%s", len(aBody), aBody))
	for _, conns := range []int{64, 256} {
		b.Run(fmt.Sprintf("bare/conns=%d", conns), func(b *testing.B) {
			server := httptest.NewServer(bare)
			defer server.Close()
			hammer(b, server.Listener.Addr().String(), request, conns)
		})
		b.Run(fmt.Sprintf("ingest/conns=%d", conns), func(b *testing.B) {
			w := listening(b, nil)
			w.deps.Store = nothing{}
			hammer(b, w.addr, request, conns)
		})
	}
}

// hammer sends the request b.N times over so many connections, each waiting for
// its answer.
func hammer(b *testing.B, addr string, request []byte, conns int) {
	var open []net.Conn
	for range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, c := range open {
		share := b.N / conns
		if i < b.N%conns {
			share++
		}
		wg.Go(func() {
			in := bufio.NewReader(c)
			for range share {
				if _, err := c.Write(request); err != nil {
					b.Error(err)
					return
				}
				if err := skipAnswer(in); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// skipAnswer reads an answer whose body is "ok", at little cost.
func skipAnswer(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("answered %q", line)
	}
	for len(line) > 2 {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
	}
	_, err = in.Discard(len("ok"))
	return err
}
