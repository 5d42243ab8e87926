package configfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const extendsKey = "extends"

// tree parses one file and lays it over the file it extends, if any. chain holds
// the files that led here, to find a circle.
func (l *loader) tree(file string, data []byte, chain []string) (*node, error) {
	root, err := l.parse(file, data)
	if err != nil {
		return nil, err
	}
	e := root.entry(extendsKey)
	if e == nil {
		return root, nil
	}
	root.entries = slices.DeleteFunc(root.entries, func(x *entry) bool { return x == e })
	fail := func(message string) error {
		return &Error{File: file, Line: e.line, Key: extendsKey, Message: message}
	}
	if e.value.kind == empty {
		return root, nil
	}
	if e.value.kind != scalar || e.value.text == "" {
		return nil, fail("want the name of one file, this is " + string(e.value.kind))
	}
	base := relativeTo(file, e.value.text)
	chain = append(chain, filepath.Clean(file))
	if slices.Contains(chain, base) {
		return nil, fail("the files extend each other in a circle: " + strings.Join(append(chain, base), " -> "))
	}
	baseData, err := os.ReadFile(base)
	if err != nil {
		return nil, fail("read the file this one extends: " + err.Error())
	}
	under, err := l.tree(base, baseData, chain)
	if err != nil {
		return nil, err
	}
	return merge(under, root), nil
}

// relativeTo resolves path as it is meant in a config file: from its directory.
func relativeTo(file, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(file), path)
}

// merge lays over on base: mappings key by key, anything else is replaced, a key
// without a value changes nothing.
func merge(base, over *node) *node {
	if over.kind == empty {
		return base
	}
	if base.kind != mapping || over.kind != mapping {
		return over
	}
	merged := *over
	merged.entries = slices.Clone(base.entries)
	for _, e := range over.entries {
		i := slices.IndexFunc(merged.entries, func(b *entry) bool { return b.key == e.key })
		if i < 0 {
			merged.entries = append(merged.entries, e)
			continue
		}
		if e.value.kind != empty {
			merged.entries[i] = &entry{place: e.place, key: e.key, value: merge(merged.entries[i].value, e.value)}
		}
	}
	return &merged
}
