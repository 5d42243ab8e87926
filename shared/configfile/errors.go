package configfile

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Error is one mistake in a config file.
type Error struct {
	File    string
	Line    int    // 0 when the mistake has no line, as for a required key that is absent
	Key     string // full dotted key, empty when there is none
	Message string
}

// Error returns "file:line: key: message".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Key != "" {
		b.WriteString(": " + e.Key)
	}
	b.WriteString(": " + e.Message)
	return b.String()
}

// FieldError is what a Validate method says about one key. Key is relative to
// the struct that validates; [Under] makes it relative to the parent.
type FieldError struct {
	Key     string
	Message string
}

// Error returns "key: message".
func (e *FieldError) Error() string {
	if e.Key == "" {
		return e.Message
	}
	return e.Key + ": " + e.Message
}

// Invalid returns a FieldError about key. The message goes on after the key:
// Invalid("max_records", "%d is more than 500", n).
func Invalid(key, format string, args ...any) error {
	return &FieldError{Key: key, Message: fmt.Sprintf(format, args...)}
}

// Under puts prefix before the key of every FieldError in err, so that a parent
// can pass on what its part's Validate said:
//
//	return errors.Join(configfile.Under("spool", c.Spool.Validate()), ...)
//
// A plain error whose text begins with a key ("max_bytes: too small") counts as
// a FieldError; any other is taken to be about prefix itself. Under of nil is nil.
func Under(prefix string, err error) error {
	if err == nil {
		return nil
	}
	var under []error
	for _, f := range fieldErrors(err) {
		switch {
		case f.Key == "":
			f.Key = prefix
		case strings.HasPrefix(f.Key, "["):
			f.Key = prefix + f.Key
		default:
			f.Key = prefix + "." + f.Key
		}
		under = append(under, f)
	}
	return errors.Join(under...)
}

var leadingKey = regexp.MustCompile(`^([a-z][a-z0-9_]*(?:\.[a-z0-9_]+|\[[0-9]+\])*): `)

// fieldErrors takes joined errors apart and gives each a key of its own.
func fieldErrors(err error) []*FieldError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*FieldError
		for _, e := range joined.Unwrap() {
			all = append(all, fieldErrors(e)...)
		}
		return all
	}
	if f, ok := errors.AsType[*FieldError](err); ok {
		return []*FieldError{{Key: f.Key, Message: f.Message}}
	}
	text := err.Error()
	if m := leadingKey.FindStringSubmatch(text); m != nil {
		return []*FieldError{{Key: m[1], Message: text[len(m[0]):]}}
	}
	return []*FieldError{{Message: text}}
}

// place is where a key stands.
type place struct {
	file string
	line int
}

// places maps full dotted keys to where they stand.
type places struct {
	file string
	keys map[string]place
}

// locate turns what a Validate said into Errors: each gets the place of its key
// or, when the key is not in the file, of the nearest parent that is.
func (p places) locate(err error) error {
	var located []*Error
	for _, f := range fieldErrors(err) {
		e := &Error{File: p.file, Key: f.Key, Message: f.Message}
		for key := f.Key; key != ""; key = parentKey(key) {
			if at, ok := p.keys[key]; ok {
				e.File, e.Line = at.file, at.line
				break
			}
		}
		located = append(located, e)
	}
	return join(located)
}

func parentKey(key string) string {
	return key[:max(0, strings.LastIndexAny(key, ".["))]
}

// join sorts errors of the same file by line and joins them.
func join(list []*Error) error {
	slices.SortStableFunc(list, func(a, b *Error) int {
		if a.File != b.File {
			return 0
		}
		return cmp.Compare(a.Line, b.Line)
	})
	all := make([]error, len(list))
	for i, e := range list {
		all[i] = e
	}
	return errors.Join(all...)
}
