package ingest

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"spillway/collector/internal/admission"
	"spillway/collector/internal/payload"
	"spillway/shared/configfile"
)

func canonical(line string) string {
	name, rest, ok := strings.Cut(line, ": ")
	if !ok {
		return textproto.CanonicalMIMEHeaderKey(line)
	}
	return textproto.CanonicalMIMEHeaderKey(name) + ": " + strings.TrimSpace(rest)
}

// do answers one request without a connection.
func (w *world) do(method, target, body string) answer {
	return w.serve(httptest.NewRequest(method, target, strings.NewReader(body)))
}

func (w *world) serve(r *http.Request) answer {
	r.Header.Set("Origin", "https://shop.example")
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return answer{status: rec.Code, header: rec.Result().Header, body: rec.Body.String()}
}

const tp2 = "/com.snowplowanalytics.snowplow/tp2"

func TestServer_answers503WhenNothingCanBeStored(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxRecordBytes = 10000 })
	large := `{"schema":"iglu:a/b/jsonschema/1-0-0","data":[{"e":"pv"},"` + strings.Repeat("x", 10000) + `"]}`
	for _, tc := range []struct {
		name, fails, body string
		calls             []string
	}{
		{"good", "good", "foo", []string{"good"}},
		{"bad row", "bad", large, []string{"dead letters", "bad"}},
		{"dead letters", "dead letters", large, []string{"dead letters"}},
		{"events beside a bad row", "good", large, []string{"dead letters", "bad", "good"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.store.take()
			w.store.fail = map[string]error{tc.fails: errors.New("append segment /secret/path: no space left on device")}
			rec := w.do("POST", tp2, tc.body)
			if rec.status != 503 || rec.header.Get("Retry-After") != "3" {
				t.Errorf("got %d with %v", rec.status, rec.header)
			}
			if strings.Contains(rec.body, "secret") {
				t.Errorf("the tracker is told %q", rec.body)
			}
			wantScriptsSeeIt(t, rec)
			if !slices.Equal(w.store.calls, tc.calls) {
				t.Errorf("stored in the order %q, want %q", w.store.calls, tc.calls)
			}
		})
	}
	if w.RefusedTotal() != 4 {
		t.Errorf("RefusedTotal() = %d, want 4", w.RefusedTotal())
	}
	w.store.take()
	// Four failures for two reasons in turn, and then all is well again.
	w.store.fail = nil
	if rec := w.do("POST", tp2, large); rec.status != 200 {
		t.Fatalf("got %d", rec.status)
	}
	if good, bad, kept := w.store.take(); len(good) != 1 || len(bad) != 1 || len(kept) != 1 {
		t.Errorf("stored %d good, %d bad, %d kept", len(good), len(bad), len(kept))
	}
	if n := strings.Count(w.log.String(), "events cannot be stored"); n != 3 {
		t.Errorf("logged %d times that storing fails, want 3:\n%s", n, w.log)
	}
	if !strings.Contains(w.log.String(), "events can be stored again") {
		t.Errorf("recovery is not in the log:\n%s", w.log)
	}
	// What was stored before something else failed counts too.
	if good, bad, kept := w.AcceptedTotal(), testutil.ToFloat64(w.metrics.bad), testutil.ToFloat64(w.metrics.oversize); good != 1 || bad != 2 || kept != 3 {
		t.Errorf("counted %d good, %v bad, %v kept", good, bad, kept)
	}
}

func TestServer_neverA200AfterTheAppendTimeout(t *testing.T) {
	for name, before := range map[string]func(context.Context) error{
		"store gives up at the end of the context": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"store is late and succeeds":               func(context.Context) error { <-time.After(time.Minute); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				w.store.before = before
				begun := time.Now()
				rec := w.do("POST", tp2, "foo")
				if rec.status != 503 || !strings.Contains(rec.body, "took too long") {
					t.Errorf("got %d %q after %s", rec.status, rec.body, time.Since(begun))
				}
				if name == "store gives up at the end of the context" && time.Since(begun) != 4500*time.Millisecond {
					t.Errorf("answered after %s", time.Since(begun))
				}
				if n := testutil.ToFloat64(w.metrics.refusals.WithLabelValues("timeout")); n != 1 {
					t.Errorf("counted %v time-outs", n)
				}
			})
		})
	}
}

func TestServer_storesWhatADepartingBrowserSent(t *testing.T) {
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	w.store.before = func(ctx context.Context) error { cancel(); return ctx.Err() }
	r := httptest.NewRequest("GET", "/i?e=pv", nil).WithContext(ctx)
	w.serve(r)
	if good, _, _ := w.store.take(); len(good) != 1 {
		t.Error("the last event of a page is lost when the browser leaves")
	}
}

func TestServer_gateDecidesBeforeTheBodyIsRead(t *testing.T) {
	w := newWorld(t, nil)
	w.gate.shut[admission.Post] = "the backlog is full"
	r := httptest.NewRequest("POST", tp2, unreadable{t})
	rec := w.serve(r)
	if rec.status != 503 || rec.body != "the backlog is full" || rec.header.Get("Retry-After") != "7" {
		t.Errorf("got %d %q %v", rec.status, rec.body, rec.header)
	}
	wantScriptsSeeIt(t, rec)
	for target, want := range map[string]int{"/i": 200, "/health": 200, "/nothing": 404} {
		if rec := w.do("GET", target, ""); rec.status != want {
			t.Errorf("GET %s: %d, want %d", target, rec.status, want)
		}
	}
	w.gate.shut[admission.Pixel] = "the backlog is full"
	for _, tc := range []struct {
		method, target string
		want           int
	}{{"GET", "/i", 503}, {"HEAD", "/i", 503}, {"GET", "/health", 200}, {"OPTIONS", tp2, 200}} {
		if rec := w.do(tc.method, tc.target, ""); rec.status != tc.want {
			t.Errorf("%s %s: %d, want %d", tc.method, tc.target, rec.status, tc.want)
		}
	}
}

type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestServer_refusesWhatMemoryCannotHold(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.MaxBodyBytes, c.MaxInFlightBytes = 1<<20, configfile.Size(charge(1<<20))
	})
	release, entered := make(chan struct{}), make(chan struct{})
	w.store.before = func(context.Context) error { entered <- struct{}{}; <-release; return nil }
	done := make(chan int)
	go func() { done <- w.do("POST", tp2, strings.Repeat("a", 900<<10)).status }()
	<-entered
	rec := w.do("POST", tp2, strings.Repeat("b", 900<<10))
	if rec.status != 503 || !strings.Contains(rec.body, "bytes in flight") {
		t.Errorf("got %d %q", rec.status, rec.body)
	}
	if rec := w.do("GET", "/health", ""); rec.status != 200 {
		t.Errorf("the health check got %d", rec.status)
	}
	close(release)
	if code := <-done; code != 200 {
		t.Errorf("the first request got %d", code)
	}
	if n := w.inFlight.Load(); n != 0 {
		t.Errorf("%d bytes are still charged", n)
	}
	go func() { <-entered }()
	if rec := w.do("POST", tp2, strings.Repeat("c", 900<<10)); rec.status != 200 {
		t.Errorf("after that: %d", rec.status)
	}
}

func TestServer_limitsBodies(t *testing.T) {
	w := listening(t, func(c *Config) { c.MaxBodyBytes = 100 << 10 })
	chunked := func(n int, more string) string {
		return "POST " + tp2 + " HTTP/1.1\r\nHost: c\r\nOrigin: https://shop.example\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1000\r\n"+strings.Repeat("a", 4096)+"\r\n", n) + more + "0\r\n\r\n"
	}
	for name, tc := range map[string]struct {
		raw  string
		want int
	}{
		"at the limit":           {post(strings.Repeat("a", 100<<10)), 200},
		"over the limit":         {post(strings.Repeat("a", 100<<10+1)), 413},
		"far over the limit":     {post(strings.Repeat("a", 3<<20)), 413},
		"announced, never sent":  {"POST /a/b HTTP/1.1\r\nHost: c\r\nOrigin: https://shop.example\r\nContent-Length: 99999999999\r\n\r\n", 413},
		"chunked, at the limit":  {chunked(25, ""), 200},
		"chunked, over":          {chunked(25, "1\r\na\r\n"), 413},
		"cut off":                {"POST /a/b HTTP/1.1\r\nHost: c\r\nOrigin: https://shop.example\r\nContent-Length: 10\r\n\r\nabc", 400},
		"chunked, malformed":     {"POST /a/b HTTP/1.1\r\nHost: c\r\nOrigin: https://shop.example\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
		"empty":                  {post(""), 200},
		"without a length":       {"POST /a/b HTTP/1.0\r\nHost: c\r\n\r\n", 200},
		"expecting 100-continue": {post("abc", "Expect: 100-continue"), 200},
	} {
		t.Run(name, func(t *testing.T) {
			w.store.take()
			all := exchangeRaw(t, w.addr, tc.raw)
			if len(all) != 1 || all[0].status != tc.want {
				t.Fatalf("got %+v, want one answer of %d", all, tc.want)
			}
			good, _, _ := w.store.take()
			if (tc.want == 200) != (len(good) == 1) {
				t.Errorf("stored %d records", len(good))
			}
			if tc.want != 200 {
				wantScriptsSeeIt(t, all[0])
			}
		})
	}
}

func TestServer_limitsRequestLineAndHeaders(t *testing.T) {
	w := listening(t, nil)
	line := func(n int) string { // a request line of n bytes
		return "GET /i?" + strings.Repeat("a", n-len("GET /i? HTTP/1.1")) + " HTTP/1.1\r\nHost: c\r\nOrigin: https://shop.example\r\nConnection: close\r\n\r\n"
	}
	header := func(n int) string {
		return "GET /i HTTP/1.1\r\nHost: c\r\nOrigin: https://shop.example\r\nConnection: close\r\nX-Filler: " + strings.Repeat("a", n) + "\r\n\r\n"
	}
	for name, tc := range map[string]struct {
		raw  string
		want int
	}{
		"DV-19 line at the limit":  {line(20480), 200},
		"DV-19 line over":          {line(20481), 400},
		"DV-19 headers near":       {header(40800), 200},
		"DV-19 headers over":       {header(40960), 400},
		"headers far over":         {header(200000), 431},
		"health is under no limit": {strings.Replace(header(40960), "/i ", "/health ", 1), 200},
	} {
		t.Run(name, func(t *testing.T) {
			all := exchangeRaw(t, w.addr, tc.raw)
			if len(all) != 1 || all[0].status != tc.want {
				t.Fatalf("got %d answers, the first %+v, want %d", len(all), all[:min(len(all), 1)], tc.want)
			}
			if tc.want == 400 {
				wantScriptsSeeIt(t, all[0])
			}
		})
	}
}

func TestServer_answers408ToASlowBody(t *testing.T) {
	w := listening(t, func(c *Config) { c.RequestTimeout = 100 * time.Millisecond })
	c := dial(t, w.addr)
	if _, err := io.WriteString(c, "POST /a/b HTTP/1.1\r\nHost: c\r\nOrigin: https://shop.example\r\nContent-Length: 10\r\n\r\nabc"); err != nil {
		t.Fatal(err)
	}
	all := read(t, c, "POST")
	if len(all) != 1 || all[0].status != 408 {
		t.Fatalf("got %+v", all)
	}
	wantScriptsSeeIt(t, all[0])
	if good, _, _ := w.store.take(); len(good) != 0 {
		t.Error("half an event was stored")
	}
}

func TestServer_takesManyRequestsOnOneConnection(t *testing.T) {
	w := listening(t, nil)
	raw := strings.Repeat(post("foo"), 50) + "GET /i?last HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"
	all := exchangeRaw(t, w.addr, raw)
	if len(all) != 51 {
		t.Fatalf("got %d answers", len(all))
	}
	good, _, _ := w.store.take()
	if len(good) != 51 {
		t.Fatalf("stored %d", len(good))
	}
	for i, r := range good[:50] {
		if p, err := payload.Decode(r.Data); err != nil || string(p.Body) != "foo" {
			t.Fatalf("record %d is %+v, %v", i, p, err)
		}
	}
}

func TestServer_Shutdown_answersWhatHasBegun(t *testing.T) {
	w := newWorld(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.Serve(ln) }()
	release, entered := make(chan struct{}), make(chan struct{})
	w.store.before = func(context.Context) error { close(entered); <-release; return nil }
	c := dial(t, ln.Addr().String())
	if _, err := io.WriteString(c, post("foo")); err != nil {
		t.Fatal(err)
	}
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- w.Shutdown(context.Background()) }()
	if err := <-served; err != nil { // the listener is closed
		t.Fatal(err)
	}
	close(release)
	all := read(t, c, "POST")
	if len(all) != 1 || all[0].status != 200 || !all[0].close {
		t.Errorf("got %+v", all)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if n := w.Connections(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
}

func TestServer_Shutdown_saysWhenItCutOff(t *testing.T) {
	w := newWorld(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.Serve(ln) }()
	entered, left := make(chan struct{}), make(chan struct{})
	w.store.before = func(ctx context.Context) error { close(entered); <-left; return errors.New("stopped") }
	c := dial(t, ln.Addr().String())
	if _, err := io.WriteString(c, post("foo")); err != nil {
		t.Fatal(err)
	}
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	if all := read(t, c, "POST"); len(all) != 0 {
		t.Errorf("got %+v", all)
	}
	close(left)
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestServer_SetConfig_keepsTheOldOneOnError(t *testing.T) {
	w := newWorld(t, nil)
	cfg := DefaultConfig()
	cfg.Cookie.Name = "bad name"
	if err := w.SetConfig(cfg); err == nil {
		t.Fatal("a bad configuration was taken")
	}
	if rec := w.do("GET", "/i", ""); !strings.HasPrefix(rec.header.Get("Set-Cookie"), "sp=") {
		t.Errorf("cookie is %q", rec.header.Get("Set-Cookie"))
	}
	cfg.Cookie.Name = "other"
	if err := w.SetConfig(cfg); err != nil {
		t.Fatal(err)
	}
	if rec := w.do("GET", "/i", ""); !strings.HasPrefix(rec.header.Get("Set-Cookie"), "other=") {
		t.Errorf("cookie is %q", rec.header.Get("Set-Cookie"))
	}
}

func TestServer_limitsConnections(t *testing.T) {
	w := listening(t, func(c *Config) { c.MaxConnections = 1 })
	first := dial(t, w.addr)
	in := bufio.NewReader(first)
	ask := func(c net.Conn) {
		if _, err := io.WriteString(c, "GET /health HTTP/1.1\r\nHost: c\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	ask(first)
	if a, err := readOne(in, "GET"); err != nil || a.status != 200 {
		t.Fatalf("%+v, %v", a, err)
	}
	second := dial(t, w.addr)
	ask(second)
	ask(first)
	if a, err := readOne(in, "GET"); err != nil || a.status != 200 {
		t.Fatalf("%+v, %v", a, err)
	}
	if n := w.Connections(); n != 1 {
		t.Errorf("%d connections are open", n)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if a, err := readOne(bufio.NewReader(second), "GET"); err != nil || a.status != 200 {
		t.Errorf("the waiting connection got %+v, %v", a, err)
	}
}

func TestServer_servesTLSAndReloadsTheCertificate(t *testing.T) {
	dir := t.TempDir()
	pair := TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	writeCertificate(t, pair, "first.example")
	w := listening(t, func(c *Config) { c.TLS = pair })
	name := func() string {
		c, err := tls.Dial("tcp", w.addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, post("foo", "Connection: close")); err != nil {
			t.Fatal(err)
		}
		if all := read(t, c, "POST"); len(all) != 1 || all[0].status != 200 {
			t.Fatalf("got %+v", all)
		}
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "first.example" {
		t.Errorf("certificate is for %s", got)
	}
	writeCertificate(t, pair, "second.example")
	cfg := DefaultConfig()
	cfg.TLS = pair
	if err := w.SetConfig(cfg); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "second.example" {
		t.Errorf("certificate is for %s", got)
	}
	if err := os.WriteFile(pair.CertFile, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.SetConfig(cfg); err == nil {
		t.Error("a broken certificate was taken")
	}
	if got := name(); got != "second.example" {
		t.Errorf("after a broken reload the certificate is for %s", got)
	}
}

func writeCertificate(t *testing.T, to TLS, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{to.CertFile: {Type: "CERTIFICATE", Bytes: cert}, to.KeyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServer_doesNotUseMemoryAgainThatAStoreMayStillRead(t *testing.T) {
	w := newWorld(t, nil)
	var kept []Record
	w.deps.Store = storeFunc(func(_ context.Context, records []Record) error {
		kept = append(kept, records...)
		return errors.New("no")
	})
	for i := range 100 {
		w.do("POST", tp2, strings.Repeat(string(rune('a'+i%26)), 100))
	}
	for i, r := range kept {
		p, err := payload.Decode(r.Data)
		if want := strings.Repeat(string(rune('a'+i%26)), 100); err != nil || string(p.Body) != want {
			t.Fatalf("record %d was overwritten: %v", i, err)
		}
	}
}

var _ http.Handler = (*Server)(nil)

func TestServer_Drain_sendsClientsElsewhere(t *testing.T) {
	w := listening(t, nil)
	if all := exchangeRaw(t, w.addr, strings.Repeat(post("foo"), 2)); len(all) != 2 || all[0].close {
		t.Fatalf("before: %+v", all)
	}
	w.Drain()
	if all := exchangeRaw(t, w.addr, strings.Repeat(post("foo"), 2)); len(all) != 1 || !all[0].close || all[0].status != 200 {
		t.Errorf("after: %+v", all)
	}
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"cookie.name: ":                func(c *Config) { c.Cookie.Name = "" },
		"max_body_bytes: 0B":           func(c *Config) { c.MaxBodyBytes = 0 },
		"max_in_flight_bytes: 1MiB":    func(c *Config) { c.MaxInFlightBytes = 1 << 20 },
		"max_connections: 0":           func(c *Config) { c.MaxConnections = 0 },
		"max_request_line_bytes: 2MiB": func(c *Config) { c.MaxRequestLineBytes = 2 << 20 },
		"max_header_bytes: 1B":         func(c *Config) { c.MaxHeaderBytes = 1 },
		"header_timeout: 0s":           func(c *Config) { c.HeaderTimeout = 0 },
		"request_timeout: -1s":         func(c *Config) { c.RequestTimeout = -time.Second },
		"idle_timeout: 0s":             func(c *Config) { c.IdleTimeout = 0 },
		"append_timeout: 0s":           func(c *Config) { c.AppendTimeout = 0 },
		"tls: ":                        func(c *Config) { c.TLS.CertFile = "x" },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains("\n"+err.Error(), "\n"+want) {
			t.Errorf("got %v, want an error with a line that begins with %q", err, want)
		}
	}
}

func TestServer_announcementsKeepNobodyOut(t *testing.T) {
	w := listening(t, func(c *Config) { c.MaxInFlightBytes = configfile.Size(charge(int(c.MaxBodyBytes))) })
	begun := make(chan struct{}, 100)
	for range cap(begun) {
		c := dial(t, w.addr)
		if _, err := io.WriteString(c, "POST /a/b HTTP/1.1\r\nHost: c\r\nExpect: 100-continue\r\nContent-Length: 10485760\r\n\r\na"); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = bufio.NewReader(c).ReadSlice('\n') // the server has begun to read the body
			begun <- struct{}{}
		}()
	}
	for range cap(begun) {
		<-begun
	}
	if n := w.inFlight.Load(); n == 0 {
		t.Fatal("no request is being read")
	}
	if rec := w.do("POST", tp2, strings.Repeat("a", 1<<20)); rec.status != 200 {
		t.Errorf("beside a hundred who announce and do not send: %d %q", rec.status, rec.body)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = w.http.Close() // they would hold up the end of the test
	_ = w.Shutdown(ctx)
}
