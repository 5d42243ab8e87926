package configfile

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

var durationType = reflect.TypeFor[time.Duration]()

// decoder walks a tree and a value side by side.
type decoder struct {
	errs   []*Error
	places places
}

// decode lays the tree over a copy of defaults. It also returns where each key
// stood.
func decode[T any](file string, root *node, defaults T) (T, places, error) {
	d := decoder{places: places{file: file, keys: map[string]place{}}}
	value := defaults
	d.value(root, "", reflect.ValueOf(&value).Elem())
	return value, d.places, join(d.errs)
}

func (d *decoder) fail(at place, key, format string, args ...any) {
	d.errs = append(d.errs, &Error{File: at.file, Line: at.line, Key: key, Message: fmt.Sprintf(format, args...)})
}

// value decodes n into v, which is settable and holds the default.
func (d *decoder) value(n *node, path string, v reflect.Value) {
	if n.kind == empty {
		return
	}
	switch into := v.Addr().Interface().(type) {
	case interface{ decodeNode(*node) error }:
		if err := into.decodeNode(n); err != nil {
			d.fail(n.place, path, "%v", err)
		}
		return
	case encoding.TextUnmarshaler:
		if d.want(n, path, scalar) {
			if err := into.UnmarshalText([]byte(n.text)); err != nil {
				d.fail(n.place, path, "%v", err)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		inner := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			inner.Elem().Set(v.Elem())
		}
		d.value(n, path, inner.Elem())
		v.Set(inner)
	case reflect.Struct:
		if d.want(n, path, mapping) {
			d.structure(n, path, v)
		}
	case reflect.Map:
		if d.want(n, path, mapping) {
			d.mapping(n, path, v)
		}
	case reflect.Slice:
		if d.want(n, path, list) {
			items := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
			for i, item := range n.items {
				key := indexKey(path, i)
				d.places.keys[key] = item.place
				d.value(item, key, items.Index(i))
			}
			v.Set(items)
		}
	default:
		if d.want(n, path, scalar) {
			if err := setScalar(n.text, v); err != nil {
				d.fail(n.place, path, "%v", err)
			}
		}
	}
}

func (d *decoder) want(n *node, path string, k kind) bool {
	if n.kind != k {
		d.fail(n.place, path, "want %s, this is %s", k, n.kind)
	}
	return n.kind == k
}

func (d *decoder) structure(n *node, path string, v reflect.Value) {
	byKey := map[string]field{}
	var keys []string
	for _, f := range fieldsOf(v.Type()) {
		byKey[f.key] = f
		keys = append(keys, f.key)
	}
	for _, e := range n.entries {
		full := childKey(path, e.key)
		f, ok := byKey[e.key]
		if !ok {
			d.unknown(e, path, keys)
			continue
		}
		d.places.keys[full] = e.place
		d.value(e.value, full, v.FieldByIndex(f.index))
	}
}

func (d *decoder) unknown(e *entry, path string, keys []string) {
	hint := "known here: " + strings.Join(keys, ", ")
	if near := suggest(e.key, keys); near != "" {
		hint = fmt.Sprintf("did you mean %q?", childKey(path, near))
	}
	d.fail(e.place, "", "unknown key %q: %s", childKey(path, e.key), hint)
}

// mapping adds the entries to a copy of the default map.
func (d *decoder) mapping(n *node, path string, v reflect.Value) {
	t := v.Type()
	if t.Key().Kind() != reflect.String {
		panic(fmt.Sprintf("configfile: %s: a map must have string keys", t))
	}
	out := reflect.MakeMap(t)
	for k, old := range v.Seq2() {
		out.SetMapIndex(k, old)
	}
	for _, e := range n.entries {
		full := childKey(path, e.key)
		d.places.keys[full] = e.place
		k := reflect.ValueOf(e.key).Convert(t.Key())
		item := reflect.New(t.Elem()).Elem()
		if old := out.MapIndex(k); old.IsValid() {
			item.Set(old)
		}
		d.value(e.value, full, item)
		out.SetMapIndex(k, item)
	}
	v.Set(out)
}

func setScalar(text string, v reflect.Value) error {
	switch {
	case v.Type() == durationType:
		d, err := ParseDuration(text)
		if err != nil {
			return err
		}
		v.SetInt(int64(d))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q: want true or false", text)
		}
		v.SetBool(text == "true")
	case v.CanInt():
		i, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("%q: want a whole number of at most %d bits", text, v.Type().Bits())
		}
		v.SetInt(i)
	case v.CanUint():
		u, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("%q: want a whole number, zero or more, of at most %d bits", text, v.Type().Bits())
		}
		v.SetUint(u)
	case v.CanFloat():
		f, err := strconv.ParseFloat(text, v.Type().Bits())
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%q: want a number", text)
		}
		v.SetFloat(f)
	default:
		panic(fmt.Sprintf("configfile: a field of type %s cannot be read from a file", v.Type()))
	}
	return nil
}

// sortedKeys returns the keys of a map with string keys, in order.
func sortedKeys(v reflect.Value) []reflect.Value {
	byName := map[string]reflect.Value{}
	for k := range v.Seq2() {
		byName[k.String()] = k
	}
	keys := make([]reflect.Value, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		keys = append(keys, byName[name])
	}
	return keys
}
