package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/shared/configfile"
	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/admin"
)

func client(t *testing.T, address, token string) *admin.Client {
	t.Helper()
	l := logrus.New()
	l.SetOutput(io.Discard)
	c, err := admin.New(admin.Config{Address: address, Token: configfile.NewSecret(token)}, logrus.NewEntry(l))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func report() healthapi.Report {
	return healthapi.Report{Schema: 1, Seq: 7, Instance: "box", PID: 42, BootID: "b", Mode: "primary"}
}

func TestClient_Report_readsWhatTheCollectorSays(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != healthapi.PathHealth || r.Header.Get("Authorization") != "" {
			t.Errorf("asked for %s with %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		_, _ = io.WriteString(w, `{"a_later_field":true,`)
		data, _ := json.Marshal(report())
		_, _ = w.Write(data[1:])
	})
	got, err := client(t, address, "secret").Report(t.Context())
	if err != nil || got.Seq != 7 || got.Instance != "box" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestClient_Report_overUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(report()) }))
	s.Listener = l
	s.Start()
	defer s.Close()
	if got, err := client(t, "unix:"+path, "").Report(t.Context()); err != nil || got.PID != 42 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestClient_Report_refusesWhatIsNoReport(t *testing.T) {
	change := func(f func(*healthapi.Report)) string {
		r := report()
		f(&r)
		data, _ := json.Marshal(r)
		return string(data)
	}
	bodies := map[string]string{
		"empty":         "",
		"html":          "<html>ok</html>",
		"null":          "null",
		"trailing":      change(func(*healthapi.Report) {}) + "{}",
		"other schema":  change(func(r *healthapi.Report) { r.Schema = 2 }),
		"no boot id":    change(func(r *healthapi.Report) { r.BootID = "" }),
		"no seq":        change(func(r *healthapi.Report) { r.Seq = 0 }),
		"no pid":        change(func(r *healthapi.Report) { r.PID = 0 }),
		"mode unknown":  change(func(r *healthapi.Report) { r.Mode = "both" }),
		"far too large": strings.Repeat(" ", 2<<20),
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			address := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
			_, err := client(t, address, "").Report(t.Context())
			if _, ok := errors.AsType[*admin.BodyError](err); !ok {
				t.Errorf("got %v, want a BodyError", err)
			}
		})
	}
}

func TestClient_Report_makesOneAttempt(t *testing.T) {
	calls := 0
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) { calls++; http.Error(w, "no", http.StatusBadGateway) })
	_, err := client(t, address, "").Report(t.Context())
	status, ok := errors.AsType[*admin.StatusError](err)
	if !ok || status.Status != http.StatusBadGateway {
		t.Errorf("got %v, want a StatusError of 502", err)
	}
	if calls != 1 {
		t.Errorf("%d attempts, want 1", calls)
	}
}

func TestClient_Report_followsNoRedirect(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) })
	_, err := client(t, address, "").Report(t.Context())
	if status, ok := errors.AsType[*admin.StatusError](err); !ok || status.Status != http.StatusFound {
		t.Errorf("got %v, want a StatusError of 302", err)
	}
}

func TestClient_Report_endsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	address := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := client(t, address, "").Report(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func TestClient_changes_carryTheToken(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "want the token", http.StatusUnauthorized)
			return
		}
		switch r.Method + r.URL.Path {
		case "POST/flush":
			w.WriteHeader(http.StatusAccepted)
			_ = json.NewEncoder(w).Encode(healthapi.Flush{Requested: 3, Completed: 2})
		case "POST/mode":
			var req map[string]string
			_ = json.NewDecoder(r.Body).Decode(&req)
			_ = json.NewEncoder(w).Encode(mode.File{Mode: mode.Mode(req["mode"]), By: req["by"], Reason: req["reason"]})
		}
	})
	c := client(t, address, "secret")
	if flush, err := c.Flush(t.Context()); err != nil || flush.Requested != 3 {
		t.Errorf("flush: got %+v, %v", flush, err)
	}
	file, err := c.SwitchMode(t.Context(), mode.Fallback, "watchdog box", "because")
	if err != nil || file.Mode != mode.Fallback || file.By != "watchdog box" || file.Reason != "because" {
		t.Errorf("switch: got %+v, %v", file, err)
	}
	_, err = client(t, address, "").Flush(t.Context())
	if status, ok := errors.AsType[*admin.StatusError](err); !ok || status.Status != http.StatusUnauthorized {
		t.Errorf("without a token: got %v", err)
	}
}
