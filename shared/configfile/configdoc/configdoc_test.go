package configdoc

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/shared/configfile"
)

type shared struct {
	// Listen is where | requests
	// come in.
	Listen string `yaml:"listen"`
}

type rule struct {
	For time.Duration `yaml:"for"` // For is how long.
}

type file struct {
	shared `yaml:",inline"`

	// Spool is the queue on disk.
	Spool struct{} `yaml:"-"`

	// Rules decide.
	Rules []rule `yaml:"rules"`

	// Token opens the door.
	Token configfile.Secret `yaml:"token"`

	// Queue holds what waits.
	Queue queue `yaml:"queue"`

	// Hosts are asked in turn.
	Hosts []string `yaml:"hosts"`
}

type queue struct {
	// MaxBytes bounds it. 0 is no limit.
	MaxBytes configfile.Size `yaml:"max_bytes"`
	// Strict refuses.
	Strict *bool `yaml:"strict"`
	// Labels are put on.
	Labels map[string]string `yaml:"labels"`
	// Share of the volume.
	Share float64 `yaml:"share"`
	// Count of files.
	Count int `yaml:"count"`
}

func TestMarkdown(t *testing.T) {
	on := true
	sections, err := Sections(file{
		shared: shared{":80"}, Hosts: []string{"a", "b"}, Token: configfile.NewSecret("s3cret"),
		Queue: queue{MaxBytes: configfile.GiB, Strict: &on, Labels: map[string]string{"c": "d", "a": "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Markdown(&out, 3, sections); err != nil {
		t.Fatal(err)
	}
	want := "| key | type | default | meaning |\n|---|---|---|---|\n" +
		"| `listen` | text | `:80` | Where \\| requests come in. |\n" +
		"| `token` | secret | `<redacted>` | Opens the door. |\n" +
		"| `hosts` | list of text | `[a, b]` | Asked in turn. |\n" +
		"\n### `rules`\n\nDecide.\n\n| key | type | default | meaning |\n|---|---|---|---|\n" +
		"| `rules[].for` | duration | `0s` | How long. |\n" +
		"\n### `queue`\n\nHolds what waits.\n\n| key | type | default | meaning |\n|---|---|---|---|\n" +
		"| `queue.max_bytes` | size | `1GiB` | Bounds it. 0 is no limit. |\n" +
		"| `queue.strict` | true or false | `true` | Refuses. |\n" +
		"| `queue.labels` | map of text | `{a: b, c: d}` | Put on. |\n" +
		"| `queue.share` | number | `0` | Of the volume. |\n" +
		"| `queue.count` | whole number | `0` | Of files. |\n\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

type undocumented struct {
	A string `yaml:"a"`
}

func TestSections_everyKeyMustSayWhatItMeans(t *testing.T) {
	_, err := Sections(undocumented{})
	if want := "a: field configdoc.undocumented.A has no doc comment"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
