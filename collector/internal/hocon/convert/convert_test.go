package convert

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"spillway/collector/internal/hocon"
)

// minimal is the least that can be converted; further settings follow it.
const minimal = "port = 80\nstreams { good { name = g }, bad { name = b } }\n"

func converted(t *testing.T, text string) (result map[string]any, yamlText string) {
	t.Helper()
	out, err := Convert(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(out, &result); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	return result, string(out)
}

// Nothing vanishes: whatever stands in the file is in the result, or named in it.
func TestConvert_takesOverOrNamesEverySetting(t *testing.T) {
	_, without := converted(t, minimal)
	values := map[string]string{
		"paths": `{ "/a/b" = "/c/d" }`, "crossDomain.domains": "[a]", "cookie.domains": "[a]", "redirectDomains": "[a]", "rootResponse.headers": "{ A = b }",
		"doNotTrackCookie.value": "x",
	}
	for _, key := range slices.Sorted(maps.Keys(rules)) {
		if slices.Contains([]string{"interface", "port", "ssl.port", "streams"}, key) {
			continue
		}
		value, ok := values[key]
		for _, candidate := range []string{"yes", "7"} {
			if ok {
				break
			}
			if _, err := Convert(minimal + key + " = " + candidate); err == nil {
				value, ok = candidate, true
			}
		}
		if !ok {
			t.Errorf("%s takes neither yes nor 7", key)
			continue
		}
		if _, with := converted(t, minimal+key+" = "+value); with == without {
			t.Errorf("%s = %s has changed nothing", key, value)
		}
	}
	if _, out := converted(t, minimal+"some.thing = 1"); !strings.Contains(out, "# some.thing (line 3)") {
		t.Errorf("an unknown setting is not named:\n%s", out)
	}
}

func TestConvert_listens(t *testing.T) {
	for text, want := range map[string]string{
		"port = 80":                          ":80",
		"port = 80\ninterface = 0.0.0.0":     ":80",
		"port = 80\ninterface = 127.0.0.1":   "127.0.0.1:80",
		"port = 80\ninterface = \"::1\"":     "[::1]:80",
		"port = ${PORT}":                     ":${PORT}",
		"port = 80\nport = ${?PORT}":         ":${PORT:-80}",
		"port = 80\nssl.enable = true":       ":443",
		"port = 80\nssl.enable = false":      ":80",
		"port = 1\nssl {enable=on,port=444}": ":444",
	} {
		result, _ := converted(t, text+"\nstreams { good { name = g }, bad { name = b } }")
		if result["listen"] != want {
			t.Errorf("%q listens on %v, want %s", text, result["listen"], want)
		}
	}
}

func TestConvert_quotesWhatYAMLTakesForSomethingElse(t *testing.T) {
	for _, text := range []string{"true", "no", "null", "12", "1e3", "~", "- a", "a: b", "a #b", "é😀", "\x7f", "\u2028", "\u0085", "it's", `"`, `\`, " ", "", "&a", "*a", "!a", "%a", "@a", "2026-12-01"} {
		result, out := converted(t, minimal+"rootResponse.body = \"\"\""+text+"\"\"\"")
		if got := result["http"].(map[string]any)["root_response"].(map[string]any)["body"]; got != text {
			t.Errorf("%q became %q in:\n%s", text, got, out)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5000": 5 * time.Second, "5 seconds": 5 * time.Second, "365 days": 365 * 24 * time.Hour, "1.5s": 1500 * time.Millisecond,
		"10m": 10 * time.Minute, "2 hours": 2 * time.Hour, "7us": 7 * time.Microsecond, "3 nanos": 3,
	} {
		if got, ok := duration(text); !ok || got != want {
			t.Errorf("%q is %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "s", "5 fortnights", "-1s", "1e3", "99999999999 days"} {
		if got, ok := duration(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// Whatever the file, the result is YAML, or the error names lines.
func FuzzConvert(f *testing.F) {
	f.Add(minimal)
	f.Add(minimal + "cookie { name = \"a\\nb\", domains = [x, ${?Y}], expiration = 5 days }\nodd.\"k#\\u2028\" = 1")
	f.Add("collector { port = ${?P}, interface = \"::\", streams { good = a, bad = b, sink { enabled = kinesis }, buffer { timeLimit = 1 } } }")
	f.Fuzz(func(t *testing.T, text string) {
		out, err := Convert(text)
		if err != nil {
			if _, ok := errors.AsType[*hocon.Error](err); !ok {
				t.Fatalf("err is %v", err)
			}
			return
		}
		var result map[string]any
		if err := yaml.Unmarshal(out, &result); err != nil {
			t.Fatalf("%v in:\n%s", err, out)
		}
	})
}
