package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"spillway/shared/buildinfo"
	"spillway/watchdog/internal/decide"
)

// Paths of the control socket; PathStatus and PathHealth are also served where
// the metrics are.
const (
	PathStatus  = "/status"
	PathHealth  = "/healthz"
	PathCommand = "/command"
	PathNote    = "/note"
)

// Status is the answer to GET /status.
type Status struct {
	Schema    int       `json:"schema"`
	Instance  string    `json:"instance"`
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	Collector string    `json:"collector"` // the address of its admin listener
	Restarter string    `json:"restarter"`
	*Snapshot
}

// Identity is the part of Status that does not change.
type Identity struct {
	Instance  string
	PID       int
	StartedAt time.Time
	Collector string
	Restarter string
}

// StatusOf puts an identity and a snapshot together.
func StatusOf(id Identity, s *Snapshot) Status {
	return Status{
		Schema: 1, Instance: id.Instance, Version: buildinfo.Get().Version, PID: id.PID,
		StartedAt: id.StartedAt, Collector: id.Collector, Restarter: id.Restarter, Snapshot: s,
	}
}

// maxBody bounds what an order or a note may weigh.
const maxBody = 64 << 10

// ReadHandler answers what only looks: status and the watchdog's own health.
func (l *Loop) ReadHandler(id Identity) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathStatus, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, StatusOf(id, l.Snapshot()))
	})
	mux.HandleFunc("GET "+PathHealth, func(w http.ResponseWriter, _ *http.Request) {
		if err := l.Alive(); err != nil {
			reply(w, http.StatusServiceUnavailable, map[string]string{"error": err.Error()})
			return
		}
		reply(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	return mux
}

// Alive tells whether the loop comes round. The collector's health is no part
// of it: a watchdog that sees a sick collector is well.
func (l *Loop) Alive() error {
	s := l.Snapshot()
	if s.At.IsZero() {
		return errors.New("the first round is not over yet")
	}
	// A round takes up to three questions of poll.timeout each.
	limit := 3*s.Policy.Poll.Interval + 4*s.Policy.Poll.Timeout
	if age := time.Since(s.At); age > limit {
		return fmt.Errorf("the last round was %s ago", age.Round(time.Second))
	}
	return nil
}

// ControlHandler answers on the control socket, where the file's permissions say
// who may give orders.
func (l *Loop) ControlHandler(id Identity) http.Handler {
	mux := l.ReadHandler(id)
	mux.HandleFunc("POST "+PathCommand, func(w http.ResponseWriter, r *http.Request) {
		var c decide.Command
		if !read(w, r, &c) {
			return
		}
		if err := Check(c); err != nil {
			reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
			return
		}
		answer, err := l.opts.Inbox.Give(r.Context(), c)
		if err != nil {
			reply(w, http.StatusGatewayTimeout, map[string]string{"error": err.Error()})
			return
		}
		reply(w, http.StatusOK, answer)
	})
	mux.HandleFunc("POST "+PathNote, func(w http.ResponseWriter, r *http.Request) {
		var note struct{ By, Text string }
		if !read(w, r, &note) {
			return
		}
		if strings.TrimSpace(note.By) == "" || strings.TrimSpace(note.Text) == "" {
			reply(w, http.StatusBadRequest, map[string]string{"error": "a note needs who writes it and a text"})
			return
		}
		err := l.Note(EventNote, note.By, note.Text)
		if err != nil {
			reply(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
			return
		}
		reply(w, http.StatusOK, map[string]string{"status": "noted"})
	})
	return mux
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		reply(w, http.StatusBadRequest, map[string]string{"error": "cannot read the request: " + err.Error()})
		return false
	}
	return true
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone if this fails
}
