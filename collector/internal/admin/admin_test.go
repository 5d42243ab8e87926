package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"spillway/collector/internal/admin"
	"spillway/shared/healthapi"
	"spillway/shared/mode"
)

// box is a collector behind the listener that notes what it was asked for.
type box struct {
	ready    atomic.Pointer[error]
	flushes  atomic.Int64
	polls    atomic.Int64
	switched mode.Mode
	by       string
	level    string
	refuse   error
}

func (b *box) deps() admin.Deps {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return admin.Deps{
		Report: func() healthapi.Report { return healthapi.Report{Schema: 1, Instance: "box"} },
		Live:   func() error { return nil },
		Ready: func() error {
			if err := b.ready.Load(); err != nil {
				return *err
			}
			return nil
		},
		Flush: func() healthapi.Flush { return healthapi.Flush{Requested: b.flushes.Add(1)} },
		FlushStatus: func() healthapi.Flush {
			f := healthapi.Flush{Requested: b.flushes.Load()}
			if b.polls.Add(1) >= 3 {
				f.Completed, f.Result = f.Requested, healthapi.FlushDrained
			}
			return f
		},
		SwitchMode: func(_ context.Context, to mode.Mode, by, reason string) (mode.File, error) {
			if b.refuse != nil {
				return mode.File{}, b.refuse
			}
			b.switched, b.by = to, by
			return mode.File{Schema: 1, Mode: to, Rev: 3, By: by, Reason: reason}, nil
		},
		SetLogLevel: func(level string) error {
			if _, err := logrus.ParseLevel(level); err != nil {
				return err
			}
			b.level = level
			return nil
		},
		Gatherer: prometheus.NewRegistry(),
		Log:      logrus.NewEntry(log),
	}
}

func serve(t *testing.T, b *box, cfg admin.Config, private bool) *httptest.Server {
	t.Helper()
	s, err := admin.New(cfg, private, b.deps())
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv
}

func call(t *testing.T, srv *httptest.Server, method, path, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestServer_answersOnLoopbackWithoutToken(t *testing.T) {
	b := &box{}
	srv := serve(t, b, admin.DefaultConfig(), true)
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		contains                 string
	}{
		{"health", "GET", "/healthz", "", 200, `"instance":"box"`},
		{"live", "GET", "/livez", "", 200, "ok"},
		{"ready", "GET", "/readyz", "", 200, "ok"},
		{"metrics", "GET", "/metrics", "", 200, ""},
		{"profile index", "GET", "/debug/pprof/", "", 200, "goroutine"},
		{"switch", "POST", "/mode", `{"mode":"fallback","by":"person alice","reason":"drill"}`, 200, `"rev":3`},
		{"unknown mode", "POST", "/mode", `{"mode":"secondary"}`, 400, "secondary"},
		{"unknown field", "POST", "/mode", `{"mode":"fallback","force":true}`, 400, "force"},
		{"no body", "POST", "/mode", ``, 400, "want"},
		{"log level", "PUT", "/loglevel", `{"level":"debug"}`, 200, "debug"},
		{"log level unknown", "PUT", "/loglevel", `{"level":"loud"}`, 400, "loud"},
		{"body too large", "POST", "/mode", `{"mode":"` + strings.Repeat("x", 1<<17) + `"}`, 413, "large"},
		{"wrong method", "GET", "/flush", "", 405, ""},
		{"nothing there", "GET", "/x", "", 404, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, body := call(t, srv, tc.method, tc.path, tc.body)
			if status != tc.status || !strings.Contains(body, tc.contains) {
				t.Fatalf("got %d %q, want %d with %q", status, body, tc.status, tc.contains)
			}
		})
	}
	if b.switched != mode.Fallback || b.by != "person alice" || b.level != "debug" {
		t.Errorf("collector was asked for %+v", b)
	}
}

func TestServer_readyTellsWhyNot(t *testing.T) {
	b := &box{}
	err := errors.New("refusing: spool is full")
	b.ready.Store(&err)
	status, body := call(t, serve(t, b, admin.DefaultConfig(), true), "GET", "/readyz", "")
	if status != 503 || !strings.Contains(body, "spool is full") {
		t.Fatalf("got %d %q", status, body)
	}
}

func TestServer_flushAtOnceOrWhenCompleted(t *testing.T) {
	b := &box{}
	srv := serve(t, b, admin.DefaultConfig(), true)
	status, body := call(t, srv, "POST", "/flush", "")
	var f healthapi.Flush
	if err := json.Unmarshal([]byte(body), &f); err != nil || status != 202 || f.Requested != 1 || f.Completed != 0 {
		t.Fatalf("got %d %q (%v), want 202 and request 1", status, body, err)
	}
	status, body = call(t, srv, "POST", "/flush?wait=1m", "")
	if err := json.Unmarshal([]byte(body), &f); err != nil || status != 200 || f.Completed != 2 || f.Result != healthapi.FlushDrained {
		t.Fatalf("got %d %q (%v), want 200 and request 2 completed", status, body, err)
	}
	if status, _ := call(t, srv, "POST", "/flush?wait=1y", ""); status != 400 {
		t.Fatalf("wait=1y: got %d, want 400", status)
	}
}

func TestServer_refusalOfTheCollectorIsSaid(t *testing.T) {
	b := &box{refuse: errors.New("no fallback config is given")}
	status, body := call(t, serve(t, b, admin.DefaultConfig(), true), "POST", "/mode", `{"mode":"fallback"}`)
	if status != 409 || !strings.Contains(body, "no fallback config") {
		t.Fatalf("got %d %q", status, body)
	}
}

func TestServer_tokenWhereItIsNeeded(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := admin.DefaultConfig()
	open := serve(t, &box{}, cfg, false)
	cfg.TokenFile = token
	guarded := serve(t, &box{}, cfg, false)
	for _, tc := range []struct {
		name   string
		srv    *httptest.Server
		path   string
		header []string
		status int
	}{
		{"no token configured", open, "/flush", nil, 403},
		{"no token given", guarded, "/flush", nil, 401},
		{"wrong token", guarded, "/flush", []string{"Authorization", "Bearer wrong"}, 401},
		{"right token", guarded, "/flush", []string{"Authorization", "Bearer s3cret"}, 202},
		{"browser of another site", guarded, "/flush", []string{"Authorization", "Bearer s3cret", "Origin", "https://evil.example"}, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if status, body := call(t, tc.srv, "POST", tc.path, "", tc.header...); status != tc.status {
				t.Fatalf("got %d %q, want %d", status, body, tc.status)
			}
		})
	}
	if status, _ := call(t, guarded, "GET", "/healthz", ""); status != 200 {
		t.Errorf("health asks for a token: %d", status)
	}
	if status, _ := call(t, guarded, "GET", "/debug/pprof/heap", ""); status != 401 {
		t.Errorf("profile without a token: %d, want 401", status)
	}
}

func TestNew_tokenFileMustBeUsable(t *testing.T) {
	cfg := admin.DefaultConfig()
	cfg.TokenFile = filepath.Join(t.TempDir(), "missing")
	if _, err := admin.New(cfg, true, (&box{}).deps()); err == nil {
		t.Error("missing token file was taken")
	}
	if err := os.WriteFile(cfg.TokenFile, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.New(cfg, true, (&box{}).deps()); err == nil {
		t.Error("empty token file was taken")
	}
}

func TestConfig_Validate(t *testing.T) {
	for listen, ok := range map[string]bool{
		"127.0.0.1:9091": true, "[::1]:9091": true, ":9091": true, "unix:/run/spillway/admin.sock": true,
		"9091": false, "": false, "unix:relative": false,
	} {
		if err := (admin.Config{Listen: listen}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", listen, err)
		}
	}
}
