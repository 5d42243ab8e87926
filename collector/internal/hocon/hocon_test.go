package hocon

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// flat writes a tree as lines, for comparison.
func flat(v *Value, at string, lines *[]string) {
	switch v.Kind {
	case Object:
		for key, member := range v.Members() {
			flat(member, at+"/"+key, lines)
		}
	case List:
		*lines = append(*lines, fmt.Sprintf("%s has %d", at, len(v.Items)))
		for i, item := range v.Items {
			flat(item, fmt.Sprintf("%s/%d", at, i), lines)
		}
	default:
		line := fmt.Sprintf("%s=%s", at, v.Text)
		if v.Env != "" {
			line += fmt.Sprintf(" $%s %v %v", v.Env, v.NoText, v.Required)
		}
		*lines = append(*lines, line)
	}
}

func TestParse_readsWhatTheFilesUse(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":             {"", nil},
		"braces around":       {"{ a: 1, b: 2 }", []string{"/a=1", "/b=2"}},
		"comments":            {"# one\na = 1 // two\n// three\nb = 2 # four", []string{"/a=1", "/b=2"}},
		"objects":             {"a { b = 1\n c { d: 2 } }\na.c.e = 3", []string{"/a/b=1", "/a/c/d=2", "/a/c/e=3"}},
		"an equals before {":  {"a = { b = 1 }, a: { c = 2 }", []string{"/a/b=1", "/a/c=2"}},
		"keys in quotes":      {`"/com.acme/t" = "/r/tp2"` + "\n" + `a."b.c".d = 1`, []string{"/" + "/com.acme/t=/r/tp2", "/a/b.c/d=1"}},
		"text with blanks":    {"a = 365  days  # a year\nb = 5 seconds, c = x", []string{"/a=365  days", "/b=5 seconds", "/c=x"}},
		"text in quotes":      {`a = "x # y // z", b = "\"\\\/\n\u00e9\ud83d\ude00"`, []string{"/a=x # y // z", "/b=\"\\/\né😀"}},
		"text in pieces":      {`a = one "two"  three  `, []string{"/a=one two  three"}},
		"three quotes":        {`a = """one "two"` + "\n" + `three""""` + "\nb = 1", []string{"/a=one \"two\"\nthree\"", "/b=1"}},
		"empty text":          {`a = ""`, []string{"/a="}},
		"lists":               {"a = [1, 2\n 3\n # four\n]\nb = []\nc = [{d = 1}, [2]]", []string{"/a has 3", "/a/0=1", "/a/1=2", "/a/2=3", "/b has 0", "/c has 2", "/c/0/d=1", "/c/1 has 1", "/c/1/0=2"}},
		"the last one stands": {"a = 1\na = 2\nb { c = 1 }\nb = 3\nd = 1\nd { e = 2 }", []string{"/a=2", "/b=3", "/d/e=2"}},
		"null removes":        {"a = 1\na = null\nb = null\nc = 2", []string{"/c=2"}},
		"another key":         {"a = ${b.c}\nb { c = x }\nd = ${?e}\nf = ${?b.g}", []string{"/a=x", "/b/c=x", "/d= $e true false"}},
		"a variable":          {"a = ${HOME_OF_A}\nb = ${?B}", []string{"/a= $HOME_OF_A true true", "/b= $B true false"}},
		"a variable over it":  {"a = 8080\na = ${?PORT}", []string{"/a=8080 $PORT false false"}},
		"line ends":           {"a = 1\r\nb = 2\r\n", []string{"/a=1", "/b=2"}},
		"a mark in front":     {"\ufeffa = 1", []string{"/a=1"}},
		"commas at the end":   {"a = [1,],\nb = {c = 1,},", []string{"/a has 1", "/a/0=1", "/b/c=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			flat(v, "", &got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParse_refusesByLine(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"include":                {"a = 1\ninclude \"other.conf\"", "line 2: include"},
		"include of a class":     {"include classpath(\"x\")", "line 1: include"},
		"append":                 {"a = [1]\na += 2", "line 2: +="},
		"two substitutions":      {"a = ${B}${C}", "line 1: a value put together"},
		"text and substitution":  {"a = http://${B}", "line 1:"},
		"text in quotes and one": {`a = "http"${B}`, "line 1: a value put together"},
		"an object by name":      {"a = ${b}\nb { c = 1 }", "line 1: ${b} is no plain value"},
		"a circle":               {"a = ${b}\nb = ${a}", "lead to each other"},
		"nothing that is there":  {"a = ${b.c}", "line 1: ${b.c} is neither"},
		"an open object":         {"\na {\n b = 1", "line 2: the { here is not closed"},
		"an open list":           {"a = [1", "line 1: the [ here is not closed"},
		"open quotes":            {"a = \"x\nb = 1", "line 1:"},
		"open three quotes":      {`a = """x`, "line 1:"},
		"an open substitution":   {"a = ${x\n}", "line 1: the ${"},
		"an empty one":           {"a = ${}", "line 1: the substitution"},
		"a strange escape":       {`a = "\q"`, `line 1: \q`},
		"a short escape":         {`a = "\u12"`, `line 1: \u`},
		"half a pair":            {`a = "\ud83d"`, `line 1: \ud83d`},
		"no value":               {"a =\n", "line 2: a value"},
		"no equals":              {"a b c", "line 1: a b c is followed"},
		"no key":                 {"= 1", "line 1: a key"},
		"behind the end":         {"{ a = 1 } b", "line 1: something follows"},
		"two values":             {"a = [1] [2]", "line 1:"},
		"null in a list":         {"a = [null]", "line 1: null"},
		"a strange character":    {"a = b*c", "line 1:"},
		"no UTF-8":               {"a = \xff", "line 1: this is no text"},
		"too deep":               {strings.Repeat("[", 100), "line 1:"},
		"much too deep":          {"a = " + strings.Repeat("[", 100), "nested more than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.text)
			if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err is %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a { b = [1, 2], c: \"x\\u00e9\" } # d\ne = ${?F}\ng = \"\"\"h\"\"\"")
	f.Add("a = ${b}\nb = ${a}")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Parse(text)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Line < 1 || e.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("err is %v", err)
			}
			return
		}
		var lines []string
		flat(v, "", &lines)
	})
}
