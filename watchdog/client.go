package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"syscall"

	"spillway/watchdog/internal/config"
	"spillway/watchdog/internal/control"
)

// errNotRunning says that no watchdog answers on the control socket.
var errNotRunning = errors.New("the watchdog is not running")

// client speaks to the running watchdog over its control socket.
type client struct{ http *http.Client }

func newClient(c config.Config) client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.ControlSocket())
	}
	return client{&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

func (c client) status(ctx context.Context) (control.Status, error) {
	s := control.Status{Snapshot: &control.Snapshot{}}
	return s, c.call(ctx, http.MethodGet, control.PathStatus, nil, &s)
}

func (c client) call(ctx context.Context, method, path string, body, into any) error {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://watchdog"+path, payload)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return errNotRunning
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("speak to the watchdog: %w (its control socket is for its own user and group)", err)
	case err != nil:
		return fmt.Errorf("speak to the watchdog: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("speak to the watchdog: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var refusal struct{ Error string }
		_ = json.Unmarshal(data, &refusal)
		return fmt.Errorf("the watchdog refuses: %s", refusal.Error)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("understand the watchdog: %w", err)
	}
	return nil
}

// person is who gives an order, for the journal and the mode file.
func person() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return "person " + name
	}
	if u, err := user.Current(); err == nil {
		return "person " + u.Username
	}
	return fmt.Sprintf("person uid %d", os.Getuid())
}

// printJSON writes v as indented JSON.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
