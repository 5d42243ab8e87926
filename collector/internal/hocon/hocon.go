// Package hocon reads the configs of the reference collector: HOCON, the JSON
// that people write by hand. It reads what those files use, and refuses by line
// what it does not read rather than guess.
//
// Read are comments (# and //), dotted and quoted keys, objects with and without
// an equals sign, merging of objects that stand twice, lists, all kinds of
// strings, null, and substitutions that are a whole plain value: ${path} of
// another key, ${NAME} and ${?NAME} of the environment. Refused are include, +=,
// and values put together from several substitutions, objects or lists.
package hocon

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Kind is what a value is.
type Kind int

// The kinds. Numbers and booleans are Text: what they mean depends on the key.
const (
	Text Kind = iota
	List
	Object
)

// Value is a node of the tree.
type Value struct {
	Kind  Kind
	Line  int      // where it stands, from 1
	Text  string   // of a Text
	Items []*Value // of a List

	// Env is the environment variable that gives the text when it is set; empty:
	// none. NoText means that there is no text to fall back on: the variable must
	// be set if Required, else the key may as well be missing.
	Env      string
	NoText   bool
	Required bool

	keys    []string // of an Object, in the order of the file
	members map[string]*Value
	ref     string // the path in ${...} until it is resolved
}

// Error is a mistake, or something that is not read, in a file.
type Error struct {
	Line    int
	Message string
}

// Error returns line and message.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// Parse reads a file's content. Every error is an *Error.
func Parse(text string) (*Value, error) {
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	if err := root.resolve(root, 0); err != nil {
		return nil, err
	}
	return root, nil
}

// At returns the value at a path of keys, or nil.
func (v *Value) At(path ...string) *Value {
	for _, key := range path {
		if v == nil || v.Kind != Object {
			return nil
		}
		v = v.members[key]
	}
	return v
}

// Members yields the members of an object in the order of the file.
func (v *Value) Members() iter.Seq2[string, *Value] {
	return func(yield func(string, *Value) bool) {
		for _, key := range v.keys {
			if !yield(key, v.members[key]) {
				return
			}
		}
	}
}

func newObject(line int) *Value {
	return &Value{Kind: Object, Line: line, members: map[string]*Value{}}
}

func (v *Value) remove(key string) {
	delete(v.members, key)
	v.keys = slices.DeleteFunc(v.keys, func(k string) bool { return k == key })
}

// set puts a value at a path, over what is there: objects are merged, and an
// optional variable keeps the text that it may replace.
func (v *Value) set(path []string, value *Value) error {
	for _, key := range path[:len(path)-1] {
		next := v.members[key]
		if next == nil || next.Kind != Object {
			next = newObject(value.Line)
			v.put(key, next)
		}
		v = next
	}
	key := path[len(path)-1]
	old := v.members[key]
	switch {
	case value == null:
		v.remove(key)
	case old != nil && old.Kind == Object && value.Kind == Object && value.ref == "":
		for name, member := range value.Members() {
			if err := old.set([]string{name}, member); err != nil {
				return err
			}
		}
	case old != nil && value.ref != "" && !value.Required:
		if old.Kind != Text || old.ref != "" {
			return &Error{value.Line, fmt.Sprintf("%s is replaced by an optional substitution: this is read only for plain values", key)}
		}
		v.put(key, &Value{Line: old.Line, Text: old.Text, ref: value.ref})
	default:
		v.put(key, value)
	}
	return nil
}

func (v *Value) put(key string, value *Value) {
	if _, ok := v.members[key]; !ok {
		v.keys = append(v.keys, key)
	}
	v.members[key] = value
}

// maxDepth bounds nesting, and substitutions that lead to each other.
const maxDepth = 64

// resolve replaces substitutions below v by the values they name, or by the
// environment variable where no key has that name.
func (v *Value) resolve(root *Value, depth int) error {
	if depth > maxDepth {
		return &Error{v.Line, "substitutions lead to each other, or too deep"}
	}
	for _, item := range v.Items {
		if err := item.resolve(root, depth+1); err != nil {
			return err
		}
	}
	for key, member := range v.Members() {
		if err := member.resolve(root, depth+1); err != nil {
			return err
		}
		if member.NoText && member.Env == "" {
			defer v.remove(key)
		}
	}
	name := v.ref
	if name == "" {
		return nil
	}
	if target := root.At(strings.Split(name, ".")...); target != nil && target != v {
		if target.Kind != Text {
			return &Error{v.Line, fmt.Sprintf("${%s} is no plain value: write it out", name)}
		}
		if err := target.resolve(root, depth+1); err != nil {
			return err
		}
		if target.NoText && target.Env == "" {
			v.ref = ""
			return nil
		}
		v.Text, v.Env, v.NoText, v.Required, v.ref = target.Text, target.Env, target.NoText, target.Required, ""
		return nil
	}
	switch {
	case isEnv(name):
		v.Env = name
	case v.Required:
		return &Error{v.Line, fmt.Sprintf("${%s} is neither a key of this file nor the name of an environment variable", name)}
	}
	v.ref = ""
	return nil
}

func isEnv(name string) bool {
	for i, r := range name {
		if !(r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return name != ""
}
