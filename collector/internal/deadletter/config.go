package deadletter

import (
	"fmt"

	"spillway/shared/configfile"
)

// Config says how much room dead letters may take.
type Config struct {
	// MaxBytes is how large all dead-letter files may be together. When it is
	// reached nothing is deleted: new dead letters are refused, loudly, until a
	// person makes room. Default 1GiB. At least 1MiB.
	MaxBytes configfile.Size `yaml:"max_bytes"`
}

// DefaultConfig returns the defaults given at each field.
func DefaultConfig() Config { return Config{MaxBytes: configfile.GiB} }

// Validate says what is wrong with the config, naming the YAML key.
func (c Config) Validate() error {
	if c.MaxBytes < configfile.MiB {
		return fmt.Errorf("max_bytes: %s is less than 1MiB, too small to hold one oversize request", c.MaxBytes)
	}
	return nil
}
