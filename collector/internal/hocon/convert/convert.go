// Package convert turns a config of the reference collector for Kinesis into one
// of this collector. Every setting is either taken over, or named in a comment
// that says why it is not and what there is instead; nothing vanishes.
//
// Settings that make the reference collector lose events or plague trackers are
// not taken over: the comment says how to have them all the same. A setting whose
// meaning would change silently is an error.
package convert

import (
	"errors"
	"fmt"
	"strings"

	"spillway/collector/internal/hocon"
)

// Convert returns the config as YAML. The error names everything that cannot be
// converted, each with its line; each is a [*hocon.Error].
func Convert(text string) ([]byte, error) {
	root, err := hocon.Parse(text)
	if err != nil {
		return nil, err
	}
	c := &conversion{}
	c.file(root)
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return c.print(), nil
}

// conversion is one file on its way.
type conversion struct {
	out   section
	notes []note
	errs  []error
}

// note says what became of a setting that was not taken over.
type note struct {
	key  string
	line int
	text string
}

func (c *conversion) note(key string, line int, format string, args ...any) {
	c.notes = append(c.notes, note{key, line, fmt.Sprintf(format, args...)})
}

func (c *conversion) fail(key string, line int, format string, args ...any) {
	c.errs = append(c.errs, &hocon.Error{Line: line, Message: key + ": " + fmt.Sprintf(format, args...)})
}

// file converts the whole file, in which everything may stand within "collector".
func (c *conversion) file(root *hocon.Value) {
	settings := root
	if inner := root.At("collector"); inner != nil && inner.Kind == hocon.Object {
		settings = inner
		for key, v := range root.Members() {
			if key != "collector" {
				c.setting(key, v)
			}
		}
	}
	c.listen(settings)
	for key, v := range settings.Members() {
		c.setting(key, v)
	}
	if settings.At("streams") == nil {
		c.fail("streams", 1, "the file names no streams: is it a config of the collector?")
	}
}

// setting converts one setting, or those below it.
func (c *conversion) setting(key string, v *hocon.Value) {
	if r, ok := rules[key]; ok {
		r(c, key, v)
		return
	}
	if v.Kind == hocon.Object {
		for name, member := range v.Members() {
			c.setting(key+"."+name, member)
		}
		return
	}
	c.note(key, v.Line, "is no setting that this converter knows")
}

// listen makes one address of interface and port.
func (c *conversion) listen(settings *hocon.Value) {
	host, port := settings.At("interface"), settings.At("port")
	if tls := settings.At("ssl", "enable"); tls != nil && truth[strings.ToLower(tls.Text)] == "true" {
		if own := settings.At("ssl", "port"); own != nil {
			port = own
		} else {
			port = &hocon.Value{Line: tls.Line, Text: "443"}
		}
	}
	if port == nil {
		c.fail("port", 1, "it is missing")
		return
	}
	address, ok := c.template("port", port)
	if !ok {
		return
	}
	comment := ""
	if host != nil {
		name, ok := c.template("interface", host)
		if !ok {
			return
		}
		if strings.Contains(host.Text, ":") && !strings.HasPrefix(host.Text, "[") {
			name = "[" + name + "]"
		}
		if name != "0.0.0.0" {
			address = name + ":" + address
			comment = "The 3.x line listens on all interfaces, whatever interface says."
		} else {
			address = ":" + address
		}
	} else {
		address = ":" + address
	}
	c.out.set("listen", quote(address), comment)
}
