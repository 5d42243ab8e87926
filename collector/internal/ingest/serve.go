package ingest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Serve answers requests on ln until Shutdown, and then returns nil. It owns ln
// and is called once.
func (s *Server) Serve(ln net.Listener) error {
	cfg := s.state.Load().cfg
	s.limit.Store(newLimitListener(ln, cfg.MaxConnections))
	ln = s.limit.Load()
	if cfg.TLS.CertFile != "" {
		ln = tls.NewListener(ln, &tls.Config{
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"http/1.1"},
			GetCertificate: s.certs.get,
		})
	}
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve trackers on %s: %w", ln.Addr(), err)
	}
	return nil
}

// Drain asks clients to move elsewhere: every answer from now on closes its
// connection. Requests are still taken.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown stops listening, waits until every request that has begun is
// answered, and closes the connections. When ctx ends before that, the
// connections are closed as they are, and the error says so.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	if err := s.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("stop answering trackers: %w", errors.Join(err, s.http.Close()))
	}
	return nil
}

// Connections returns how many connections are open.
func (s *Server) Connections() int {
	if l := s.limit.Load(); l != nil {
		return int(l.open.Load())
	}
	return 0
}

// limitListener accepts a limited number of connections at a time.
type limitListener struct {
	net.Listener
	slots  chan struct{}
	open   atomic.Int64
	closed chan struct{}
	once   sync.Once
}

func newLimitListener(ln net.Listener, most int) *limitListener {
	return &limitListener{Listener: ln, slots: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept waits until there is room for a connection and then for a connection.
func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	l.open.Add(1)
	return &conn{Conn: c, listener: l}, nil
}

// Close stops accepting.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn gives its room back when it is closed, and knows whether every request
// that began on it was understood. The counters belong to the goroutine that
// serves the connection.
type conn struct {
	net.Conn
	listener       *limitListener
	once           sync.Once
	begun, handled int
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.listener.open.Add(-1)
		<-c.listener.slots
	})
	return c.Conn.Close()
}

// CloseWrite lets net/http end its half of a connection first, so that a client
// that is still sending gets to read why it is not listened to.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connKey struct{}

func ours(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, ours(c))
}

func markHandled(r *http.Request) {
	if c, _ := r.Context().Value(connKey{}).(*conn); c != nil {
		c.handled++
	}
}

// connState counts the requests that net/http turned away by itself, or that
// were never finished.
func (s *Server) connState(nc net.Conn, to http.ConnState) {
	c := ours(nc)
	if c == nil {
		return
	}
	switch to {
	case http.StateActive:
		c.begun++
	case http.StateClosed:
		if c.begun > c.handled {
			s.metrics.malformed.Inc()
		}
	}
}

// certificate is the TLS certificate in use.
type certificate struct {
	current atomic.Pointer[tls.Certificate]
}

func (c *certificate) load(cfg TLS) error {
	pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	c.current.Store(&pair)
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}
