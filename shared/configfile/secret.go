package configfile

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

const redacted = "<redacted>"

// Secret is a value that is never printed: a token, a password, a URL that holds
// one. In YAML it is the value itself (usually ${NAME}) or {file: PATH}, read
// when the config is loaded, without the newline at its end; a relative PATH
// begins at the config file. Its zero value is no secret. Secrets can be
// compared with ==.
type Secret struct{ value string }

// NewSecret returns a secret that holds value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value, for the one place that sends it.
func (s Secret) Reveal() string { return s.value }

// IsSet tells whether there is a value.
func (s Secret) IsSet() bool { return s.value != "" }

// String returns "<redacted>", or "" for no secret.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return redacted
}

// Format prints String for every verb, so that no way of printing a struct shows
// the value.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText returns String, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// decodeNode reads a secret from the tree.
func (s *Secret) decodeNode(n *node) error {
	switch {
	case n.kind == scalar && n.text == redacted:
		return errors.New("this is a printed config, the secret is not in it: write the value or {file: PATH}")
	case n.kind == scalar:
		s.value = n.text
		return nil
	case n.kind != mapping || len(n.entries) != 1 || n.entries[0].key != "file" || n.entries[0].value.kind != scalar:
		return errors.New("want the secret itself or {file: PATH}, this is " + string(n.kind))
	}
	name := n.entries[0].value
	path := relativeTo(name.file, name.text)
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read secret: %w", err)
	}
	value := strings.TrimRight(string(data), "\r\n")
	if value == "" {
		return fmt.Errorf("read secret: %s is empty", path)
	}
	s.value = value
	return nil
}
