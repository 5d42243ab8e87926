package convert

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"spillway/collector/internal/hocon"
	"spillway/shared/configfile"
)

// as turns a value into YAML, or notes what is wrong and returns false.
type as func(c *conversion, key string, v *hocon.Value) (string, bool)

// template returns the text of a value with its environment variable, in the form
// that our config files expand.
func (c *conversion) template(key string, v *hocon.Value) (string, bool) {
	if v.Kind != hocon.Text {
		c.fail(key, v.Line, "it is no plain value")
		return "", false
	}
	if v.Env == "" {
		return strings.ReplaceAll(v.Text, "${", "$${"), true
	}
	if v.NoText && v.Required {
		return "${" + v.Env + "}", true
	}
	if strings.Contains(v.Text, "}") {
		c.fail(key, v.Line, "%q, which ${?%s} may replace, has a } in it: write one or the other", v.Text, v.Env)
		return "", false
	}
	return "${" + v.Env + ":-" + v.Text + "}", true
}

var (
	plain = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*$`)
	// words that YAML takes for something else than text.
	words = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null|nan|inf)$`)
)

// quote writes text as a YAML scalar that is text. The escapes of Go are among
// those of YAML.
func quote(text string) string {
	if plain.MatchString(text) && !words.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

func asText(c *conversion, key string, v *hocon.Value) (string, bool) {
	text, ok := c.template(key, v)
	return quote(text), ok
}

// truth is what HOCON takes for booleans.
var truth = map[string]string{"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}

func asBool(c *conversion, key string, v *hocon.Value) (string, bool) {
	return c.checked(key, v, "neither true nor false", func(text string) (string, bool) {
		word, ok := truth[strings.ToLower(text)]
		return word, ok
	})
}

func asNumber(c *conversion, key string, v *hocon.Value) (string, bool) {
	return c.checked(key, v, "no whole number", func(text string) (string, bool) {
		n, err := strconv.ParseInt(text, 10, 64)
		return strconv.FormatInt(n, 10), err == nil
	})
}

// checked writes a value whose text is checked. With a variable that may replace
// it, it becomes a template that is read once the variable is known.
func (c *conversion) checked(key string, v *hocon.Value, wrong string, check func(string) (string, bool)) (string, bool) {
	if v.Kind == hocon.Text && v.NoText {
		text, ok := c.template(key, v)
		return strconv.Quote(text), ok
	}
	text, ok := check(v.Text)
	if v.Kind != hocon.Text || !ok {
		c.fail(key, v.Line, "%q is %s", v.Text, wrong)
		return "", false
	}
	if v.Env == "" {
		return text, true
	}
	return strconv.Quote("${" + v.Env + ":-" + text + "}"), true
}

// asDuration reads "5 seconds"; a number alone is milliseconds.
func asDuration(c *conversion, key string, v *hocon.Value) (string, bool) {
	if v.Kind == hocon.Text && v.NoText {
		c.fail(key, v.Line, "it comes from $%s alone, which holds a duration that this collector writes otherwise (5s for 5 seconds): give a value here", v.Env)
		return "", false
	}
	d, ok := duration(v.Text)
	if v.Kind != hocon.Text || !ok {
		c.fail(key, v.Line, "%q is no duration", v.Text)
		return "", false
	}
	text := configfile.FormatDuration(d)
	if v.Env != "" {
		c.note(key, v.Line, "$%s could replace the value; here the variable would have to hold it as 5s, not as 5 seconds. To go on using it, write ${%s:-%s}", v.Env, v.Env, text)
	}
	return text, true
}

var durationText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)$`)

func duration(text string) (time.Duration, bool) {
	m := durationText.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, false
	}
	var unit time.Duration
	switch m[2] {
	case "ns", "nano", "nanos", "nanosecond", "nanoseconds":
		unit = time.Nanosecond
	case "us", "micro", "micros", "microsecond", "microseconds":
		unit = time.Microsecond
	case "", "ms", "milli", "millis", "millisecond", "milliseconds":
		unit = time.Millisecond
	case "s", "second", "seconds":
		unit = time.Second
	case "m", "minute", "minutes":
		unit = time.Minute
	case "h", "hour", "hours":
		unit = time.Hour
	case "d", "day", "days":
		unit = 24 * time.Hour
	default:
		return 0, false
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil || n*float64(unit) >= math.MaxInt64 {
		return 0, false
	}
	return time.Duration(n * float64(unit)), true
}

func asList(c *conversion, key string, v *hocon.Value) (string, bool) {
	if v.Kind != hocon.List {
		c.fail(key, v.Line, "it is no list")
		return "", false
	}
	var items []string
	for _, item := range v.Items {
		text, ok := c.template(key, item)
		if !ok {
			return "", false
		}
		items = append(items, strconv.Quote(text))
	}
	return "[" + strings.Join(items, ", ") + "]", true
}

func asMap(c *conversion, key string, v *hocon.Value) (string, bool) {
	if v.Kind != hocon.Object {
		c.fail(key, v.Line, "it is no object")
		return "", false
	}
	var members []string
	for name, member := range v.Members() {
		text, ok := c.template(key+"."+name, member)
		if !ok {
			return "", false
		}
		members = append(members, fmt.Sprintf("%s: %s", strconv.Quote(name), strconv.Quote(text)))
	}
	return "{" + strings.Join(members, ", ") + "}", true
}
