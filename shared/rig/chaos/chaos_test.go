package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/shared/rig/chaos"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const body = "a body of some length that a limit can cut in the middle"

// start returns a proxy before a server that answers body and counts requests.
func start(t *testing.T) (p *chaos.Proxy, get func(timeout time.Duration) error, requests chan struct{}) {
	t.Helper()
	requests = make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- struct{}{}
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	p, err := chaos.Start(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	get = func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", p.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err == nil && string(got) != body {
			err = fmt.Errorf("body %q", got)
		}
		return err
	}
	return p, get, requests
}

const long = 10 * time.Second

func TestProxy_faults_strikeAndAreMended(t *testing.T) {
	timedOut := func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
	for _, c := range []struct {
		name    string
		fault   func(*chaos.Proxy) error
		timeout time.Duration
		seen    func(error) bool
		arrived int
	}{
		{"blackhole of requests", func(p *chaos.Proxy) error { return p.Blackhole(chaos.Requests) }, 200 * time.Millisecond, timedOut, 0},
		{"blackhole of answers", func(p *chaos.Proxy) error { return p.Blackhole(chaos.Answers) }, time.Second, timedOut, 1},
		{"limit", func(p *chaos.Proxy) error { return p.LimitData(chaos.Answers, 130) }, long,
			func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }, 1},
		{"reset", func(p *chaos.Proxy) error { return p.ResetPeer(chaos.Requests, 0) }, long,
			func(err error) bool { return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) }, 0},
		{"cut", func(p *chaos.Proxy) error { p.Cut(); return nil }, long,
			func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, get, requests := start(t)
			if err := c.fault(p); err != nil {
				t.Fatal(err)
			}
			if err := get(c.timeout); !c.seen(err) {
				t.Errorf("the client saw %v", err)
			}
			if n := len(requests); n != c.arrived {
				t.Errorf("%d requests arrived, want %d", n, c.arrived)
			}
			if err := p.Mend(); err != nil {
				t.Fatal(err)
			}
			if err := get(long); err != nil {
				t.Errorf("after mending: %v", err)
			}
		})
	}
}

func TestProxy_Latency_delaysAnswers(t *testing.T) {
	p, get, _ := start(t)
	if err := p.Latency(chaos.Answers, 300*time.Millisecond, 0); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := get(long); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 300*time.Millisecond {
		t.Errorf("the answer took %v", took)
	}
}

func TestProxy_faults_strikeOpenConnections(t *testing.T) {
	p, get, _ := start(t)
	if err := get(long); err != nil {
		t.Fatal(err)
	}
	if err := p.Blackhole(chaos.Answers); err != nil {
		t.Fatal(err)
	}
	if err := get(200 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("over a connection that was open before: %v", err)
	}
}

func TestProxy_Cut_refusesAndMendListensOnTheSamePort(t *testing.T) {
	p, get, _ := start(t)
	addr := p.Addr()
	for range 3 {
		p.Cut()
		p.Cut() // twice is once
		if conn, err := net.Dial("tcp4", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("while cut: %v, %v", conn, err)
		}
		if err := p.Mend(); err != nil {
			t.Fatal(err)
		}
		if err := get(long); err != nil {
			t.Errorf("after mending: %v", err)
		}
	}
}
