package configfile

import (
	"fmt"
	"regexp"
	"strings"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} and ${NAME:-text} in s; $${ stands for ${. What is put
// in is not expanded again. A $ without a brace is left as it is.
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		body, rest, closed := strings.Cut(s[i+2:], "}")
		if !closed {
			return "", fmt.Errorf("%q is not closed by a }: write $${ for a literal ${", s[i:])
		}
		name, fallback, hasFallback := strings.Cut(body, ":-")
		if !envName.MatchString(name) {
			return "", fmt.Errorf("%q is not the name of an environment variable: write $${ for a literal ${", name)
		}
		value, set := lookup(name)
		switch {
		case hasFallback && value == "":
			value = fallback
		case !set && !hasFallback:
			return "", fmt.Errorf("environment variable %s is not set: set it, or write ${%s:-default}", name, name)
		}
		b.WriteString(value)
		s = rest
	}
}

// escapeEnv is the inverse of expand for a text without variables.
func escapeEnv(s string) string { return strings.ReplaceAll(s, "${", "$${") }
