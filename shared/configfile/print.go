package configfile

import (
	"encoding"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// Print writes config as YAML with every key, defaults included, in the order of
// the struct. Secrets are shown as <redacted>; the rest reads back by [Load] into
// an equal value.
func Print(w io.Writer, config any) error {
	n, err := encode(reflect.ValueOf(config))
	if err != nil {
		return fmt.Errorf("print config: %w", err)
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return fmt.Errorf("print config: %w", err)
	}
	return e.Close()
}

// Scalar returns the text by which v, a value of a type that is one YAML value
// (not a struct, list or map), stands in a config file.
func Scalar(v any) (string, error) {
	switch x := v.(type) {
	case time.Duration:
		return FormatDuration(x), nil
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		return string(text), err
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.String:
		return r.String(), nil
	case reflect.Bool:
		return strconv.FormatBool(r.Bool()), nil
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(r.Float(), 'g', -1, r.Type().Bits()), nil
	default:
		if r.CanInt() || r.CanUint() {
			return fmt.Sprint(v), nil
		}
		return "", fmt.Errorf("a value of type %T has no form in a config file", v)
	}
}

func encode(v reflect.Value) (*yaml.Node, error) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
		}
		return encode(v.Elem())
	}
	if _, ok := v.Interface().(encoding.TextMarshaler); ok {
		return encodeScalar(v)
	}
	switch v.Kind() {
	case reflect.Struct:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range fieldsOf(v.Type()) {
			value := v.FieldByIndex(f.index)
			if f.omitEmpty && value.IsZero() {
				continue
			}
			if err := appendEntry(n, f.key, value); err != nil {
				return nil, err
			}
		}
		return n, nil
	case reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, k := range sortedKeys(v) {
			if err := appendEntry(n, k.String(), v.MapIndex(k)); err != nil {
				return nil, err
			}
		}
		return n, nil
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			item, err := encode(v.Index(i))
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		return n, nil
	default:
		return encodeScalar(v)
	}
}

func appendEntry(n *yaml.Node, key string, v reflect.Value) error {
	value, err := encode(v)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	name := &yaml.Node{}
	name.SetString(key)
	n.Content = append(n.Content, name, value)
	return nil
}

func encodeScalar(v reflect.Value) (*yaml.Node, error) {
	text, err := Scalar(v.Interface())
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{}
	// A literal ${ must not be expanded when the text is read again.
	n.SetString(escapeEnv(text))
	if v.Kind() != reflect.String && v.Kind() != reflect.Struct {
		n.Tag = "" // a number or a word: no quotes
	}
	return n, nil
}
