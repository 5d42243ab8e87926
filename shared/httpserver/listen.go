package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
)

const (
	unixPrefix    = "unix:"
	systemdPrefix = "systemd:"

	socketMode = 0o660
)

// CheckAddr tells whether addr has a form that [Listen] takes, without trying it.
func CheckAddr(addr string) error {
	if path, ok := strings.CutPrefix(addr, unixPrefix); ok {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%q: want unix: and an absolute path", addr)
		}
		if len(path) > maxSocketPath {
			return fmt.Errorf("%q: the path of a unix socket has at most %d bytes, this has %d", addr, maxSocketPath, len(path))
		}
		return nil
	}
	if name, ok := strings.CutPrefix(addr, systemdPrefix); ok {
		if name == "" {
			return fmt.Errorf("%q: want systemd: and the FileDescriptorName of the socket unit", addr)
		}
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is not an address: want host:port, :port, unix:/path or systemd:name", addr)
	}
	return nil
}

// maxSocketPath is what struct sockaddr_un holds, less the zero byte.
const maxSocketPath = 107

// Listen opens the listener that addr names:
//
//   - "host:port" or ":port": a TCP socket;
//   - "unix:/path": a unix socket that user and group may use (mode 0660). A socket
//     file left behind by a process that is gone is replaced; one that somebody
//     still answers on, or any other kind of file, is not touched;
//   - "systemd:name": the socket that systemd opened for the unit, by its
//     FileDescriptorName. Each can be taken once.
//
// Every error is a [*ListenError].
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := listen(ctx, addr)
	if err != nil {
		return nil, &ListenError{Addr: addr, Hint: hint(addr, err), Err: err}
	}
	return l, nil
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	if err := CheckAddr(addr); err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(addr, unixPrefix); ok {
		return listenUnix(ctx, path)
	}
	if name, ok := strings.CutPrefix(addr, systemdPrefix); ok {
		return inherited.take(name)
	}
	var c net.ListenConfig
	return c.Listen(ctx, "tcp", addr)
}

func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// Until here the file has the mode the umask left, which lets fewer in, not more.
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// errAlive says that somebody answers on the unix socket.
var errAlive = errors.New("another process is listening on this socket")

// removeStale removes the socket file at path if nobody listens on it any more.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("a file that is not a socket stands there")
	}
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return errAlive
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		// Not allowed to connect, or its queue is full: somebody may be alive.
		return fmt.Errorf("cannot tell whether the old socket is in use: %w", err)
	}
	return os.Remove(path)
}

// inherited are the sockets systemd passed to this process.
var inherited handedDown

// handedDown takes over systemd's sockets at the first use; they are passed once
// per process.
type handedDown struct {
	once sync.Once

	mu     sync.Mutex
	byName map[string][]net.Listener // guarded by mu: what nobody has taken
	err    error                     // guarded by mu
}

func (h *handedDown) open() {
	h.once.Do(func() { h.byName, h.err = activation.ListenersWithNames() })
}

func (h *handedDown) take(name string) (net.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open()
	if h.err != nil {
		return nil, h.err
	}
	switch ls := h.byName[name]; len(ls) {
	case 0:
		return nil, errors.New("systemd passed no socket of this name, or it is taken already")
	case 1:
		delete(h.byName, name)
		return ls[0], nil
	default:
		return nil, fmt.Errorf("systemd passed %d sockets of this name", len(ls))
	}
}

// Untaken returns the names of the sockets that systemd passed and no Listen has
// asked for: connections to them would wait for ever, so a program says so once
// it listens.
func Untaken() []string {
	inherited.mu.Lock()
	defer inherited.mu.Unlock()
	inherited.open()
	return slices.Sorted(maps.Keys(inherited.byName))
}

// Private tells whether only processes of this machine can reach a: a unix
// socket or a loopback address.
func Private(a net.Addr) bool {
	if a.Network() == "unix" {
		return true
	}
	ap, err := netip.ParseAddrPort(a.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}
