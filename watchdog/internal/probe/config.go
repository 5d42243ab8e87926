package probe

import (
	"net"
	"strings"

	"spillway/shared/configfile"
)

// Config says how to tell the collector and what else can witness for it.
type Config struct {
	// Instance is the name the collector's reports must carry. Default: any.
	Instance string `yaml:"instance"`
	// PublicAddress is the port that trackers use, host:port; its /health is
	// asked when the health report cannot be had. Default 127.0.0.1:8080; empty
	// asks nobody, and then only the process can witness against itself.
	PublicAddress string `yaml:"public_address"`
}

// DefaultConfig asks the collector's default public port.
func DefaultConfig() Config { return Config{PublicAddress: "127.0.0.1:8080"} }

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	if c.PublicAddress == "" {
		return nil
	}
	if path, ok := strings.CutPrefix(c.PublicAddress, "unix:"); ok && strings.HasPrefix(path, "/") {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.PublicAddress); err != nil {
		return configfile.Invalid("public_address", "%q is no address: want host:port", c.PublicAddress)
	}
	return nil
}
