package httpserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"spillway/shared/httpserver"
)

func quiet() *logrus.Entry {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	return logrus.NewEntry(logger)
}

// running is a server within a test.
type running struct {
	addr   string
	stop   context.CancelFunc
	result chan error
}

func run(t *testing.T, c httpserver.Config, h http.HandlerFunc) running {
	t.Helper()
	s := httpserver.New(listen(t, "127.0.0.1:0"), h, c, quiet())
	ctx, stop := context.WithCancel(t.Context())
	r := running{addr: s.Addr().String(), stop: stop, result: make(chan error, 1)}
	go func() { r.result <- s.Run(ctx) }()
	t.Cleanup(stop)
	return r
}

// get sends one request on a connection of its own.
func get(addr string) (int, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + addr + "/")
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// waitClosed returns when addr refuses connections.
func waitClosed(t *testing.T, addr string) {
	t.Helper()
	for t.Context().Err() == nil {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

func TestServer_Run_finishesRunningRequests(t *testing.T) {
	defer goleak.VerifyNone(t)
	entered, release := make(chan struct{}), make(chan struct{})
	s := run(t, httpserver.DefaultConfig(), func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		if err := r.Context().Err(); err != nil {
			t.Errorf("the context of a running request was cancelled: %v", err)
		}
	})
	type answer struct {
		status int
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		status, err := get(s.addr)
		answered <- answer{status, err}
	}()
	<-entered
	s.stop()
	waitClosed(t, s.addr)
	select {
	case err := <-s.result:
		t.Fatalf("Run ended with a request running: %v", err)
	default:
	}
	close(release)
	if a := <-answered; a.err != nil || a.status != http.StatusOK {
		t.Errorf("got %+v, want 200", a)
	}
	if err := <-s.result; err != nil {
		t.Error(err)
	}
}

func TestServer_Run_cutsOffAtTheTimeout(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := httpserver.DefaultConfig()
	c.ShutdownTimeout = 0
	entered := make(chan struct{})
	left := make(chan struct{})
	s := run(t, c, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(left)
	})
	failed := make(chan error, 1)
	go func() {
		_, err := get(s.addr)
		failed <- err
	}()
	<-entered
	s.stop()
	if err := <-s.result; !errors.Is(err, httpserver.ErrCutOff) {
		t.Errorf("got %v, want ErrCutOff", err)
	}
	if err := <-failed; err == nil {
		t.Error("a request that was cut off got an answer")
	}
	<-left
}

func TestServer_Run_saysWhyServingFailed(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	s := httpserver.New(l, http.NotFoundHandler(), httpserver.DefaultConfig(), quiet())
	_ = l.Close()
	if err := s.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want that the listener is closed", err)
	}
}

func TestServer_closesASilentConnection(t *testing.T) {
	c := httpserver.DefaultConfig()
	c.ReadHeaderTimeout = time.Millisecond
	s := run(t, c, func(http.ResponseWriter, *http.Request) {})
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost:")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Logf("closed by %v", err)
	}
	s.stop()
	if err := <-s.result; err != nil {
		t.Error(err)
	}
}

func TestConfig_Validate(t *testing.T) {
	if err := httpserver.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := httpserver.Config{ReadTimeout: -time.Second, WriteTimeout: -1, ShutdownTimeout: -1}.Validate()
	want := `read_header_timeout: 0s: want more than zero
read_timeout: -1s: want more than zero
idle_timeout: 0s: want more than zero
write_timeout: -1ns: want zero or more
shutdown_timeout: -1ns: want zero or more
max_header_bytes: 0B: want more than zero, up to 1GiB`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}
