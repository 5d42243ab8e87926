// Package admin speaks to the collector's private listener: it asks for the
// health report, for a flush, and for another mode.
//
// Every call is one attempt. A failed attempt is an observation of its own, and
// hiding it behind a retry would hide what the watchdog is there to see. Each
// attempt opens a new connection, so that it also proves that the listener
// still accepts.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/sirupsen/logrus"

	"spillway/shared/configfile"
	"spillway/shared/healthapi"
	"spillway/shared/logsetup"
	"spillway/shared/mode"
)

// Config says where the collector's admin listener is.
type Config struct {
	// Address of the admin listener: host:port or unix:/path. Default
	// 127.0.0.1:9091.
	Address string `yaml:"address"`
	// Token is the bearer token for flush and mode changes, or {file: PATH}.
	// Needed only when the listener is not on this box's loopback or a unix
	// socket, or when the collector asks for one everywhere. Default none.
	Token configfile.Secret `yaml:"token"`
}

// DefaultConfig is the collector's default admin listener.
func DefaultConfig() Config { return Config{Address: "127.0.0.1:9091"} }

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	if path, ok := strings.CutPrefix(c.Address, "unix:"); ok {
		if !strings.HasPrefix(path, "/") {
			return configfile.Invalid("address", "%q is no address: a unix socket wants an absolute path, unix:/run/spillway/admin.sock", c.Address)
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return configfile.Invalid("address", "%q is no address: want host:port or unix:/path", c.Address)
	}
	return nil
}

// Client calls one admin listener. It is safe for concurrent use. Every method
// returns by the end of its context.
type Client struct {
	cfg  Config
	base string
	http *retryablehttp.Client
}

// New returns a client for the listener at cfg.Address.
func New(cfg Config, log *logrus.Entry) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	dialer := &net.Dialer{}
	transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, DialContext: dialer.DialContext}
	base := "http://" + cfg.Address
	if path, ok := strings.CutPrefix(cfg.Address, "unix:"); ok {
		base = "http://collector"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	}
	client := retryablehttp.NewClient()
	client.RetryMax = 0
	client.ErrorHandler = retryablehttp.PassthroughErrorHandler
	client.CheckRetry = func(context.Context, *http.Response, error) (bool, error) { return false, nil }
	client.Logger = logsetup.Leveled{Log: log}
	client.HTTPClient = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Client{cfg: cfg, base: base, http: client}, nil
}

// Address is where the listener is, for messages.
func (c *Client) Address() string { return c.cfg.Address }

// Report asks for the health report. The error is a *StatusError, a *BodyError,
// or what kept the answer from arriving.
func (c *Client) Report(ctx context.Context) (*healthapi.Report, error) {
	data, err := c.call(ctx, http.MethodGet, healthapi.PathHealth, nil, http.StatusOK)
	if err != nil {
		return nil, err
	}
	report, err := decodeReport(data)
	if err != nil {
		return nil, &BodyError{Err: err}
	}
	return report, nil
}

// Flush asks for a flush and returns at once with the state of flushing: the
// flush asked for is done when Completed reaches the Requested returned here.
func (c *Client) Flush(ctx context.Context) (healthapi.Flush, error) {
	var flush healthapi.Flush
	data, err := c.call(ctx, http.MethodPost, healthapi.PathFlush, nil, http.StatusOK, http.StatusAccepted)
	if err != nil {
		return flush, fmt.Errorf("ask for a flush at %s: %w", c.cfg.Address, err)
	}
	if err := json.Unmarshal(data, &flush); err != nil {
		return flush, fmt.Errorf("ask for a flush at %s: %w", c.cfg.Address, err)
	}
	return flush, nil
}

// SwitchMode asks the collector to run another mode without a restart. When it
// returns nil the collector runs in that mode.
func (c *Client) SwitchMode(ctx context.Context, to mode.Mode, by, reason string) (mode.File, error) {
	var file mode.File
	body, err := json.Marshal(map[string]string{"mode": string(to), "by": by, "reason": reason})
	if err != nil {
		return file, fmt.Errorf("ask for mode %s: %w", to, err)
	}
	data, err := c.call(ctx, http.MethodPost, healthapi.PathMode, body, http.StatusOK)
	if err != nil {
		return file, fmt.Errorf("ask for mode %s at %s: %w", to, c.cfg.Address, err)
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return file, fmt.Errorf("ask for mode %s at %s: %w", to, c.cfg.Address, err)
	}
	return file, nil
}

func (c *Client) call(ctx context.Context, method, path string, body []byte, want ...int) ([]byte, error) {
	var payload any
	if body != nil {
		payload = bytes.NewReader(body)
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "spillway-watchdog")
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet && c.cfg.Token.IsSet() {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token.Reveal())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the rest repeats the address
		}
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBodyBytes+1))
	if err != nil {
		return nil, err
	}
	for _, status := range want {
		if resp.StatusCode == status {
			if len(data) > maxBodyBytes {
				return nil, &BodyError{Err: fmt.Errorf("it is larger than %d bytes", maxBodyBytes)}
			}
			return data, nil
		}
	}
	return nil, &StatusError{Status: resp.StatusCode, Body: strings.ToValidUTF8(string(data[:min(len(data), 200)]), "?")}
}
