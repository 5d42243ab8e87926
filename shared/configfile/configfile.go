// Package configfile reads a YAML file into a struct and refuses whatever it
// does not understand, naming the file, the line and the full key.
//
// The way of one file: read, parse into a tree that remembers where each value
// stood (parse.go), expand ${ENV} (env.go), lay it over the file it extends
// (extend.go), decode it over the defaults (decode.go), then ask the struct's
// Validate and put positions to what it says (errors.go). All mistakes of one
// step are reported together, in the order of the file.
//
// Rules of the format, beyond YAML:
//
//   - A key that is not in the struct, or stands twice, is an error.
//   - A key without a value ("spool:") says nothing: the default stays.
//   - ${NAME} in a value is replaced by the environment variable; an unset one
//     is an error. ${NAME:-text} gives text when it is unset or empty; $${ is a
//     literal ${. The replacement is never parsed as YAML.
//   - extends: other.yaml, at the top, takes that file (relative to this one)
//     as the base: mappings are merged key by key, anything else is replaced.
//   - Durations are "250ms", "5s", "1h30m", "7d" (a day is 24 hours); sizes are
//     numbers of bytes or "64MiB"; see [ParseDuration] and [ParseSize].
//   - Anchors, aliases and several documents in one file are refused.
//
// A struct takes part by yaml tags: a field without one is not configurable,
// `yaml:",inline"` spreads a struct into its parent.
package configfile

import (
	"fmt"
	"os"
)

// Option changes how a file is loaded.
type Option func(*loader)

// WithEnv makes ${NAME} ask lookup instead of os.LookupEnv.
func WithEnv(lookup func(name string) (string, bool)) Option {
	return func(l *loader) { l.env = lookup }
}

// WithoutValidation leaves out the call of Validate, for a caller that changes
// the value (by flags, say) and validates it afterwards.
func WithoutValidation() Option {
	return func(l *loader) { l.skipValidate = true }
}

type loader struct {
	env          func(string) (string, bool)
	skipValidate bool
}

// Load reads the file at path over defaults and returns the result. An empty
// file gives the defaults. When T or *T has a method Validate() error it is
// called last, and the keys it names (see [FieldError]) are shown with their
// place in the file. On error the returned value is not to be used. The maps and
// slices of defaults are not changed. Every mistake in the content is an
// [*Error] within the returned error.
func Load[T any](path string, defaults T, opts ...Option) (T, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return defaults, fmt.Errorf("read config: %w", err)
	}
	return LoadBytes(path, data, defaults, opts...)
}

// LoadBytes is Load for content already read; name stands for the file in error
// messages, and its directory is where relative paths begin.
func LoadBytes[T any](name string, data []byte, defaults T, opts ...Option) (T, error) {
	l := loader{env: os.LookupEnv}
	for _, o := range opts {
		o(&l)
	}
	root, err := l.tree(name, data, nil)
	if err != nil {
		return defaults, err
	}
	value, places, err := decode(name, root, defaults)
	if err != nil || l.skipValidate {
		return value, err
	}
	if v, ok := any(&value).(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return value, places.locate(err)
		}
	}
	return value, nil
}
