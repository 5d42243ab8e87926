package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"spillway/shared/configfile"
	"spillway/watchdog/internal/config"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "watchdog.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad_withoutAFileGivesTheDefaults(t *testing.T) {
	c, err := config.Load("")
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Instance = host
	if diff := cmp.Diff(want, c, cmpopts.EquateComparable(configfile.Secret{})); diff != "" {
		t.Error(diff)
	}
	if c.Name() != "watchdog "+host || c.StateFile() != "/var/lib/spillway-watchdog/watchdog-state.json" {
		t.Errorf("name %q, state %q", c.Name(), c.StateFile())
	}
}

func TestLoad_readsEveryPart(t *testing.T) {
	c, err := config.Load(write(t, `
instance: box-1
state_dir: /tmp/state
collector: {address: "unix:/run/spillway/admin.sock", public_address: "127.0.0.1:80", instance: box-1}
restarter: {use: command, command: {restart: [/usr/bin/true]}}
poll: {interval: 10s, timeout: 1s}
rules: {last_write_age: {threshold: 2m}}
after_fail_back: {replay: true, after: 1h}
journal: {max_bytes: 1MiB}
log: {level: debug}
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Collector.Admin.Address != "unix:/run/spillway/admin.sock" || c.Collector.Probe.Instance != "box-1" ||
		c.Restarter.Command.Restart[0] != "/usr/bin/true" || c.Policy.Poll.Interval != 10*time.Second ||
		c.Policy.Rules.LastWriteAge.Threshold != 2*time.Minute || c.Policy.Rules.LastWriteAge.For != 30*time.Second ||
		!c.AfterFailBack.Replay || c.AfterFailBack.After != time.Hour || c.AfterFailBack.Rate != "1000/s" ||
		c.Journal.MaxBytes != configfile.MiB || c.Log.Level != "debug" {
		t.Errorf("got %+v", c)
	}
}

func TestLoad_saysWhereAndWhatIsWrong(t *testing.T) {
	cases := map[string]string{
		"state_dir: var/lib":                                 "watchdog.yaml:1: state_dir: \"var/lib\" is not an absolute path",
		"state_dir: /" + strings.Repeat("x", 120):            "watchdog.yaml:1: state_dir: the control socket cannot stand there",
		"mode_file: mode.json":                               "watchdog.yaml:1: mode_file: ",
		"listen: nowhere":                                    "watchdog.yaml:1: listen: ",
		"collector:\n  address: nowhere":                     "watchdog.yaml:2: collector.address: ",
		"collector:\n  public_address: nowhere":              "watchdog.yaml:2: collector.public_address: ",
		"restarter:\n  use: prayer":                          "watchdog.yaml:2: restarter.use: ",
		"restarter:\n  use: command":                         "restarter.command.restart: is empty",
		"restarter:\n  use: systemd\n  systemd: {unit: x}":   "watchdog.yaml:3: restarter.systemd.unit: ",
		"after_fail_back:\n  rate: fast":                     "watchdog.yaml:2: after_fail_back.rate: ",
		"journal:\n  max_bytes: 1B":                          "watchdog.yaml:2: journal.max_bytes: ",
		"log: {level: loud}":                                 "watchdog.yaml:1: log.level: ",
		"poll:\n  intervall: 5s":                             "watchdog.yaml:2: ",
		"rules:\n  last_write_age:\n    threshold: 5":        "watchdog.yaml:3: ",
		"poll:\n  interval: 2s\n  timeout: 3s":               "poll.timeout",
		"instance: \"a\\nb\"":                                "watchdog.yaml:1: instance: ",
		"state_dir: relative\nmode_file: relative":           "watchdog.yaml:2: mode_file: ",
		"restarter: {use: command, command: {start: [x]}}":   "restarter.command.restart: ",
		"collector: {token: {file: /no/such/file/anywhere}}": "watchdog.yaml:1: collector.token: ",
	}
	for text, want := range cases {
		if _, err := config.Load(write(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestDefault_printsAsItReads(t *testing.T) {
	var text bytes.Buffer
	if err := configfile.Print(&text, config.Default()); err != nil {
		t.Fatal(err)
	}
	c, err := configfile.LoadBytes("printed.yaml", text.Bytes(), config.Config{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text.String())
	}
	want := config.Default()
	want.Restarter.Command.Restart, want.Restarter.Command.Start = []string{}, []string{}
	want.AfterFailBack.Command = []string{}
	want.Log.Fields = map[string]string{}
	if diff := cmp.Diff(want, c, cmpopts.EquateComparable(configfile.Secret{})); diff != "" {
		t.Error(diff)
	}
}
