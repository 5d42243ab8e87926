package load_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spillway/shared/rig/load"
)

func TestRun_countsWhatIsAnswered(t *testing.T) {
	var served atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "hello" || r.URL.Path != "/a/b" {
			t.Errorf("got %q on %s (%v)", body, r.URL.Path, err)
		}
		n := served.Add(1)
		if n == 1000 {
			cancel()
		}
		if n%10 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok")
	}))
	defer srv.Close()
	address := strings.TrimPrefix(srv.URL, "http://")
	res := load.Run(ctx, address, 4, time.Minute, load.Post(address, "/a/b", "text/plain", []byte("hello")))
	if res.Errors != 0 || res.FirstError != nil {
		t.Fatalf("errors: %d, %v", res.Errors, res.FirstError)
	}
	if res.Requests < 850 || res.Other < 90 || int64(res.Requests+res.Other) > served.Load() {
		t.Errorf("got %+v of %d served", res, served.Load())
	}
	if res.P50 <= 0 || res.P99 < res.P50 || res.PerSecond() <= 0 {
		t.Errorf("latencies %v, %v", res.P50, res.P99)
	}
}

func TestRun_brokenConnectionsAreCounted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var served atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if served.Add(1) == 5 {
			cancel()
		}
		panic(http.ErrAbortHandler)
	}))
	defer srv.Close()
	address := strings.TrimPrefix(srv.URL, "http://")
	res := load.Run(ctx, address, 1, time.Minute, load.Post(address, "/", "text/plain", nil))
	if res.Requests != 0 || res.Errors < 4 || res.FirstError == nil {
		t.Errorf("got %+v", res)
	}
}
