package configfile

import (
	"reflect"
	"strings"
)

// field is one configurable field of a struct.
type field struct {
	key       string
	index     []int // for reflect.Value.FieldByIndex
	omitEmpty bool
}

// fieldsOf returns the fields of struct type t that have a yaml key, in order,
// with inlined structs spread out.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("yaml")
		if !ok || !f.IsExported() && !f.Anonymous {
			continue
		}
		key, options, _ := strings.Cut(tag, ",")
		switch {
		case key == "-":
		case strings.Contains(options, "inline") && f.Type.Kind() == reflect.Struct:
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
		case key != "":
			fields = append(fields, field{key: key, index: []int{i}, omitEmpty: strings.Contains(options, "omitempty")})
		}
	}
	return fields
}

// suggest returns the one of valid that key was probably meant to be, or "".
func suggest(key string, valid []string) string {
	best, bestDistance := "", max(2, len(key)/3)+1
	for _, v := range valid {
		if d := distance(key, v); d < bestDistance && d < len(v) {
			best, bestDistance = v, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	if len(a) > 100 || len(b) > 100 {
		return 100
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
