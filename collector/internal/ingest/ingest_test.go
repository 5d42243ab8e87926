package ingest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"spillway/collector/internal/admission"
	"spillway/collector/internal/ingest/protocol"
	"spillway/collector/internal/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a Store and DeadLetters that keeps what it is given and can be told
// to fail. It asserts that what it was given is not changed before it returns.
type memory struct {
	mu     sync.Mutex
	good   []protocol.Record
	bad    []protocol.Record
	kept   []protocol.Record
	calls  []string
	fail   map[string]error            // by "good", "bad" or "dead letters"
	before func(context.Context) error // called without the lock
}

func (m *memory) Append(ctx context.Context, lane sink.Lane, records []Record) error {
	return m.put(ctx, string(lane), records)
}

func (m *memory) Put(ctx context.Context, _ string, records ...Record) error {
	return m.put(ctx, "dead letters", records)
}

func (m *memory) put(ctx context.Context, where string, records []Record) error {
	if m.before != nil {
		if err := m.before(ctx); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, where)
	if err := m.fail[where]; err != nil {
		return err
	}
	for _, r := range records {
		own := protocol.Record{Key: r.Key, Data: bytes.Clone(r.Data)}
		switch where {
		case "good":
			m.good = append(m.good, own)
		case "bad":
			m.bad = append(m.bad, own)
		default:
			m.kept = append(m.kept, own)
		}
	}
	return nil
}

func (m *memory) take() (good, bad, kept []protocol.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	good, bad, kept = m.good, m.bad, m.kept
	m.good, m.bad, m.kept, m.calls = nil, nil, nil, nil
	return good, bad, kept
}

// gate lets in what it is told to.
type gate struct{ shut map[admission.Kind]string }

func (g *gate) Admit(kind admission.Kind) (bool, string, time.Duration) {
	if why, ok := g.shut[kind]; ok {
		return false, why, 7 * time.Second
	}
	return true, "", 0
}

func (g *gate) RetryAfter() time.Duration { return 3 * time.Second }

type world struct {
	*Server
	store *memory
	gate  *gate
	addr  string
	log   *bytes.Buffer // to be read when no request is running
}

// newWorld returns a server that listens nowhere.
func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	w := &world{store: &memory{fail: map[string]error{}}, gate: &gate{shut: map[admission.Kind]string{}}, log: &bytes.Buffer{}}
	logger := logrus.New()
	logger.SetOutput(w.log)
	logger.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true})
	s, err := New(cfg, Deps{
		Store: w.store, DeadLetters: w.store, Gate: w.gate, SinkHealthy: func() bool { return true },
		Log: logrus.NewEntry(logger), Metrics: prometheus.NewRegistry(),
		Collector: "spillway-0.0.0-test", ProcessorName: "spillway", ProcessorVersion: "0.0.0",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Server = s
	return w
}

// listening returns a server that listens on loopback until the test ends.
func listening(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w := newWorld(t, change)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- w.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return w
}

// dial opens a connection that gives up rather than hang.
func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

type answer struct {
	status int
	header http.Header
	body   string
	close  bool // the connection ends with it
}

// read reads answers until the connection ends.
func read(t testing.TB, c io.Reader, method string) (all []answer) {
	t.Helper()
	in := bufio.NewReader(c)
	for {
		if _, err := in.Peek(1); err != nil {
			return all
		}
		a, err := readOne(in, method)
		if err != nil {
			t.Fatalf("after %d answers: %v", len(all), err)
		}
		if a.status != http.StatusContinue {
			all = append(all, a)
		}
	}
}

func readOne(in *bufio.Reader, method string) (answer, error) {
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.ContentLength < 0 {
		err = nil // it ends with the connection, in whatever way
	}
	return answer{resp.StatusCode, resp.Header, string(body), resp.Close}, err
}

// exchangeRaw sends bytes as they are, says that there are no more, and returns
// all answers.
func exchangeRaw(t testing.TB, addr, raw string) []answer {
	t.Helper()
	c := dial(t, addr)
	go func() {
		_, _ = io.WriteString(c, raw) // the server may stop reading early
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	return read(t, c, "POST")
}

func post(body string, headers ...string) string {
	lines := strings.Join(headers, "\r\n")
	if lines != "" {
		lines += "\r\n"
	}
	return fmt.Sprintf("POST /com.snowplowanalytics.snowplow/tp2 HTTP/1.1\r\nHost: c\r\nOrigin: https://shop.example\r\n%sContent-Length: %d\r\n\r\n%s",
		lines, len(body), body)
}

// wantScriptsSeeIt checks what every refusal of an event must carry.
func wantScriptsSeeIt(t *testing.T, a answer) {
	t.Helper()
	if a.header.Get("Access-Control-Allow-Origin") != "https://shop.example" || a.header.Get("Access-Control-Allow-Credentials") != "true" {
		t.Errorf("a script cannot see the %d: %v", a.status, a.header)
	}
	if a.body == "" {
		t.Errorf("the %d does not say why", a.status)
	}
}
