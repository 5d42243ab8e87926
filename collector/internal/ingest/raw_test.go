package ingest

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"spillway/collector/internal/payload"
	"spillway/collector/internal/sink"
)

type storeFunc func(context.Context, []Record) error

func (f storeFunc) Append(ctx context.Context, _ sink.Lane, records []Record) error {
	return f(ctx, records)
}

// What nobody should send, byte for byte, and the statuses it is answered with.
func TestServer_rawRequests(t *testing.T) {
	w := listening(t, nil)
	body := "POST /a/b HTTP/1.1\r\nHost: c\r\n"
	for name, tc := range map[string]struct {
		raw    string
		want   []int
		stored int
	}{
		"two lengths that differ":          {body + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", []int{400}, 0},
		"the same length twice":            {body + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", []int{200}, 1},
		"a length with a sign":             {body + "Content-Length: +3\r\n\r\nabc", []int{400}, 0},
		"a negative length":                {body + "Content-Length: -3\r\n\r\nabc", []int{400}, 0},
		"a list of lengths":                {body + "Content-Length: 3, 3\r\n\r\nabc", []int{400}, 0},
		"a request hidden in another":      {body + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET /i?hidden HTTP/1.1\r\nHost: c\r\n\r\n", []int{200}, 1},
		"another transfer coding":          {body + "Transfer-Encoding: gzip, chunked\r\n\r\n", []int{501}, 0},
		"chunked that is not quite":        {body + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", []int{501}, 0},
		"space before a colon":             {body + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", []int{400}, 0},
		"a folded header":                  {"GET /i HTTP/1.1\r\nHost: c\r\nX: a\r\n b\r\n\r\n", []int{200}, 1},
		"a bare carriage return":           {"GET /i HTTP/1.1\r\nHost: c\r\nX: a\rb\r\n\r\n", []int{400}, 0},
		"a null byte in a header":          {"GET /i HTTP/1.1\r\nHost: c\r\nX: a\x00b\r\n\r\n", []int{400}, 0},
		"a null byte in the target":        {"GET /i?\x00 HTTP/1.1\r\nHost: c\r\n\r\n", []int{400}, 0},
		"no host":                          {"GET /i HTTP/1.1\r\n\r\n", []int{400}, 0},
		"two hosts":                        {"GET /i HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", []int{400}, 0},
		"a host that is none":              {"GET /i HTTP/1.1\r\nHost: a b\r\n\r\n", []int{400}, 0},
		"HTTP/1.0":                         {"GET /i HTTP/1.0\r\n\r\n", []int{200}, 1},
		"HTTP/1.0 that stays":              {"GET /i HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /i HTTP/1.0\r\n\r\n", []int{200, 200}, 2},
		"HTTP/0.9":                         {"GET /i\r\n\r\n", []int{400}, 0},
		"HTTP/2 without asking":            {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{404}, 0},
		"a space in the target":            {"GET /i?a=b c HTTP/1.1\r\nHost: c\r\n\r\n", []int{400}, 0},
		"a broken escape in the path":      {"GET /a/%zz HTTP/1.1\r\nHost: c\r\n\r\n", []int{400}, 0},
		"a broken escape in the query":     {"GET /i?a=%zz HTTP/1.1\r\nHost: c\r\n\r\n", []int{200}, 1},
		"bytes that are no text":           {"GET /i?\xff\xfe HTTP/1.1\r\nHost: c\r\nUser-Agent: \xff\xfe\r\n\r\n", []int{200}, 1},
		"a fragment":                       {"GET /a/b?c=d#frg HTTP/1.1\r\nHost: c\r\n\r\n", []int{200}, 1},
		"an absolute target":               {"GET http://h.example/i?q HTTP/1.1\r\nHost: c\r\n\r\n", []int{200}, 1},
		"two slashes":                      {"GET //a/b HTTP/1.1\r\nHost: c\r\n\r\n", []int{404}, 0},
		"dots":                             {"GET /a/../b HTTP/1.1\r\nHost: c\r\n\r\n", []int{404}, 0},
		"a target of no path":              {"OPTIONS * HTTP/1.1\r\nHost: c\r\n\r\n", []int{200}, 0},
		"a tunnel":                         {"CONNECT c:443 HTTP/1.1\r\nHost: c\r\n\r\n", []int{404}, 0},
		"a TLS greeting":                   {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{400}, 0},
		"nothing":                          {"", nil, 0},
		"half a request line":              {"GET /i", []int{400}, 0},
		"line feeds alone":                 {"\n\n\n\n", []int{400}, 0},
		"an expectation nobody can fulfil": {body + "Expect: miracles\r\nContent-Length: 3\r\n\r\nabc", []int{417}, 0},
		"a method of its own":              {"BREW /a/b HTTP/1.1\r\nHost: c\r\n\r\n", []int{404}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w.store.take()
			all := exchangeRaw(t, w.addr, tc.raw)
			var got []int
			for _, a := range all {
				got = append(got, a.status)
			}
			if len(got) != len(tc.want) {
				t.Fatalf("answers are %v, want %v", got, tc.want)
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Fatalf("answers are %v, want %v", got, tc.want)
				}
			}
			if good, _, _ := w.store.take(); len(good) != tc.stored {
				t.Errorf("stored %d, want %d", len(good), tc.stored)
			}
		})
	}
	if n := testutil.ToFloat64(w.metrics.malformed); n < 10 {
		t.Errorf("counted only %v malformed requests", n)
	}
}

// TX-18: a target may have a scheme, a host and a fragment.
func TestServer_readsTargetsOfEveryForm(t *testing.T) {
	w := listening(t, nil)
	for target, want := range map[string]struct{ path, query, host string }{
		"/abc/def?a=12&b=13#frg":         {"/abc/def", "a=12&b=13", "c.example"},
		"/abc/def#frg":                   {"/abc/def", "", "c.example"},
		"/abc/def?":                      {"/abc/def", "", "c.example"},
		"/abc/def?a?b=/":                 {"/abc/def", "a?b=/", "c.example"},
		"http://h.example:81/i?q=%20":    {"/i", "q=%20", "h.example"},
		"http://h.example/a%2Db/c?#frag": {"/a-b/c", "", "h.example"},
	} {
		exchangeRaw(t, w.addr, "GET "+target+" HTTP/1.1\r\nHost: c.example:80\r\n\r\n")
		good, _, _ := w.store.take()
		if len(good) != 1 {
			t.Errorf("%s: stored %d", target, len(good))
			continue
		}
		p, err := payload.Decode(good[0].Data)
		if err != nil {
			t.Fatal(err)
		}
		if p.Path.String() != want.path || p.QueryString != payload.Some(want.query) || p.Hostname.String() != want.host {
			t.Errorf("%s: path %q, query %q, host %q", target, p.Path, p.QueryString, p.Hostname)
		}
	}
}

// Whatever bytes arrive, the server answers with HTTP or not at all, stores
// something for each event it answers with 200, and goes on serving.
func FuzzServer_rawBytes(f *testing.F) {
	f.Add(post("foo"))
	f.Add("GET /i?e=pv HTTP/1.1\r\nHost: c\r\nCookie: sp=a\r\n\r\n")
	f.Add("POST /a/b HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
	f.Add("OPTIONS /i HTTP/1.1\r\nHost: c\r\nOrigin: a://b\r\n\r\n")
	f.Add("GET /r/tp2?u=//x HTTP/1.1\r\nHost: c\r\nX-Forwarded-For: ::1\r\n\r\n")
	w := listening(f, func(c *Config) { c.Redirects.Enabled = true })
	f.Fuzz(func(t *testing.T, raw string) {
		w.store.take()
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			_, _ = io.WriteString(c, raw)
			_ = c.(*net.TCPConn).CloseWrite()
		}()
		all, err := io.ReadAll(c)
		if err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatal(err)
		}
		good, bad, _ := w.store.take()
		if answered := strings.Count(string(all), "Content-Type: text/plain\r\n"); answered > len(good)+len(bad) {
			t.Fatalf("%d POSTs were answered with 200 and %d records stored", answered, len(good)+len(bad))
		}
		if pixels := strings.Count(string(all), "Content-Type: image/gif\r\n"); pixels > len(good) {
			t.Fatalf("%d pixels were sent and %d records stored", pixels, len(good))
		}
		if len(all) > 0 && !strings.HasPrefix(string(all), "HTTP/1.") {
			t.Fatalf("answered %q", all)
		}
	})
}
