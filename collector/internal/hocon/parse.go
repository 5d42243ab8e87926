package hocon

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// null is what a key is set to in order to remove it.
var null = &Value{}

// parser walks over the text once.
type parser struct {
	text  string
	at    int
	line  int
	depth int
}

func parse(text string) (root *Value, err error) {
	if !utf8.ValidString(text) {
		return nil, &Error{1, "this is no text in UTF-8"}
	}
	p := &parser{text: strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n"), line: 1}
	p.blank()
	root = newObject(1)
	if p.take("{") {
		if err := p.members(root, "}"); err != nil {
			return nil, err
		}
		p.blank()
		if p.at < len(p.text) {
			return nil, p.errorf("something follows the closing }")
		}
		return root, nil
	}
	return root, p.members(root, "")
}

func (p *parser) errorf(format string, args ...any) error {
	return &Error{p.line, fmt.Sprintf(format, args...)}
}

// take takes a token if it comes next.
func (p *parser) take(token string) bool {
	if !p.next(token) {
		return false
	}
	p.at += len(token)
	return true
}

func (p *parser) next(token string) bool { return strings.HasPrefix(p.text[p.at:], token) }

// spaces skips blanks and comments within a line.
func (p *parser) spaces() {
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		switch {
		case r != '\n' && unicode.IsSpace(r):
			p.at += n
		case r == '#', p.next("//"):
			if end := strings.IndexByte(p.text[p.at:], '\n'); end >= 0 {
				p.at += end
			} else {
				p.at = len(p.text)
			}
		default:
			return
		}
	}
}

// blank skips blanks, comments and ends of lines, and says whether a line ended.
func (p *parser) blank() (ended bool) {
	for {
		p.spaces()
		if !p.take("\n") {
			return ended
		}
		p.line++
		ended = true
	}
}

// members reads the members of an object up to the closing token, or to the end
// of the text.
func (p *parser) members(object *Value, closing string) error {
	for {
		p.blank()
		switch {
		case p.at == len(p.text):
			if closing != "" {
				return &Error{object.Line, "the { here is not closed"}
			}
			return nil
		case closing != "" && p.take(closing):
			return nil
		}
		line := p.line
		path, err := p.path()
		if err != nil {
			return err
		}
		p.blank()
		if p.next("+=") {
			return p.errorf("+= is not read: write the whole list")
		}
		if !p.take("=") && !p.take(":") && !p.next("{") {
			return p.errorf("%s is followed by neither = nor a value", strings.Join(path, "."))
		}
		p.blank()
		value, err := p.value()
		if err != nil {
			return err
		}
		if value != null {
			value.Line = line
		}
		if err := object.set(path, value); err != nil {
			return err
		}
		if err := p.separator(closing); err != nil {
			return err
		}
	}
}

// separator reads what ends a member or an item: a comma, the end of the line, or
// what closes the whole, which is left.
func (p *parser) separator(closing string) error {
	ended := p.blank()
	if p.take(",") || ended || p.at == len(p.text) || closing != "" && p.next(closing) {
		return nil
	}
	return p.errorf("%q is not expected here", p.excerpt())
}

func (p *parser) excerpt() string {
	text := []rune(p.text[p.at:min(len(p.text), p.at+80)])
	return string(text[:min(len(text), 12)])
}

// path reads a key: parts between dots, quoted or not.
func (p *parser) path() ([]string, error) {
	var path []string
	for {
		p.spaces()
		var part string
		if p.next(`"`) {
			text, err := p.quoted()
			if err != nil {
				return nil, err
			}
			part = text
		} else if part = strings.TrimSpace(p.unquoted(".")); part == "" {
			return nil, p.errorf("a key is expected, not %q", p.excerpt())
		}
		if len(path) == 0 && (part == "include" || strings.HasPrefix(part, "include ")) && !p.next(".") && !p.next("=") && !p.next(":") {
			return nil, p.errorf("include is not read: put the content of the other file here")
		}
		path = append(path, part)
		if len(path) > maxDepth {
			return nil, p.errorf("the key has more than %d parts", maxDepth)
		}
		p.spaces()
		if !p.take(".") {
			return path, nil
		}
	}
}

// unquoted reads text without quotes up to a character that it cannot hold, or
// one of stop.
func (p *parser) unquoted(stop string) string {
	start := p.at
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if strings.ContainsRune("$\"{}[]:=,+#`^?!@*&\\\n"+stop, r) || p.next("//") {
			break
		}
		p.at += n
	}
	return p.text[start:p.at]
}

// value reads one value: an object, a list, a substitution, or text in pieces.
func (p *parser) value() (*Value, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.errorf("values are nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	v := &Value{Line: p.line}
	switch {
	case p.take("{"):
		v = newObject(p.line)
		return v, p.members(v, "}")
	case p.take("["):
		v.Kind = List
		return v, p.items(v)
	case p.take("${"):
		v.Required, v.NoText = !p.take("?"), true
		end := strings.IndexAny(p.text[p.at:], "}\n")
		if end < 0 || p.text[p.at+end] == '\n' {
			return nil, p.errorf("the ${ here is not closed")
		}
		v.ref = strings.TrimSpace(p.text[p.at : p.at+end])
		if p.at += end + 1; v.ref == "" {
			return nil, p.errorf("the substitution is empty")
		}
		return v, p.alone("a substitution and something else")
	}
	var text strings.Builder
	pieces, plain := 0, true
	for ; ; pieces++ {
		switch {
		case p.next(`"`):
			piece, err := p.quoted()
			if err != nil {
				return nil, err
			}
			text.WriteString(piece)
			plain = false
			continue
		case p.next("${"), p.next("{"), p.next("["):
			if pieces > 0 {
				return nil, p.errorf("a value put together from text and something else is not read: write it out")
			}
		}
		piece := p.unquoted("")
		if piece == "" {
			break
		}
		text.WriteString(piece)
	}
	v.Text = text.String()
	if plain {
		v.Text = strings.TrimSpace(v.Text)
	} else if pieces > 1 {
		v.Text = strings.TrimRightFunc(v.Text, unicode.IsSpace)
	}
	switch {
	case plain && v.Text == "":
		return nil, p.errorf("a value is expected, not %q", p.excerpt())
	case plain && v.Text == "null":
		return null, nil
	}
	return v, nil
}

// alone refuses text right behind a substitution.
func (p *parser) alone(what string) error {
	start := p.at
	p.spaces()
	if p.at == len(p.text) || strings.ContainsRune("\n,}]", rune(p.text[p.at])) {
		p.at = start
		return nil
	}
	return p.errorf("a value put together from %s is not read: write it out", what)
}

func (p *parser) items(list *Value) error {
	for {
		p.blank()
		switch {
		case p.take("]"):
			return nil
		case p.at == len(p.text):
			return &Error{list.Line, "the [ here is not closed"}
		}
		item, err := p.value()
		if err != nil {
			return err
		}
		if item == null {
			return p.errorf("null is no item of a list")
		}
		list.Items = append(list.Items, item)
		if err := p.separator("]"); err != nil {
			return err
		}
	}
}

// quoted reads text in one or three quotes.
func (p *parser) quoted() (string, error) {
	if p.take(`"""`) {
		end := strings.Index(p.text[p.at:], `"""`)
		if end < 0 {
			return "", p.errorf(`the """ here is not closed`)
		}
		// Quotes right before the closing ones belong to the text.
		for strings.HasPrefix(p.text[p.at+end+1:], `"""`) {
			end++
		}
		text := p.text[p.at : p.at+end]
		p.at += end + 3
		p.line += strings.Count(text, "\n")
		return text, nil
	}
	start := p.at
	for p.at++; p.at < len(p.text) && p.text[p.at] != '\n'; p.at++ {
		switch p.text[p.at] {
		case '\\':
			p.at++
		case '"':
			p.at++
			return p.unescape(p.text[start+1 : p.at-1])
		}
	}
	return "", p.errorf("the text in quotes does not end on its line")
}

// unescape reads the escapes of JSON.
func (p *parser) unescape(text string) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '\\')
		if i < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(text[:i])
		escape := text[i+1:]
		if at := strings.IndexByte(`"\/bfnrt`, escape[0]); at >= 0 {
			b.WriteByte("\"\\/\b\f\n\r\t"[at])
			text = escape[1:]
			continue
		}
		if escape[0] != 'u' || len(escape) < 5 {
			return "", p.errorf(`\%c is no escape`, []rune(escape)[0])
		}
		// Two halves of a pair make one character.
		size := 5
		if strings.HasPrefix(escape[5:], `\u`) && len(escape) >= 11 && escape[1]|0x20 == 'd' && escape[2] >= '8' {
			size = 11
		}
		text = escape[size:]
		unquoted, err := strconv.Unquote(`"\` + surrogates(escape[:size]) + `"`)
		if err != nil {
			return "", p.errorf(`\%s is no escape`, escape[:size])
		}
		b.WriteString(unquoted)
	}
}

// surrogates writes a pair of \u escapes, without the first backslash, as one \U.
func surrogates(escape string) string {
	if len(escape) != 11 {
		return escape
	}
	high, err1 := strconv.ParseUint(escape[1:5], 16, 16)
	low, err2 := strconv.ParseUint(escape[7:], 16, 16)
	if err1 != nil || err2 != nil || low < 0xdc00 || low > 0xdfff || high < 0xd800 || high > 0xdbff {
		return escape
	}
	return fmt.Sprintf("U%08x", 0x10000+(high-0xd800)<<10+(low-0xdc00))
}
