package ingest

import (
	"errors"
	"fmt"
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
	// MaxRequestLineBytes and MaxHeaderBytes are answered 400 when exceeded, and
	// 431 when exceeded more than twofold. Default 20480 and 40960.
	MaxRequestLineBytes configfile.Size `yaml:"max_request_line_bytes"`
	MaxHeaderBytes      configfile.Size `yaml:"max_header_bytes"`
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

	TLS TLS `yaml:"tls"`
}

// TLS is the certificate of the collector. Without one, the default, it speaks
// plain HTTP and leaves TLS to a load balancer.
type TLS struct {
	CertFile string `yaml:"cert_file"` // PEM, with the chain
	KeyFile  string `yaml:"key_file"`  // PEM
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

// Validate says what makes no sense, naming the YAML key.
func (c Config) Validate() error {
	if err := c.Config.Validate(); err != nil {
		return err
	}
	for _, s := range []struct {
		key  string
		size configfile.Size
		most configfile.Size
	}{
		{"max_body_bytes", c.MaxBodyBytes, configfile.GiB},
		{"max_in_flight_bytes", c.MaxInFlightBytes, configfile.TiB},
		{"max_request_line_bytes", c.MaxRequestLineBytes, configfile.MiB},
		{"max_header_bytes", c.MaxHeaderBytes, configfile.MiB},
	} {
		if s.size < configfile.KiB || s.size > s.most {
			return fmt.Errorf("%s: %s is outside 1KiB to %s", s.key, s.size, s.most)
		}
	}
	if least := charge(int(c.MaxBodyBytes)); int64(c.MaxInFlightBytes) < least {
		return fmt.Errorf("max_in_flight_bytes: %s is less than one request of max_body_bytes needs, %s", c.MaxInFlightBytes, configfile.Size(least))
	}
	if c.MaxConnections < 1 {
		return fmt.Errorf("max_connections: %d leaves no connection", c.MaxConnections)
	}
	for _, d := range []struct {
		key  string
		time time.Duration
	}{
		{"header_timeout", c.HeaderTimeout}, {"request_timeout", c.RequestTimeout},
		{"idle_timeout", c.IdleTimeout}, {"append_timeout", c.AppendTimeout},
	} {
		if d.time <= 0 {
			return fmt.Errorf("%s: %s is not more than zero", d.key, d.time)
		}
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		return errors.New("tls: cert_file and key_file go together")
	}
	return nil
}
