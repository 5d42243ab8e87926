package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"spillway/collector/internal/config"
	"spillway/shared/configfile"
)

// write puts files into a directory of their own and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const primary = `
instance: box-1
data_dir: /var/lib/spillway
sink:
  type: kinesis
  kinesis: {region: eu-west-1, good_stream: a, bad_stream: b}
`

func TestLoad_withoutConfigWritesFiles(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	set, err := config.Load(config.Paths{})
	if err != nil {
		t.Fatal(err)
	}
	if set.Primary.Sink.Type != config.File || !filepath.IsAbs(set.Primary.Files().Dir) {
		t.Errorf("sink %+v in %s", set.Primary.Sink.Type, set.Primary.Files().Dir)
	}
	if set.Fallback != nil || set.Paths.Mode != filepath.Join("spillway-data", "mode.json") {
		t.Errorf("got %+v", set.Paths)
	}
}

func TestLoad_fallbackHoldsOnlyWhatDiffers(t *testing.T) {
	dir := write(t, map[string]string{
		"collector.yaml": primary,
		"fallback.yaml":  "extends: collector.yaml\nsink: {type: s3, s3: {bucket: events, region: eu-west-1}}\n",
	})
	set, err := config.Load(config.Paths{Primary: filepath.Join(dir, "collector.yaml"), Fallback: filepath.Join(dir, "fallback.yaml"), Mode: "/run/m.json"})
	if err != nil {
		t.Fatal(err)
	}
	if set.Fallback == nil || set.Fallback.Sink.Type != config.S3 || set.Fallback.DataDir != set.Primary.DataDir || set.Paths.Mode != "/run/m.json" {
		t.Errorf("got %+v", set)
	}
}

func TestLoad_refusesWhatCannotWork(t *testing.T) {
	for name, tc := range map[string]struct{ primary, fallback, want string }{
		"unknown destination":      {"sink: {type: kafka}", "", `sink.type: "kafka"`},
		"stream missing":           {"sink: {type: kinesis, kinesis: {region: eu-west-1, good_stream: a}}", "", "sink.kinesis.bad_stream: it is missing"},
		"payloads too large":       {"http: {max_record_bytes: 2MiB}" + primary, "", "sink.kinesis.max_record_bytes: 1MiB leaves no room"},
		"segments too small":       {"spool: {segment_bytes: 512KiB}", "", "spool.segment_bytes: 512KiB cannot hold"},
		"instance with a slash":    {"instance: a/b", "", "instance"},
		"instance is a parent":     {"instance: ..", "", "instance"},
		"no address":               {"listen: 8080", "", "listen"},
		"stop without time":        {"stop: {timeout: 0s}", "", "stop"},
		"other section is ignored": {"sink: {type: file, kinesis: {good_stream: ''}}", "", ""},
		"other spool":              {primary, "extends: collector.yaml\ndata_dir: /tmp/x\n", "data_dir"},
		"other instance":           {primary, "extends: collector.yaml\ninstance: box-2\n", "instance"},
		"other port":               {primary, "extends: collector.yaml\nlisten: ':1'\n", "listen"},
		"broken fallback":          {primary, "extends: collector.yaml\nsink: {type: s3}\n", "sink.s3.bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"collector.yaml": tc.primary, "fallback.yaml": tc.fallback})
			paths := config.Paths{Primary: filepath.Join(dir, "collector.yaml")}
			if tc.fallback != "" {
				paths.Fallback = filepath.Join(dir, "fallback.yaml")
			}
			_, err := config.Load(paths)
			if tc.want == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want something about %s", err, tc.want)
			}
		})
	}
}

func TestConfig_Print_readsBack(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-west-1")
	want := config.Default()
	want.Sink.Type = config.Kinesis
	want.Sink.Kinesis.GoodStream, want.Sink.Kinesis.BadStream = "a", "b"
	text, err := want.Print()
	if err != nil {
		t.Fatal(err)
	}
	got, err := configfile.LoadBytes("printed.yaml", text, config.Config{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(configfile.Secret{})); diff != "" {
		t.Errorf("printed config reads back otherwise (-want +got):\n%s", diff)
	}
}
