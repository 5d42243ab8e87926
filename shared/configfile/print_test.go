package configfile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/shared/configfile"
)

func TestPrint_showsEveryKeyAndNoSecret(t *testing.T) {
	c := defaults()
	c.Token = configfile.NewSecret("s3cret")
	c.Hosts = []string{"5", "${X}"}
	c.Sink.Linger = 90 * time.Minute
	var out bytes.Buffer
	if err := configfile.Print(&out, c); err != nil {
		t.Fatal(err)
	}
	want := `listen: :8080
max_bytes: 4KiB
ratio: 0
port: 0
on: false
token: <redacted>
hosts:
  - "5"
  - $${X}
sink:
  type: kinesis
  linger: 1h30m
  max_records: 500
  tags:
    env: dev
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestPrint_refusesWhatHasNoForm(t *testing.T) {
	err := configfile.Print(&bytes.Buffer{}, struct {
		F func() `yaml:"f"`
	}{})
	if want := "print config: f: a value of type func() has no form in a config file"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSecret_isNeverPrinted(t *testing.T) {
	c := defaults()
	c.Token = configfile.NewSecret("s3cret")
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{
		fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s %q %x %d", c, c, c, c.Token, c.Token, c.Token, c.Token),
		fmt.Sprintf("%#v %v", &c.Token, &c), string(asJSON), c.Token.String(),
	} {
		if strings.Contains(got, "s3cret") || strings.Contains(got, "733363726574") || !strings.Contains(got, "redacted") {
			t.Errorf("printed: %s", got)
		}
	}
	if (configfile.Secret{}).String() != "" || (configfile.Secret{}).IsSet() || !c.Token.IsSet() {
		t.Error("no secret must print as nothing")
	}
}

func TestSecret_fromFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "token", "a b\n")
	write(t, dir, "empty", "\n")
	got, err := configfile.Load(write(t, dir, "c.yaml", "token: {file: token}"), defaults())
	if err != nil || got.Token.Reveal() != "a b" {
		t.Errorf("got %q, %v; want the first line", got.Token.Reveal(), err)
	}
	_, err = configfile.Load(write(t, dir, "c.yaml", "token: {file: empty}"), defaults())
	if err == nil || !strings.Contains(err.Error(), "empty is empty") {
		t.Errorf("got %v, want an error about the empty file", err)
	}
}

func TestPrint_readsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringN(0, 20, -1), rapid.SampledFrom([]string{"null", "~", "true", "1e3", "${A}", "$${", "- a", "a: b", "# x", "'", "\n", "\t a"}))
		c := defaults()
		c.Listen = text.Draw(t, "listen")
		c.MaxBytes = configfile.Size(rapid.Int64Min(0).Draw(t, "max_bytes"))
		c.Ratio = rapid.Float64().Draw(t, "ratio")
		c.Port = rapid.Uint16().Draw(t, "port")
		c.Hosts = rapid.SliceOf(text).Draw(t, "hosts")
		c.Sink.Linger = time.Duration(rapid.Int64().Draw(t, "linger"))
		c.Sink.Tags = rapid.MapOf(text, text).Draw(t, "tags")
		if rapid.Bool().Draw(t, "extra") {
			c.Extra = &sinkConfig{Records: rapid.Int().Draw(t, "records"), Tags: map[string]string{}}
		}
		var out bytes.Buffer
		if err := configfile.Print(&out, c); err != nil {
			t.Fatal(err)
		}
		got, err := configfile.LoadBytes("f", out.Bytes(), testConfig{}, configfile.WithoutValidation())
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if diff := cmp.Diff(c, got, cmp.AllowUnexported(testConfig{}, configfile.Secret{})); diff != "" {
			t.Fatalf("%s\n%s", diff, out.String())
		}
	})
}
