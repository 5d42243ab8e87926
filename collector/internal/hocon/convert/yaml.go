package convert

import (
	"fmt"
	"strings"
)

// section is a mapping of the result, in the order in which it is filled.
type section struct {
	name    string
	value   string // of a leaf, as YAML
	comment string // of a leaf
	below   []*section
}

// set puts a value at a dotted path; the last one stands.
func (s *section) set(path, value, comment string) {
	for name := range strings.SplitSeq(path, ".") {
		s = s.child(name)
	}
	s.value, s.comment = value, comment
}

func (s *section) child(name string) *section {
	for _, c := range s.below {
		if c.name == name {
			return c
		}
	}
	c := &section{name: name}
	s.below = append(s.below, c)
	return c
}

func (s *section) print(b *strings.Builder, indent string) {
	for _, c := range s.below {
		comment(b, indent, c.comment)
		if c.below == nil {
			fmt.Fprintf(b, "%s%s: %s\n", indent, c.name, c.value)
			continue
		}
		fmt.Fprintf(b, "%s%s:\n", indent, c.name)
		c.print(b, indent+"  ")
	}
}

const head = `# Converted from a config of the reference collector. Before you start with it:
#
# data_dir, for the events on disk, is $STATE_DIRECTORY or ./spillway-data unless
# you name one here. It belongs on a disk of its own, with room for the longest
# outage that you want to survive.
#
# X-Forwarded-For is believed from private networks only. If your load balancer
# has a public address, name it in http.trusted_proxies.
#
# With --fallback-config FILE, events go to S3 while Kinesis is out of order.

`

func (c *conversion) print() []byte {
	var b strings.Builder
	b.WriteString(head)
	c.out.print(&b, "")
	if len(c.notes) > 0 {
		b.WriteString("\n# Not taken over:\n")
	}
	for _, n := range c.notes {
		b.WriteString("#\n")
		comment(&b, "", fmt.Sprintf("%s (line %d): %s.", clean(n.key), n.line, clean(n.text)))
	}
	return []byte(b.String())
}

// clean keeps text from ending its comment.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r >= 0x80 && r < 0xa0 || r == 0xfffe || r == 0xffff {
			return '?'
		}
		return r
	}, text)
}

// comment writes text as a comment, in lines of reasonable length.
func comment(b *strings.Builder, indent, text string) {
	const width = 80
	line := indent + "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width && len(line) > len(indent)+1 {
			b.WriteString(line + "\n")
			line = indent + "#"
		}
		line += " " + word
	}
	if len(line) > len(indent)+1 {
		b.WriteString(line + "\n")
	}
}
