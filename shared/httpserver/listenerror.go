package httpserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ExitCode is what a program exits with when it could not listen.
const ExitCode = 69

// ListenError says that an address could not be listened on, and what to do.
type ListenError struct {
	Addr string
	Hint string // a sentence for the operator, may be empty
	Err  error
}

// Error returns the cause followed by the hint.
func (e *ListenError) Error() string {
	text := "listen on " + e.Addr + ": " + cause(e.Err)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Unwrap returns the cause.
func (e *ListenError) Unwrap() error { return e.Err }

// ExitCode returns 69.
func (e *ListenError) ExitCode() int { return ExitCode }

// cause leaves out what net.OpError repeats of the address.
func cause(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "listen" {
		if call, ok := errors.AsType[*os.SyscallError](op.Err); ok {
			return call.Err.Error()
		}
		return op.Err.Error()
	}
	return err.Error()
}

func hint(addr string, err error) string {
	path, isUnix := strings.CutPrefix(addr, unixPrefix)
	_, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case strings.HasPrefix(addr, systemdPrefix):
		return "start the program by its socket unit, and give each ListenStream= a .socket file with FileDescriptorName=" + strings.TrimPrefix(addr, systemdPrefix)
	case errors.Is(err, syscall.EADDRINUSE) && !isUnix:
		_, port, _ := net.SplitHostPort(addr)
		who := "another process"
		if p := portHolder(port); p != "" {
			who = p
		}
		return fmt.Sprintf("%s holds port %s (see `ss -ltnp sport = :%s`): stop it or choose another address", who, port, port)
	case errors.Is(err, errAlive):
		return "stop that process or choose another path"
	case errors.Is(err, syscall.EACCES) && isUnix:
		return fmt.Sprintf("user %d may not create files in %s: change its owner or choose another path", os.Getuid(), filepath.Dir(path))
	case errors.Is(err, syscall.EACCES):
		return "ports below 1024 need the capability CAP_NET_BIND_SERVICE (AmbientCapabilities= in the unit) or a systemd socket"
	case errors.Is(err, syscall.ENOENT) && isUnix:
		return "create the directory " + filepath.Dir(path) + " first"
	case errors.Is(err, syscall.EADDRNOTAVAIL), isDNS:
		return "no interface of this machine has that address: see `ip addr`, or listen on all with :port"
	}
	return ""
}

// portHolder names the process that listens on a TCP port, as "nginx (pid 12)",
// or returns "" when it cannot be seen, as is usual for one of another user.
func portHolder(port string) string {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return ""
	}
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		content, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			f := strings.Fields(line)
			const listening = "0A"
			if len(f) > 9 && f[3] == listening && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	if len(inodes) == 0 {
		return ""
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err != nil || !inodes[target] {
			continue
		}
		process := filepath.Dir(filepath.Dir(fd))
		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue
		}
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), filepath.Base(process))
	}
	return ""
}
