package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listener serves HTTP on one loopback port for as long as it lives, and can go
// down and come back on that same port: while it is down, connections are
// refused, and no other process can take the port.
type Listener struct {
	handler http.Handler
	addr    string
	holder  int // a socket bound to the port that never listens; it keeps the port ours

	mu     sync.Mutex
	server *http.Server   // guarded by mu; nil while down
	busy   sync.WaitGroup // the serve loop and the connections
}

// Listen starts to serve on addr, an IPv4 address with a port; port 0 takes a
// free one.
func Listen(addr string, handler http.Handler) (*Listener, error) {
	l := &Listener{handler: handler, addr: addr, holder: -1}
	if err := l.Up(); err != nil {
		return nil, err
	}
	if err := l.hold(); err != nil {
		l.Down()
		return nil, fmt.Errorf("hold port of %s: %w", l.addr, err)
	}
	return l, nil
}

// Addr returns host:port. It stays the same while the listener is down.
func (l *Listener) Addr() string { return l.addr }

// URL returns http://host:port.
func (l *Listener) URL() string { return "http://" + l.addr }

// Up serves again after Down. It does nothing if the listener is up.
func (l *Listener) Up() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		return nil
	}
	config := net.ListenConfig{Control: reusePort}
	ln, err := config.Listen(context.Background(), "tcp4", l.addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", l.addr, err)
	}
	if addr := ln.Addr().String(); addr != l.addr {
		l.addr = addr // the first time only: Addr reads it without a lock
	}
	server := &http.Server{Handler: l.handler, ConnState: l.count}
	l.server = server
	l.busy.Go(func() { server.Serve(ln) })
	return nil
}

// count follows the connections. New ones come from the serve loop, which holds
// busy itself, so busy never rises from zero while Down waits.
func (l *Listener) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		l.busy.Add(1)
	case http.StateClosed, http.StateHijacked:
		l.busy.Done()
	}
}

// Down closes the listener and cuts every connection. Requests that are being
// handled may still take effect, as in a real crash; Down returns when the last
// has ended, so it must not be called by a handler of this listener. It does
// nothing if the listener is down.
func (l *Listener) Down() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server == nil {
		return nil
	}
	err := l.server.Close()
	l.server = nil
	l.busy.Wait()
	return err
}

// Close goes down for good and gives the port back.
func (l *Listener) Close() error {
	err := l.Down()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder >= 0 {
		err = errors.Join(err, unix.Close(l.holder))
		l.holder = -1
	}
	return err
}

func (l *Listener) hold() error {
	tcp, err := net.ResolveTCPAddr("tcp4", l.addr)
	if err != nil {
		return err
	}
	syscall.ForkLock.RLock() // else a process started meanwhile could inherit the socket
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return err
	}
	at := &unix.SockaddrInet4{Port: tcp.Port}
	copy(at.Addr[:], tcp.IP.To4())
	// Without SO_REUSEADDR, so that only our own listener fits beside it.
	if err := errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
		unix.Bind(fd, at),
	); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	l.holder = fd
	return nil
}

func reusePort(_, _ string, conn syscall.RawConn) error {
	var err error
	if cerr := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}); cerr != nil {
		return cerr
	}
	return err
}
