package httpserver_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"spillway/shared/httpserver"
)

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := httpserver.Listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// listenFails returns the error after checking that it is what a program expects.
func listenFails(t *testing.T, addr string) *httpserver.ListenError {
	t.Helper()
	l, err := httpserver.Listen(t.Context(), addr)
	if err == nil {
		_ = l.Close()
		t.Fatalf("%s: no error", addr)
	}
	e, ok := errors.AsType[*httpserver.ListenError](err)
	if !ok || e.Addr != addr || e.ExitCode() != 69 || e.Unwrap() == nil {
		t.Fatalf("%s: got %#v, want a ListenError", addr, err)
	}
	return e
}

func TestListen_tcpNamesWhoHoldsThePort(t *testing.T) {
	addr := listen(t, "127.0.0.1:0").Addr().String()
	got := listenFails(t, addr).Error()
	_, port, _ := net.SplitHostPort(addr)
	want := "listen on " + addr + ": address already in use: "
	if !strings.HasPrefix(got, want) || !strings.Contains(got, "(pid "+strconv.Itoa(os.Getpid())+") holds port "+port) {
		t.Errorf("got %s\nwant %s… and this process", got, want)
	}
}

func TestListen_explains(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		"192.0.2.1:0":           "listen on 192.0.2.1:0: cannot assign requested address: no interface of this machine has that address: see `ip addr`, or listen on all with :port",
		"unix:" + file:          "listen on unix:" + file + ": a file that is not a socket stands there",
		"unix:" + dir + "/no/s": "listen on unix:" + dir + "/no/s: no such file or directory: create the directory " + dir + "/no first",
		"unix:relative":         `listen on unix:relative: "unix:relative": want unix: and an absolute path`,
		"systemd:":              `listen on systemd:: "systemd:": want systemd: and the FileDescriptorName of the socket unit: start the program by its socket unit, and give each ListenStream= a .socket file with FileDescriptorName=`,
		"systemd:http":          "listen on systemd:http: systemd passed no socket of this name, or it is taken already: start the program by its socket unit, and give each ListenStream= a .socket file with FileDescriptorName=http",
		"8080":                  `listen on 8080: "8080" is not an address: want host:port, :port, unix:/path or systemd:name`,
		":http":                 `listen on :http: ":http" is not an address: want host:port, :port, unix:/path or systemd:name`,
		":70000":                `listen on :70000: ":70000" is not an address: want host:port, :port, unix:/path or systemd:name`,
		"":                      `listen on : "" is not an address: want host:port, :port, unix:/path or systemd:name`,
	} {
		if got := listenFails(t, addr).Error(); got != want {
			t.Errorf("got:  %s\nwant: %s", got, want)
		}
	}
	long := "unix:/" + strings.Repeat("x", 107)
	if got := listenFails(t, long).Error(); !strings.Contains(got, "at most 107 bytes, this has 108") {
		t.Errorf("got %s", got)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "precious" {
		t.Errorf("the file was touched: %q, %v", content, err)
	}
}

func TestListen_unixReplacesOnlyADeadSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first := listen(t, "unix:"+path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Fatalf("mode %v, %v; want 0660", info.Mode(), err)
	}
	if got := listenFails(t, "unix:"+path).Error(); !strings.HasSuffix(got, "another process is listening on this socket: stop that process or choose another path") {
		t.Errorf("got %s", got)
	}
	// As after a kill: the file stays, nobody listens.
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	second := listen(t, "unix:"+path)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket file is still there after Close: %v", err)
	}
}

func TestPrivate(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false} {
		a, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := httpserver.Private(a); got != want {
			t.Errorf("%s: got %v, want %v", addr, got, want)
		}
	}
	if !httpserver.Private(&net.UnixAddr{Name: "/s", Net: "unix"}) {
		t.Error("a unix socket is private")
	}
}

const activated = "SPILLWAY_TEST_ACTIVATED"

// TestMain plays the part of a process started by systemd when asked to.
func TestMain(m *testing.M) {
	if os.Getenv(activated) == "" {
		os.Exit(m.Run())
	}
	must := func(err error) {
		if err != nil {
			_, _ = os.Stdout.WriteString(err.Error())
			os.Exit(1)
		}
	}
	must(os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid())))
	l, err := httpserver.Listen(context.Background(), "systemd:http")
	must(err)
	_, err = os.Stdout.WriteString(l.Addr().String() + " " + strings.Join(httpserver.Untaken(), ",") + "\n")
	must(err)
	_, err = httpserver.Listen(context.Background(), "systemd:both")
	_, _ = os.Stdout.WriteString(err.Error() + "\n")
	conn, err := l.Accept()
	must(err)
	_, err = conn.Write([]byte("hello"))
	must(err)
	must(conn.Close())
	os.Exit(0)
}

func TestListen_systemd(t *testing.T) {
	var files []*os.File
	var addr string
	for i := range 4 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		files = append(files, f)
		if i == 1 {
			addr = l.Addr().String()
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), activated+"=1", "LISTEN_FDS=4", "LISTEN_FDNAMES=admin:http:both:both")
	cmd.ExtraFiles = files
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The connection waits in the socket's queue until the process accepts it.
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	want := addr + " admin,both\nlisten on systemd:both: systemd passed 2 sockets of this name: start the program by its socket unit, and give each ListenStream= a .socket file with FileDescriptorName=both\n"
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
	greeting := make([]byte, 5)
	if _, err := conn.Read(greeting); err != nil || string(greeting) != "hello" {
		t.Errorf("got %q, %v", greeting, err)
	}
}
