// Package ingest takes tracker events over HTTP.
//
// It answers 200 only when every record made of a request is on stable storage,
// and otherwise says so in a status that makes a tracker keep its events and
// send them again. What a request means is decided in package protocol below;
// here is the server around it: limits, admission, storing, answering.
//
//	request -> limits (400, 408, 413) -> admission (503) -> protocol.Plan
//	        -> dead letters, bad rows, events, each durable (503 where not) -> 200
//
// A 200 comes soon or not at all: trackers give up after five seconds and send
// again, so a store that is too slow is answered with 503 while they still
// listen. Memory does not grow with load: bytes in flight and connections are
// bounded, and what is over the bound is refused.
package ingest

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"spillway/collector/internal/admission"
	"spillway/collector/internal/ingest/protocol"
	"spillway/collector/internal/sink"
	"spillway/shared/logsetup"
)

// Record is one message to store.
type Record struct {
	Key  string    // partition key
	At   time.Time // when the request was received
	Data []byte
}

// Store keeps records until they are delivered.
type Store interface {
	// Append returns nil only when every record is on stable storage. It returns
	// soon after ctx ends. It may still read the records' data after it has
	// returned an error, and never after it has returned nil. It is called at
	// most once per lane and request, and is safe for concurrent use.
	Append(ctx context.Context, lane sink.Lane, records []Record) error
}

// DeadLetters keeps what can never be delivered as it is.
type DeadLetters interface {
	// Put has the promises of Store.Append. reason says why, in words.
	Put(ctx context.Context, reason string, records ...Record) error
}

// Gate decides whether a request may come in. It is called for every event,
// before its body is read, and must not wait.
type Gate interface {
	// Admit says whether a request of this kind may come in, and if not why, in
	// words for the tracker, and how long the tracker should wait.
	Admit(kind admission.Kind) (ok bool, reason string, retryAfter time.Duration)
	// RetryAfter is how long a tracker should wait that is refused for a reason
	// the gate does not know of.
	RetryAfter() time.Duration
}

// Deps is what a Server works with. All are safe for concurrent use.
type Deps struct {
	Store       Store
	DeadLetters DeadLetters
	Gate        Gate
	SinkHealthy func() bool // what /sink-health answers
	Log         *logrus.Entry
	Metrics     prometheus.Registerer // nil counts without showing

	Collector        string // the collector field of payloads, as in spillway-0.1.0-kinesis
	ProcessorName    string // who wrote a bad row
	ProcessorVersion string
}

// Server answers trackers. It is safe for concurrent use.
type Server struct {
	deps      Deps
	metrics   *metrics
	state     atomic.Pointer[state]
	http      *http.Server
	limit     atomic.Pointer[limitListener] // set by Serve
	certs     certificate
	exchanges sync.Pool
	inFlight  atomic.Int64 // bytes charged to requests that are being answered
	draining  atomic.Bool
	faults    faultLog
}

// state is what SetConfig exchanges.
type state struct {
	cfg  Config
	core *protocol.Core
}

// New returns a server, or why cfg makes no sense. A certificate that cfg names
// is read at once.
func New(cfg Config, deps Deps) (*Server, error) {
	if deps.Metrics == nil {
		deps.Metrics = prometheus.NewRegistry()
	}
	s := &Server{deps: deps, faults: faultLog{log: deps.Log}}
	s.metrics = newMetrics(deps.Metrics, s)
	s.exchanges.New = func() any { return &exchange{} }
	if err := s.SetConfig(cfg); err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler:                      s,
		ReadHeaderTimeout:            cfg.HeaderTimeout,
		ReadTimeout:                  cfg.RequestTimeout,
		WriteTimeout:                 cfg.RequestTimeout + cfg.AppendTimeout + writeGrace,
		IdleTimeout:                  cfg.IdleTimeout,
		MaxHeaderBytes:               2 * int(cfg.MaxRequestLineBytes+cfg.MaxHeaderBytes),
		ErrorLog:                     logsetup.HTTPErrors(deps.Log),
		ConnContext:                  connContext,
		ConnState:                    s.connState,
		DisableGeneralOptionsHandler: true, // OPTIONS * is a preflight like others
		Protocols:                    new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true)
	return s, nil
}

// writeGrace is what a client may take to read an answer of a few bytes.
const writeGrace = 10 * time.Second

// SetConfig changes how requests are answered from the next one on, and reads
// the certificate again. On error everything stays as it was. What a connection
// may take in time, request line and headers changes with the next start only,
// as does whether there is TLS.
func (s *Server) SetConfig(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	core, err := protocol.New(cfg.Config, protocol.Options{
		Collector:        s.deps.Collector,
		ProcessorName:    s.deps.ProcessorName,
		ProcessorVersion: s.deps.ProcessorVersion,
		SinkHealthy:      s.deps.SinkHealthy,
	})
	if err != nil {
		return err
	}
	if cfg.TLS.CertFile != "" {
		if err := s.certs.load(cfg.TLS); err != nil {
			return err
		}
	}
	s.state.Store(&state{cfg: cfg, core: core})
	return nil
}

// AcceptedTotal returns how many events are stored: records of the good lane.
func (s *Server) AcceptedTotal() uint64 { return s.metrics.accepted.Load() }

// RefusedTotal returns how many event requests were answered 503.
func (s *Server) RefusedTotal() uint64 { return s.metrics.refused.Load() }
