package trackers

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"spillway/shared/rig/proc"
)

// browser starts a driver that is a page in a headless Chromium. The page is of
// another origin than the collector, as a shop is.
func browser(t *testing.T, chromium, collector string) *driver {
	t.Helper()
	d := &driver{}
	commands := make(chan command)
	d.tell = func(c command) error {
		select {
		case commands <- c:
			return nil
		case <-time.After(patience):
			return errors.New("the page does not ask what to do")
		}
	}
	mux := http.NewServeMux()
	for path, file := range map[string]string{
		"/{$}": "page.html", "/page.js": "page.js", "/events.js": "events.js",
		"/tracker.js": "node_modules/@snowplow/browser-tracker/dist/index.umd.min.js",
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, filepath.Join("node", file)) })
	}
	mux.HandleFunc("GET /next", func(w http.ResponseWriter, r *http.Request) {
		select {
		case c := <-commands:
			_ = json.NewEncoder(w).Encode(c)
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("POST /notice", func(_ http.ResponseWriter, r *http.Request) {
		var n notice
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			n = notice{Broken: err.Error()}
		}
		d.hear(n)
	})
	page := httptest.NewServer(mux)
	t.Cleanup(func() {
		page.CloseClientConnections()
		page.Close()
	})

	// Chromium's helpers may write for a moment after it was killed.
	profile, err := os.MkdirTemp("", "browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		proc.Eventually(t, patience, func() error { return os.RemoveAll(profile) })
	})
	proc.Run(t, proc.Spec{Path: chromium, Dir: profile, Log: filepath.Join(profile, "log"), Args: []string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=" + profile,
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
		page.URL + "/?collector=" + url.QueryEscape(collector),
	}})
	return d
}
