package ingest

import (
	"errors"
	"time"

	"spillway/collector/internal/ingest/protocol"
	"spillway/shared/configfile"
)

// Config is how the collector listens to trackers.
type Config struct {
	protocol.Config `yaml:",inline"`

	// MaxBodyBytes is the largest body that is read; a larger one is answered
	// 413. Default 10MiB.
	MaxBodyBytes configfile.Size `yaml:"max_body_bytes"`
	// MaxInFlightBytes bounds the memory of all requests that are being answered
	// at the same time; what is over it is answered 503. A request counts with
	// 16KiB and three times its body. Default 256MiB.
	MaxInFlightBytes configfile.Size `yaml:"max_in_flight_bytes"`
	// MaxConnections is how many connections are open at the same time; others
	// wait to be accepted. Default 16384.
	MaxConnections int `yaml:"max_connections"`
	// MaxRequestLineBytes is the longest request line: method, target and version.
	// A longer one is answered 400. Default 20KiB.
	MaxRequestLineBytes configfile.Size `yaml:"max_request_line_bytes"`
	// MaxHeaderBytes is the size of all headers of a request. More is answered
	// 400, and 431 where line and headers are over twice their limits. Default
	// 40KiB.
	MaxHeaderBytes configfile.Size `yaml:"max_header_bytes"`
	// HeaderTimeout is how long the headers of a request may take to arrive.
	// Default 30s.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// RequestTimeout is how long a whole request may take to arrive; 408 when
	// exceeded. Default 30s.
	RequestTimeout time.Duration `yaml:"request_timeout"`
	// IdleTimeout is how long a connection without requests stays open. It must
	// be longer than what a load balancer in front keeps its own. Default 610s.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// AppendTimeout is how long storing may take, counted from the end of the
	// request; 503 when exceeded. Trackers give up after 5s. Default 4.5s.
	AppendTimeout time.Duration `yaml:"append_timeout"`

	// TLS is the certificate, where the collector speaks HTTPS by itself.
	TLS TLS `yaml:"tls"`
}

// TLS is the certificate of the collector. Without one, the default, it speaks
// plain HTTP and leaves TLS to a load balancer.
type TLS struct {
	// CertFile holds the certificate and its chain in PEM. Default none. It is
	// read again on reload.
	CertFile string `yaml:"cert_file"`
	// KeyFile holds its private key in PEM.
	KeyFile string `yaml:"key_file"`
}

// DefaultConfig returns the configuration in which nothing is said.
func DefaultConfig() Config {
	return Config{
		Config:              protocol.DefaultConfig(),
		MaxBodyBytes:        10 * configfile.MiB,
		MaxInFlightBytes:    256 * configfile.MiB,
		MaxConnections:      16384,
		MaxRequestLineBytes: 20480,
		MaxHeaderBytes:      40960,
		HeaderTimeout:       30 * time.Second,
		RequestTimeout:      30 * time.Second,
		IdleTimeout:         610 * time.Second,
		AppendTimeout:       4500 * time.Millisecond,
	}
}

// Validate says what makes no sense, naming the YAML keys.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	for _, s := range []struct {
		key        string
		size, most configfile.Size
	}{
		{"max_body_bytes", c.MaxBodyBytes, configfile.GiB},
		{"max_in_flight_bytes", c.MaxInFlightBytes, configfile.TiB},
		{"max_request_line_bytes", c.MaxRequestLineBytes, configfile.MiB},
		{"max_header_bytes", c.MaxHeaderBytes, configfile.MiB},
	} {
		if s.size < configfile.KiB || s.size > s.most {
			errs = append(errs, configfile.Invalid(s.key, "%s is outside 1KiB to %s", s.size, s.most))
		}
	}
	if least := charge(int(c.MaxBodyBytes)); int64(c.MaxInFlightBytes) < least {
		errs = append(errs, configfile.Invalid("max_in_flight_bytes", "%s is less than one request of max_body_bytes needs, %s",
			c.MaxInFlightBytes, configfile.Size(least)))
	}
	if c.MaxConnections < 1 {
		errs = append(errs, configfile.Invalid("max_connections", "%d leaves no connection", c.MaxConnections))
	}
	for _, d := range []struct {
		key  string
		time time.Duration
	}{
		{"header_timeout", c.HeaderTimeout}, {"request_timeout", c.RequestTimeout},
		{"idle_timeout", c.IdleTimeout}, {"append_timeout", c.AppendTimeout},
	} {
		if d.time <= 0 {
			errs = append(errs, configfile.Invalid(d.key, "%s is not more than zero", configfile.FormatDuration(d.time)))
		}
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		errs = append(errs, configfile.Invalid("tls", "cert_file and key_file go together"))
	}
	return errors.Join(errs...)
}
