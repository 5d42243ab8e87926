package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is a YAML value that remembers where it stood.
type node struct {
	place
	kind    kind
	text    string   // of a scalar, ${ENV} already expanded
	entries []*entry // of a mapping, in the order of the file
	items   []*node  // of a list
}

type kind string

const (
	empty   kind = "nothing"
	scalar  kind = "a single value"
	mapping kind = "a mapping"
	list    kind = "a list"
)

type entry struct {
	place
	key   string
	value *node
}

func (n *node) entry(key string) *entry {
	for _, e := range n.entries {
		if e.key == key {
			return e
		}
	}
	return nil
}

// parser turns one file into a tree and gathers its mistakes.
type parser struct {
	file string
	env  func(string) (string, bool)
	errs []*Error
}

// parse returns the content of one file as a mapping.
func (l *loader) parse(file string, data []byte) (*node, error) {
	var doc, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return &node{place: place{file, 0}, kind: mapping}, nil
	case err != nil:
		return nil, syntaxError(file, data, err)
	}
	switch err := d.Decode(&second); {
	case err == nil:
		return nil, &Error{File: file, Line: second.Line, Message: "a second document begins here: a config file holds one"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(file, data, err)
	}
	p := parser{file: file, env: l.env}
	root := p.convert("", doc.Content[0])
	switch {
	case len(p.errs) > 0:
		return nil, join(p.errs)
	case root.kind == empty:
		root.kind = mapping
	case root.kind != mapping:
		return nil, &Error{File: file, Line: root.line, Message: "want keys with values (key: value), this is " + string(root.kind)}
	}
	return root, nil
}

func (p *parser) fail(line int, key, message string) {
	p.errs = append(p.errs, &Error{File: p.file, Line: line, Key: key, Message: message})
}

const noAnchors = "anchors (&) and aliases (*) are not supported: write the value out, or put what is shared in a file and say `extends: FILE`"

// plainTags are what YAML finds out about a value by itself.
var plainTags = []string{"!!map", "!!seq", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp"}

func (p *parser) convert(path string, y *yaml.Node) *node {
	n := &node{place: place{p.file, y.Line}}
	if y.Anchor != "" || y.Kind == yaml.AliasNode || y.Tag == "!!merge" {
		p.fail(y.Line, path, noAnchors)
		n.kind = empty
		return n
	}
	switch tag := y.ShortTag(); {
	case !slices.Contains(plainTags, tag):
		p.fail(y.Line, path, "the tag "+tag+" is not supported: write the value without it")
		n.kind = empty
	case y.Kind == yaml.MappingNode:
		n.kind = mapping
		p.entries(path, y, n)
	case y.Kind == yaml.SequenceNode:
		n.kind = list
		for i, item := range y.Content {
			n.items = append(n.items, p.convert(indexKey(path, i), item))
		}
	case tag == "!!null":
		n.kind = empty
	default:
		text, err := expand(y.Value, p.env)
		if err != nil {
			p.fail(y.Line, path, err.Error())
		}
		n.kind, n.text = scalar, text
	}
	return n
}

func (p *parser) entries(path string, y *yaml.Node, n *node) {
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, v := y.Content[i], y.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Anchor != "" || k.Tag == "!!merge" {
			p.convert(path, k) // names an anchor or alias, if it is one
			if k.Kind != yaml.AliasNode && k.Anchor == "" && k.Tag != "!!merge" {
				p.fail(k.Line, path, "a key must be a single word")
			}
			continue
		}
		e := &entry{place: place{p.file, k.Line}, key: k.Value}
		full := childKey(path, e.key)
		if first := n.entry(e.key); first != nil {
			p.fail(k.Line, full, "this key is given twice, first on line "+strconv.Itoa(first.line))
			continue
		}
		e.value = p.convert(full, v)
		n.entries = append(n.entries, e)
	}
}

func childKey(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func indexKey(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

var (
	yamlLine      = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntaxError gives a message of the YAML parser its place, and names the usual
// causes that the parser does not.
func syntaxError(file string, data []byte, err error) error {
	e := &Error{File: file, Message: "not valid YAML: " + err.Error()}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		// The library counts the lines of its grammar errors from 0, those of the
		// characters from 1, and leaves out a 0.
		if e.Line == 0 || strings.HasPrefix(m[2], "did not find expected") {
			e.Line++
		}
		e.Message = "not valid YAML: " + m[2]
		if name := unknownAnchor.FindStringSubmatch(m[2]); name != nil {
			e.Line = lineOf(data, "*"+name[1])
			e.Message = noAnchors
		}
	}
	for i, line := range strings.Split(string(data), "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		control := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' && r != '\r' || r == 0x7f })
		switch {
		case control >= 0:
			e.Line, e.Message = i+1, fmt.Sprintf("not valid YAML: character %d of this line is a control character (%q)", control+1, line[control])
			return e
		case strings.Contains(indent, "\t") && strings.TrimSpace(line) != "":
			e.Line, e.Message = i+1, "not valid YAML: this line is indented with a tab, YAML wants spaces"
			return e
		}
	}
	return e
}

// lineOf returns the line on which text stands first, counted from 1.
func lineOf(data []byte, text string) int {
	before, _, _ := bytes.Cut(data, []byte(text))
	return 1 + bytes.Count(before, []byte("\n"))
}
