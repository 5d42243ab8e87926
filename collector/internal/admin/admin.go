// Package admin is the collector's private listener: the health report, probes
// for supervisors, metrics, and the few things a person or a watchdog may ask
// for (flush, another mode, another log level, profiles).
//
// It is meant for loopback or a unix socket. On any other address everything
// that changes state, and the profiles, want the bearer token.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
)

// Deps is what the listener needs of the collector. All are safe for concurrent use.
type Deps struct {
	Report      func() healthapi.Report
	Live        func() error // nil while the process makes progress
	Ready       func() error // nil while POSTs are taken
	Flush       func() healthapi.Flush
	FlushStatus func() healthapi.Flush
	SwitchMode  func(ctx context.Context, to mode.Mode, by, reason string) (mode.File, error)
	SetLogLevel func(level string) error
	Gatherer    prometheus.Gatherer
	Log         *logrus.Entry
}

// Server answers on the admin listener.
type Server struct {
	deps  Deps
	guard *guard
	mux   *http.ServeMux
}

// maxBody bounds what a request to the admin listener may carry.
const maxBody = 64 << 10

// New returns the handler of the admin listener. private tells whether only this
// box can reach it (httpserver.Private): it decides whether the token is needed.
func New(cfg Config, private bool, deps Deps) (*Server, error) {
	g, err := newGuard(cfg, private)
	if err != nil {
		return nil, err
	}
	s := &Server{deps: deps, guard: g, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET "+healthapi.PathHealth, s.health)
	s.mux.HandleFunc("GET "+healthapi.PathLive, probe(deps.Live))
	s.mux.HandleFunc("GET "+healthapi.PathReady, probe(deps.Ready))
	s.mux.Handle("GET "+healthapi.PathMetrics, promhttp.HandlerFor(deps.Gatherer, promhttp.HandlerOpts{ErrorLog: deps.Log}))
	s.mux.Handle("POST "+healthapi.PathFlush, g.wrap(s.flush))
	s.mux.Handle("POST "+healthapi.PathMode, g.wrap(s.switchMode))
	s.mux.Handle("PUT /loglevel", g.wrap(s.logLevel))
	for path, h := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		s.mux.Handle("GET "+path, g.wrap(h))
	}
	return s, nil
}

// Reload reads the token file again. On error the old token stays in force.
func (s *Server) Reload() error { return s.guard.reload() }

// ServeHTTP answers one request. Requests that change state are refused when a
// browser sends them from another origin.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := crossOrigin.Check(r); err != nil {
		fail(w, http.StatusForbidden, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.mux.ServeHTTP(w, r)
}

var crossOrigin = http.NewCrossOriginProtection()

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	reply(w, http.StatusOK, s.deps.Report())
}

func probe(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, err)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	}
}

// flush asks for a flush and answers at once with 202, or with ?wait=30s when
// it has completed (200) or the time is over (202).
func (s *Server) flush(w http.ResponseWriter, r *http.Request) {
	wait := time.Duration(0)
	if text := r.URL.Query().Get("wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > 5*time.Minute {
			fail(w, http.StatusBadRequest, fmt.Errorf("wait is %q: want a duration from 0s to 5m", text))
			return
		}
		wait = d
	}
	status := s.deps.Flush()
	number := status.Requested
	s.deps.Log.WithField("flush", number).Info("flush asked for on the admin listener")
	deadline, tick := time.NewTimer(wait), time.NewTicker(20*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for status.Completed < number {
		select {
		case <-tick.C:
			status = s.deps.FlushStatus()
			continue
		case <-deadline.C:
		case <-r.Context().Done():
		}
		reply(w, http.StatusAccepted, status)
		return
	}
	reply(w, http.StatusOK, status)
}

type modeRequest struct {
	Mode   string `json:"mode"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

func (s *Server) switchMode(w http.ResponseWriter, r *http.Request) {
	var req modeRequest
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf(`cannot read the request: %w; want {"mode":"fallback","by":"person alice","reason":"..."}`, err))
		return
	}
	to, err := mode.Parse(req.Mode)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	if req.By == "" {
		req.By = "admin listener"
	}
	if req.Reason == "" {
		req.Reason = "asked for on the admin listener"
	}
	file, err := s.deps.SwitchMode(r.Context(), to, req.By, req.Reason)
	if err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	reply(w, http.StatusOK, file)
}

func (s *Server) logLevel(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Level string `json:"level"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf(`cannot read the request: %w; want {"level":"debug"}`, err))
		return
	}
	if err := s.deps.SetLogLevel(req.Level); err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	s.deps.Log.WithField("level", req.Level).Info("log level changed on the admin listener")
	reply(w, http.StatusOK, req)
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone if this fails
}

func fail(w http.ResponseWriter, status int, err error) {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		status = http.StatusRequestEntityTooLarge
	}
	reply(w, status, map[string]string{"error": err.Error()})
}
