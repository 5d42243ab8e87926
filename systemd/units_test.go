package systemd

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInstall_putsEveryFileInItsPlace(t *testing.T) {
	root := installed(t)
	got := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			got[strings.TrimPrefix(name, root)] = info.Mode().String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const program, text = "-rwxr-xr-x", "-rw-r--r--"
	want := map[string]string{
		"/etc/spillway/collector-fallback.yaml":              text,
		"/etc/spillway/collector.yaml":                       text,
		"/etc/spillway/watchdog.yaml":                        text,
		"/usr/bin/spillway-collector":                        program,
		"/usr/bin/spillway-watchdog":                         program,
		"/usr/lib/systemd/system/spillway-collector.service": text,
		"/usr/lib/systemd/system/spillway-collector.socket":  text,
		"/usr/lib/systemd/system/spillway-watchdog.service":  text,
		"/usr/lib/systemd/system/spillway.target":            text,
		"/usr/lib/sysusers.d/spillway.conf":                  text,
		"/usr/lib/tmpfiles.d/spillway.conf":                  text,
		"/usr/share/doc/spillway/operations.md":              text,
		"/usr/share/doc/spillway/watchdog.md":                text,
		"/usr/share/polkit-1/rules.d/50-spillway.rules":      text,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A config that somebody has edited is not replaced by an upgrade.
func TestInstall_keepsConfigs(t *testing.T) {
	root := t.TempDir()
	edited := filepath.Join(root, "etc/spillway/collector.yaml")
	if err := os.MkdirAll(filepath.Dir(edited), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(edited, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("make", "-C", "..", "install", "BIN="+filepath.Join(filepath.Dir(installed(t)), "bin"), "DESTDIR="+root)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text, err := os.ReadFile(edited); err != nil || string(text) != "mine" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(root, "etc/spillway/watchdog.yaml")); err != nil {
		t.Error(err)
	}
}

func TestExamples_areValid(t *testing.T) {
	root := installed(t)
	for _, argv := range [][]string{
		{"spillway-collector", "check-config", "collector.yaml", "collector-fallback.yaml"},
		{"spillway-watchdog", "check-config", "--offline", "watchdog.yaml"},
	} {
		cmd := exec.Command(filepath.Join(root, "usr/bin", argv[0]), argv[1:]...)
		cmd.Dir = filepath.Join(root, "etc/spillway")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", argv, err, out)
		}
	}
}

func TestUnits_systemdHasNothingToSayAboutThem(t *testing.T) {
	b := boot(t)
	// A key that systemd does not know is but a line on standard error.
	if out := must(t, b, "systemd-analyze", "verify", unitDir+collector, unitDir+socket, unitDir+watchdog, unitDir+target); out != "" {
		t.Errorf("systemd-analyze verify:\n%s", out)
	}
	if out := must(t, b, "systemctl", "--failed", "--no-legend", "--plain"); out != "" {
		t.Errorf("failed at boot:\n%s", out)
	}
	for _, user := range []string{"spillway", "spillway-watchdog"} {
		t.Log(must(t, b, "id", user))
	}
}

const unitDir = "/usr/lib/systemd/system/"

var exposure = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

func TestUnits_areHardened(t *testing.T) {
	b := boot(t)
	for _, unit := range []string{collector, watchdog} {
		out := must(t, b, "systemd-analyze", "security", "--no-pager", unit)
		found := exposure.FindStringSubmatch(out)
		if found == nil {
			t.Fatalf("no exposure level in:\n%s", out)
		}
		level, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: exposure %v", unit, level)
		if level >= 2.5 {
			t.Errorf("%s: exposure %v, want less than 2.5\n%s", unit, level, out)
		}
	}
}
