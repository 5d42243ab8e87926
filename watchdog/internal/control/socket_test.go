package control

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"spillway/watchdog/internal/decide"
)

// serve runs a loop and its control socket's handler.
func serve(t *testing.T, m Mind) (*bench, *httptest.Server) {
	t.Helper()
	b := newBench(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	s := httptest.NewServer(b.ControlHandler(Identity{Instance: "box-1", PID: 42, Restarter: "signal"}))
	t.Cleanup(func() {
		s.Close()
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b, s
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	if err := resp.Write(&text); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, text.String()
}

func TestControlHandler_takesOrders(t *testing.T) {
	var got []decide.Command
	_, s := serve(t, obeying(&got))
	status, body := post(t, s.URL+PathCommand, `{"kind":"pause","by":"person alice","reason":"maintenance"}`)
	if status != http.StatusOK || !strings.Contains(body, `"text":"paused"`) {
		t.Errorf("got %d, %s", status, body)
	}
	for _, bad := range []string{"", "{", `{"kind":"pause"}`, `{"kind":"pause","by":"x","reason":"y","nonsense":1}`, `{"reason":"` + strings.Repeat("x", 1<<17) + `"}`} {
		if status, body := post(t, s.URL+PathCommand, bad); status != http.StatusBadRequest || !strings.Contains(body, `"error":`) {
			t.Errorf("%.40q: got %d, %s", bad, status, body)
		}
	}
	resp, err := http.Get(s.URL + PathCommand)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET of a command: %d", resp.StatusCode)
	}
	if len(got) != 1 {
		t.Errorf("%d orders were taken, want 1", len(got))
	}
}

func TestControlHandler_takesNotes(t *testing.T) {
	b, s := serve(t, mind)
	if status, body := post(t, s.URL+PathNote, `{"By":"person alice","Text":"changed shards to 12"}`); status != http.StatusOK {
		t.Errorf("got %d, %s", status, body)
	}
	if status, _ := post(t, s.URL+PathNote, `{"By":"person alice","Text":" "}`); status != http.StatusBadRequest {
		t.Errorf("an empty note: %d", status)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	notes := 0
	for _, e := range b.entries {
		if e.Event == EventNote {
			notes++
			if e.By != "person alice" || e.Sentence != "changed shards to 12" {
				t.Errorf("got %+v", e)
			}
		}
	}
	if notes != 1 {
		t.Errorf("%d notes, want 1", notes)
	}
}

func TestReadHandler_showsAndChangesNothing(t *testing.T) {
	b, _ := serve(t, mind)
	s := httptest.NewServer(b.ReadHandler(Identity{Instance: "box-1", PID: 42, Restarter: "signal"}))
	defer s.Close()
	resp, err := http.Get(s.URL + PathStatus)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	status := Status{Snapshot: &Snapshot{}}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if status.Instance != "box-1" || status.PID != 42 || status.Restarter != "signal" || status.Policy.Scope != decide.ScopeBox {
		t.Errorf("got %+v", status)
	}
	for _, path := range []string{PathCommand, PathNote} {
		if code, _ := post(t, s.URL+path, `{"kind":"pause","by":"x","reason":"y"}`); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}
