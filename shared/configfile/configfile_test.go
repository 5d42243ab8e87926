package configfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/shared/configfile"
)

type sinkConfig struct {
	Type    string            `yaml:"type"`
	Linger  time.Duration     `yaml:"linger"`
	Records int               `yaml:"max_records"`
	Tags    map[string]string `yaml:"tags"`
}

func (c sinkConfig) Validate() error {
	var errs []error
	if c.Records > 500 {
		errs = append(errs, configfile.Invalid("max_records", "%d is more than 500", c.Records))
	}
	if c.Type == "" {
		errs = append(errs, errors.New("type: is empty: want kinesis or s3"))
	}
	return errors.Join(errs...)
}

type common struct {
	Listen string `yaml:"listen"`
}

type testConfig struct {
	common   `yaml:",inline"`
	MaxBytes configfile.Size   `yaml:"max_bytes"`
	Ratio    float64           `yaml:"ratio"`
	Port     uint16            `yaml:"port"`
	On       bool              `yaml:"on"`
	Token    configfile.Secret `yaml:"token"`
	Hosts    []string          `yaml:"hosts"`
	Sink     sinkConfig        `yaml:"sink"`
	Extra    *sinkConfig       `yaml:"extra,omitempty"`
	Hidden   string
}

func (c testConfig) Validate() error {
	err := configfile.Under("sink", c.Sink.Validate())
	if c.Extra != nil {
		err = errors.Join(err, configfile.Under("extra", c.Extra.Validate()))
	}
	return err
}

func defaults() testConfig {
	return testConfig{
		common: common{Listen: ":8080"}, MaxBytes: 4 * configfile.KiB, Hosts: []string{"a"},
		Sink: sinkConfig{Type: "kinesis", Linger: time.Second, Records: 500, Tags: map[string]string{"env": "dev"}},
	}
}

var testEnv = map[string]string{"PORT": "9", "TOKEN": "s3cr: {t", "EMPTY": ""}

func withTestEnv() configfile.Option {
	return configfile.WithEnv(func(name string) (string, bool) {
		v, ok := testEnv[name]
		return v, ok
	})
}

func load(t *testing.T, text string) (testConfig, error) {
	t.Helper()
	return configfile.LoadBytes("collector.yaml", []byte(text), defaults(), withTestEnv())
}

func TestLoadBytes_laysFileOverDefaults(t *testing.T) {
	got, err := load(t, `
listen: "127.0.0.1:80"
max_bytes: 1.5MiB
ratio: 0.25
port: ${PORT}
on: true
token: ${TOKEN}
hosts: [b, "${PORT}", '$${PORT}', "${UNSET:-c}", "${EMPTY:-d}", "x${EMPTY}y", "$PORT"]
sink:
  linger: 1d12h
  tags: {team: data}
extra:
  type: s3
`)
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Listen, want.MaxBytes, want.Ratio, want.Port, want.On = "127.0.0.1:80", 1536*configfile.KiB, 0.25, 9, true
	want.Token = configfile.NewSecret("s3cr: {t")
	want.Hosts = []string{"b", "9", "${PORT}", "c", "d", "xy", "$PORT"}
	want.Sink.Linger = 36 * time.Hour
	want.Sink.Tags = map[string]string{"env": "dev", "team": "data"}
	want.Extra = &sinkConfig{Type: "s3"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(testConfig{}, configfile.Secret{})); diff != "" {
		t.Error(diff)
	}
	if got.Token.Reveal() != "s3cr: {t" {
		t.Errorf("token is %q", got.Token.Reveal())
	}
}

func TestLoadBytes_nothingGivesDefaults(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n", "---\n", "sink:\n", "sink:\n  linger:\nhosts: ~\n", "{}"} {
		got, err := load(t, text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(defaults(), got, cmp.AllowUnexported(testConfig{}, configfile.Secret{})); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestLoadBytes_leavesDefaultsAlone(t *testing.T) {
	d := defaults()
	if _, err := configfile.LoadBytes("f", []byte("sink: {tags: {env: prod}}\nhosts: [z]"), d); err != nil {
		t.Fatal(err)
	}
	if d.Sink.Tags["env"] != "dev" || d.Hosts[0] != "a" {
		t.Errorf("defaults were changed: %v", d)
	}
}

func TestLoadBytes_namesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":         {"listen: x\nsink:\n  linegr: 5s", `collector.yaml:3: unknown key "sink.linegr": did you mean "sink.linger"?`},
		"unknown at top":      {"zzzzzzzz: 1", `collector.yaml:1: unknown key "zzzzzzzz": known here: listen, max_bytes, ratio, port, on, token, hosts, sink, extra`},
		"untagged field":      {"hidden: 1", `collector.yaml:1: unknown key "hidden": known here: listen, max_bytes, ratio, port, on, token, hosts, sink, extra`},
		"twice":               {"port: 1\non: true\nport: 2", `collector.yaml:3: port: this key is given twice, first on line 1`},
		"all at once":         {"prot: 1\nratio: x\non: yes", "collector.yaml:1: unknown key \"prot\": did you mean \"port\"?\ncollector.yaml:2: ratio: \"x\": want a number\ncollector.yaml:3: on: \"yes\": want true or false"},
		"whole number":        {"sink: {max_records: 1.5}", `collector.yaml:1: sink.max_records: "1.5": want a whole number of at most 64 bits`},
		"range":               {"port: 70000", `collector.yaml:1: port: "70000": want a whole number, zero or more, of at most 16 bits`},
		"not a number":        {"ratio: .nan", `collector.yaml:1: ratio: ".nan": want a number`},
		"duration":            {"sink:\n  linger: 5", `collector.yaml:2: sink.linger: "5" is not a duration: want a number with a unit, like 250ms, 5s, 10m, 2h or 7d`},
		"size":                {"max_bytes: 5 potatoes", `collector.yaml:1: max_bytes: "5 potatoes" is not a size: want a number with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB, like 64MiB`},
		"mapping for value":   {"port: {a: 1}", "collector.yaml:1: port: want a single value, this is a mapping"},
		"value for mapping":   {"sink: s3", "collector.yaml:1: sink: want a mapping, this is a single value"},
		"value for list":      {"hosts: a", "collector.yaml:1: hosts: want a list, this is a single value"},
		"item":                {"hosts:\n- a\n- {b: c}", "collector.yaml:3: hosts[1]: want a single value, this is a mapping"},
		"not a mapping":       {"- a\n- b", "collector.yaml:1: want keys with values (key: value), this is a list"},
		"second document":     {"port: 1\n---\nport: 2", "collector.yaml:2: a second document begins here: a config file holds one"},
		"tab":                 {"sink:\n\tlinger: 5s", "collector.yaml:2: not valid YAML: this line is indented with a tab, YAML wants spaces"},
		"syntax":              {"port: 1\non: c: d", "collector.yaml:2: not valid YAML: mapping values are not allowed in this context"},
		"syntax, first line":  {"port: @", "collector.yaml:1: not valid YAML: found character that cannot start any token"},
		"open list":           {"port: 1\nhosts: [1, 2\non: true", "collector.yaml:2: not valid YAML: did not find expected ',' or ']'"},
		"stray bracket":       {"port: 1\n\n\n}\n", "collector.yaml:4: not valid YAML: did not find expected key"},
		"control character":   {"port: 1\non: \x01", `collector.yaml:2: not valid YAML: character 5 of this line is a control character ('\x01')`},
		"alias":               {"port: 1\nsink: *shared", "collector.yaml:2: anchors (&) and aliases (*) are not supported: write the value out, or put what is shared in a file and say `extends: FILE`"},
		"anchor":              {"sink: &a\n  linger: 5s", "collector.yaml:1: sink: anchors (&) and aliases (*) are not supported: write the value out, or put what is shared in a file and say `extends: FILE`"},
		"tag":                 {"listen: !!binary aGk=", "collector.yaml:1: listen: the tag !!binary is not supported: write the value without it"},
		"key of several":      {"? [a, b]\n: c", "collector.yaml:1: a key must be a single word"},
		"unset variable":      {"on: true\nlisten: a${NOPE}", "collector.yaml:2: listen: environment variable NOPE is not set: set it, or write ${NOPE:-default}"},
		"unclosed variable":   {`listen: "a${NOPE"`, `collector.yaml:1: listen: "${NOPE" is not closed by a }: write $${ for a literal ${`},
		"odd variable":        {`listen: "${a b}"`, `collector.yaml:1: listen: "a b" is not the name of an environment variable: write $${ for a literal ${`},
		"secret list":         {"token: [a]", "collector.yaml:1: token: want the secret itself or {file: PATH}, this is a list"},
		"printed secret":      {"token: <redacted>", "collector.yaml:1: token: this is a printed config, the secret is not in it: write the value or {file: PATH}"},
		"secret file":         {"token: {file: /nonexistent/t}", "collector.yaml:1: token: read secret: open /nonexistent/t: no such file or directory"},
		"extends list":        {"extends: [a]", "collector.yaml:1: extends: want the name of one file, this is a list"},
		"invalid":             {"on: true\nsink:\n  max_records: 900", "collector.yaml:3: sink.max_records: 900 is more than 500"},
		"invalid, plain":      {"on: true\nsink:\n  max_records: 900\n  type: ''", "collector.yaml:3: sink.max_records: 900 is more than 500\ncollector.yaml:4: sink.type: is empty: want kinesis or s3"},
		"invalid, absent key": {"on: true\nextra:\n  linger: 1s", "collector.yaml:2: extra.type: is empty: want kinesis or s3"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.text)
			if err == nil || err.Error() != c.want {
				t.Errorf("got:  %v\nwant: %s", err, c.want)
			}
		})
	}
}

func TestLoadBytes_errorsAreData(t *testing.T) {
	_, err := load(t, "sink:\n  max_records: 900")
	e, ok := errors.AsType[*configfile.Error](err)
	want := configfile.Error{File: "collector.yaml", Line: 2, Key: "sink.max_records", Message: "900 is more than 500"}
	if !ok || *e != want {
		t.Errorf("got %#v, want %#v", e, want)
	}
}

func TestLoadBytes_WithoutValidation(t *testing.T) {
	got, err := configfile.LoadBytes("f", []byte("sink: {max_records: 900}"), defaults(), configfile.WithoutValidation())
	if err != nil || got.Sink.Records != 900 {
		t.Errorf("got %d, %v", got.Sink.Records, err)
	}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad_extends(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "base.yaml", "port: 1\nhosts: [x, y]\nsink:\n  type: kinesis\n  tags: {a: b}\n")
	write(t, dir, "middle.yaml", "extends: base.yaml\nport: 2\nhosts:\nsink: {max_records: 7}\n")
	path := write(t, dir, "top.yaml", "extends: middle.yaml\nhosts: [z]\nsink: {type: s3}\n")
	got, err := configfile.Load(path, defaults())
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Port, want.Hosts = 2, []string{"z"}
	want.Sink.Type, want.Sink.Records, want.Sink.Tags = "s3", 7, map[string]string{"env": "dev", "a": "b"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(testConfig{}, configfile.Secret{})); diff != "" {
		t.Error(diff)
	}
}

func TestLoad_extendsNamesTheRightFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "base.yaml", "\nport: x\nsink:\n  max_records: 900\n")
	write(t, dir, "good.yaml", "sink:\n  max_records: 900\n")
	for text, want := range map[string]string{
		"extends: base.yaml\nprot: 1":           "base.yaml:2: port: \"x\": want a whole number, zero or more, of at most 16 bits\nTOP:2: unknown key \"prot\": did you mean \"port\"?",
		"extends: base.yaml\nport: 1":           "base.yaml:4: sink.max_records: 900 is more than 500",
		"on: true\nextends: good.yaml":          "good.yaml:2: sink.max_records: 900 is more than 500",
		"extends: good.yaml\nsink:\n  type: ''": "good.yaml:2: sink.max_records: 900 is more than 500\nTOP:3: sink.type: is empty: want kinesis or s3",
		"extends: nothing.yaml":                 "TOP:1: extends: read the file this one extends: open nothing.yaml: no such file or directory",
		"extends: top.yaml":                     "TOP:1: extends: the files extend each other in a circle: top.yaml -> top.yaml",
		"on: true\nextends: sub/../top.yaml\n":  "TOP:2: extends: the files extend each other in a circle: top.yaml -> top.yaml",
		"extends: ${NOT_SET_HERE}":              "TOP:1: extends: environment variable NOT_SET_HERE is not set: set it, or write ${NOT_SET_HERE:-default}",
	} {
		path := write(t, dir, "top.yaml", text)
		_, err := configfile.Load(path, defaults())
		if err == nil {
			t.Errorf("%q: no error", text)
			continue
		}
		got := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
		if want = strings.ReplaceAll(want, "TOP", "top.yaml"); got != want {
			t.Errorf("%q\ngot:  %s\nwant: %s", text, got, want)
		}
	}
}

func TestLoad_missingFile(t *testing.T) {
	if _, err := configfile.Load(filepath.Join(t.TempDir(), "no.yaml"), defaults()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want not exist", err)
	}
}
