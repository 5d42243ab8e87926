// Package configdoc writes the reference of a config file from the Go structs it
// is read into: keys from the yaml tags, defaults from a value, meanings from the
// doc comments in the source. It needs the source at hand, so it serves the test
// that keeps the documentation true, not the programs.
package configdoc

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"spillway/shared/configfile"
)

// Section is a group of keys: those of one struct.
type Section struct {
	Key  string // full dotted, "" for the top of the file
	Doc  string
	Rows []Row
}

// Row is one key that has a value.
type Row struct {
	Key     string // full dotted
	Type    string // in the words of the file: "duration", "list of text"
	Default string // as it would stand in the file, "" for nothing
	Doc     string
}

// Sections describes the file that config.Load reads over defaults, a struct. The
// structs must belong to the module of the working directory. A key without a doc
// comment is an error: every key says what it means.
func Sections(defaults any) ([]Section, error) {
	r, err := newReader()
	if err != nil {
		return nil, err
	}
	sections := []Section{{}}
	index := map[string]int{"": 0}
	var errs []error
	configfile.Walk(defaults, func(k configfile.Key) {
		text, err := r.fieldDoc(k.Owner, k.Field)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", k.Path, err))
			return
		}
		if !k.Leaf {
			index[k.Path] = len(sections)
			sections = append(sections, Section{Key: k.Path, Doc: text})
			return
		}
		parent := k.Path[:max(0, strings.LastIndex(k.Path, "."))]
		parent = strings.TrimSuffix(strings.TrimSuffix(parent, ".NAME"), "[]")
		at := index[parent]
		sections[at].Rows = append(sections[at].Rows, Row{Key: k.Path, Type: typeName(k.Value.Type()), Default: defaultText(k.Value), Doc: text})
	})
	return sections, errors.Join(errs...)
}

// Markdown writes a heading of the given level and a table for every section.
func Markdown(w io.Writer, level int, sections []Section) error {
	var b strings.Builder
	for _, s := range sections {
		if s.Key != "" {
			fmt.Fprintf(&b, "%s `%s`\n\n%s\n\n", strings.Repeat("#", level), s.Key, s.Doc)
		}
		if len(s.Rows) == 0 {
			continue
		}
		b.WriteString("| key | type | default | meaning |\n|---|---|---|---|\n")
		for _, r := range s.Rows {
			value := ""
			if r.Default != "" {
				value = "`" + r.Default + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Key, r.Type, cell(value), cell(r.Doc))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// reader finds doc comments in the source of one module.
type reader struct {
	root, module string
	packages     map[string]map[string]*ast.StructType // by import path, then type name
}

func newReader() (*reader, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			first, _, _ := strings.Cut(string(content), "\n")
			return &reader{dir, strings.TrimSpace(strings.TrimPrefix(first, "module ")), map[string]map[string]*ast.StructType{}}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			return nil, fmt.Errorf("find the module of the working directory: %w", err)
		}
		dir = filepath.Dir(dir)
	}
}

// fieldDoc returns the comment of a field as one paragraph.
func (r *reader) fieldDoc(owner reflect.Type, field string) (string, error) {
	structs, err := r.structsOf(owner.PkgPath())
	if err != nil {
		return "", err
	}
	s, ok := structs[owner.Name()]
	if !ok {
		return "", fmt.Errorf("struct %s is not declared in the source of %s", owner.Name(), owner.PkgPath())
	}
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			if name.Name != field {
				continue
			}
			text := f.Doc.Text()
			if text == "" {
				text = f.Comment.Text()
			}
			if text = strings.Join(strings.Fields(text), " "); text == "" {
				return "", fmt.Errorf("field %s.%s has no doc comment", owner, field)
			}
			return withoutName(text, field), nil
		}
	}
	return "", fmt.Errorf("field %s is not declared in struct %s", field, owner)
}

// withoutName drops the Go name at the beginning: "MaxBytes is the..." becomes
// "The...", because readers of the file know the key, not the field.
func withoutName(text, field string) string {
	for _, verb := range []string{" is ", " are "} {
		if rest, ok := strings.CutPrefix(text, field+verb); ok && rest != "" {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	if rest, ok := strings.CutPrefix(text, field+" "); ok && rest != "" {
		return strings.ToUpper(rest[:1]) + rest[1:]
	}
	return text
}

func (r *reader) structsOf(pkg string) (map[string]*ast.StructType, error) {
	if found, ok := r.packages[pkg]; ok {
		return found, nil
	}
	under, ok := strings.CutPrefix(pkg, r.module)
	if !ok {
		return nil, fmt.Errorf("package %s is not in module %s", pkg, r.module)
	}
	files, err := filepath.Glob(filepath.Join(r.root, filepath.FromSlash(under), "*.go"))
	if err != nil {
		return nil, err
	}
	structs := map[string]*ast.StructType{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	r.packages[pkg] = structs
	return structs, nil
}

func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[configfile.Size]():
		return "size"
	case reflect.TypeFor[configfile.Secret]():
		return "secret"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Slice:
		return "list of " + typeName(t.Elem())
	case reflect.Map:
		return "map of " + typeName(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.String, reflect.Struct:
		return "text"
	default:
		return "whole number"
	}
}

func defaultText(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return defaultText(v.Elem())
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			items = append(items, defaultText(v.Index(i)))
		}
		if items == nil {
			return ""
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Map:
		var items []string
		for k, item := range v.Seq2() {
			items = append(items, k.String()+": "+defaultText(item))
		}
		if items == nil {
			return ""
		}
		slices.Sort(items)
		return "{" + strings.Join(items, ", ") + "}"
	}
	text, err := configfile.Scalar(v.Interface())
	if err != nil {
		return ""
	}
	return text
}
