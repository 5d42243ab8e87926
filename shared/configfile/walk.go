package configfile

import (
	"encoding"
	"reflect"
)

// Key is one key of a config struct, as [Walk] finds it.
type Key struct {
	Path  string        // full dotted; items of a list are "rules[]", values of a map "routes.NAME"
	Owner reflect.Type  // the struct that declares it
	Field string        // its name in Owner
	Value reflect.Value // what config holds, or the zero value within lists, maps and nil pointers
	Leaf  bool          // has no keys below it
}

// Walk calls visit for every key that config, a struct, can have in a file, parents
// before their children, in the order of declaration.
func Walk(config any, visit func(Key)) { walk("", reflect.ValueOf(config), visit) }

func walk(path string, v reflect.Value, visit func(Key)) {
	for _, f := range fieldsOf(v.Type()) {
		owner := v.Type()
		if inlined := f.index[:len(f.index)-1]; len(inlined) > 0 {
			owner = owner.FieldByIndex(inlined).Type
		}
		k := Key{
			Path:  childKey(path, f.key),
			Owner: owner,
			Field: v.Type().FieldByIndex(f.index).Name,
			Value: v.FieldByIndex(f.index),
		}
		below, inner := k.Path, k.Value
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			switch inner.Kind() {
			case reflect.Slice:
				below += "[]"
			case reflect.Map:
				below += ".NAME"
			}
			if inner.Kind() == reflect.Pointer && !inner.IsNil() {
				inner = inner.Elem()
			} else {
				inner = reflect.Zero(inner.Type().Elem())
			}
		}
		_, isText := inner.Interface().(encoding.TextMarshaler)
		k.Leaf = inner.Kind() != reflect.Struct || isText
		visit(k)
		if !k.Leaf {
			walk(below, inner, visit)
		}
	}
}
