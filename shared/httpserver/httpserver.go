// Package httpserver opens listeners and runs HTTP servers the way both programs
// do: every wait has a limit, stopping takes a bounded time, and an address that
// cannot be had is explained to the person who must mend it.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/shared/configfile"
	"spillway/shared/logsetup"
)

// Config limits how long a client may take. A slow or silent client costs one
// connection for at most the sum of them.
type Config struct {
	// ReadHeaderTimeout bounds the reading of a request's header. Default 5s; must
	// be more than zero.
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout"`

	// ReadTimeout bounds the reading of a whole request, header and body. Default
	// 30s; must be more than zero.
	ReadTimeout time.Duration `yaml:"read_timeout"`

	// WriteTimeout bounds the time from the end of the header to the end of the
	// answer, the handler's work included. Default 60s; 0 is no limit.
	WriteTimeout time.Duration `yaml:"write_timeout"`

	// IdleTimeout is how long a kept-alive connection may wait for its next request.
	// Default 75s: longer than the 60s for which load balancers usually keep theirs,
	// so that it is they who close it, and no request meets a closed connection.
	// Must be more than zero.
	IdleTimeout time.Duration `yaml:"idle_timeout"`

	// MaxHeaderBytes bounds the header of a request; a larger one is answered 431.
	// Default 64KiB; must be more than zero.
	MaxHeaderBytes configfile.Size `yaml:"max_header_bytes"`

	// ShutdownTimeout is how long running requests may take to finish when the
	// server stops; then their connections are closed. Default 10s; 0 closes at once.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       75 * time.Second,
		MaxHeaderBytes:    64 * configfile.KiB,
		ShutdownTimeout:   10 * time.Second,
	}
}

// Validate names the keys that cannot be used.
func (c Config) Validate() error {
	var errs []error
	positive := func(key string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, configfile.Invalid(key, "%s: want more than zero", configfile.FormatDuration(d)))
		}
	}
	positive("read_header_timeout", c.ReadHeaderTimeout)
	positive("read_timeout", c.ReadTimeout)
	positive("idle_timeout", c.IdleTimeout)
	if c.WriteTimeout < 0 {
		errs = append(errs, configfile.Invalid("write_timeout", "%s: want zero or more", configfile.FormatDuration(c.WriteTimeout)))
	}
	if c.ShutdownTimeout < 0 {
		errs = append(errs, configfile.Invalid("shutdown_timeout", "%s: want zero or more", configfile.FormatDuration(c.ShutdownTimeout)))
	}
	if c.MaxHeaderBytes <= 0 || c.MaxHeaderBytes > configfile.GiB {
		errs = append(errs, configfile.Invalid("max_header_bytes", "%s: want more than zero, up to 1GiB", c.MaxHeaderBytes))
	}
	return errors.Join(errs...)
}

// Server answers requests on one listener.
type Server struct {
	listener net.Listener
	http     *http.Server
	shutdown time.Duration
	log      *logrus.Entry
}

// New returns a server for l, which it owns from now on, and which takes
// connections already: they wait until Run. c must be valid.
func New(l net.Listener, h http.Handler, c Config, log *logrus.Entry) *Server {
	return &Server{
		listener: l,
		http: &http.Server{
			Handler:           h,
			ReadHeaderTimeout: c.ReadHeaderTimeout,
			ReadTimeout:       c.ReadTimeout,
			WriteTimeout:      c.WriteTimeout,
			IdleTimeout:       c.IdleTimeout,
			MaxHeaderBytes:    int(c.MaxHeaderBytes),
			ErrorLog:          logsetup.HTTPErrors(log),
		},
		shutdown: c.ShutdownTimeout,
		log:      log,
	}
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// ErrCutOff says that requests were still running at the shutdown timeout: their
// connections were closed without an answer, so their clients will send again.
var ErrCutOff = errors.New("requests were cut off at the shutdown timeout")

// Run answers requests until ctx is done. Then it stops listening at once, lets
// the running requests finish (their contexts are not cancelled), and after the
// shutdown timeout closes their connections. It returns nil when every request
// got its answer, [ErrCutOff] when not, or why serving failed. It is called once.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	s.log.WithField("addr", s.Addr().String()).Info("listening")
	select {
	case err := <-served:
		return fmt.Errorf("serve http on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.shutdown)
	defer cancel()
	err := s.http.Shutdown(limit)
	if errors.Is(err, context.DeadlineExceeded) {
		// Cancels the contexts of the requests that still run.
		err = errors.Join(ErrCutOff, s.http.Close())
	}
	<-served
	if err != nil {
		return fmt.Errorf("stop http on %s: %w", s.Addr(), err)
	}
	return nil
}
