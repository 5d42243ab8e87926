package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"spillway/shared/rig/pair"
	"spillway/shared/rig/tracker"
)

// command runs the collector's program with a sub-command and returns what it
// says and its exit code.
func command(t *testing.T, p *pair.Pair, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(limited(t), program(t, "collector"), args...)
	cmd.Env, cmd.Dir = p.CollectorSpec().Env, t.TempDir()
	var out, trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &trouble
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String(), trouble.String(), code
}

// contents reads every file below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A box dies during an outage and never comes back, but its disk does: whatever
// was answered 200 is on it, can be looked at, and is delivered from it.
func TestSpool_ofADeadBox_isDeliveredFromItsDisk(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true})
	if err := p.CutKinesis(); err != nil {
		t.Fatal(err)
	}
	tr := sendAll(t, p, 300)
	tr.stop()

	// While it runs, its spool is its own.
	if _, stderr, code := command(t, p, "spool", "export", "--config", p.CollectorConfig()); code != 3 || !strings.Contains(stderr, "in use by process") {
		t.Errorf("export of a running collector's spool: exit code %d, %s", code, stderr)
	}
	p.Collector.Kill()
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}

	before := contents(t, p.DataDir())
	stdout, stderr, code := command(t, p, "spool", "ls", "--config", p.CollectorConfig(), "--json")
	var lanes []struct {
		Lane     string `json:"lane"`
		Segments []struct {
			Records, Acked uint64
		} `json:"segments"`
	}
	if err := json.Unmarshal([]byte(stdout), &lanes); err != nil || code != 0 || len(lanes) != 2 || len(lanes[0].Segments) == 0 || lanes[0].Segments[0].Records == 0 {
		t.Errorf("ls: exit code %d, %v, %s%s", code, err, stdout, stderr)
	}
	if stdout, _, code := command(t, p, "spool", "ls", "--config", p.CollectorConfig()); code != 0 || !strings.Contains(stdout, "WAITING") {
		t.Errorf("ls for people: exit code %d, %s", code, stdout)
	}
	if stdout, stderr, code := command(t, p, "spool", "verify", "--config", p.CollectorConfig()); code != 0 || !strings.Contains(stdout, "good lane:") {
		t.Errorf("verify: exit code %d, %s%s", code, stdout, stderr)
	}
	out := t.TempDir()
	if stdout, stderr, code := command(t, p, "spool", "export", "--config", p.CollectorConfig(), "--to", "file", "--dir", out); code != 0 {
		t.Errorf("export to files: exit code %d, %s%s", code, stdout, stderr)
	}
	if after := contents(t, p.DataDir()); len(contents(t, out)) == 0 || !equal(before, after) {
		t.Errorf("%d files were exported; the data directory changed: %v", len(contents(t, out)), !equal(before, after))
	}

	if stdout, stderr, code := command(t, p, "spool", "export", "--config", p.CollectorConfig(), "--drain"); code != 0 {
		t.Errorf("export --drain: exit code %d, %s%s", code, stdout, stderr)
	}
	if r := audit(t, p, tr.Ledger()); r.Duplicates() > 0 {
		t.Errorf("one export delivered some events twice: %v", r)
	}
	stdout, _, code = command(t, p, "spool", "export", "--config", p.CollectorConfig(), "--json")
	if code != 0 || !strings.Contains(stdout, `"waiting": 0`) {
		t.Errorf("a second export after --drain: exit code %d, %s", code, stdout)
	}
}

func equal(a, b map[string]string) bool {
	for name, data := range a {
		if b[name] != data {
			return false
		}
	}
	return len(a) == len(b)
}

// Damage on the disk costs what it hit, is named with segment and offset, and
// does not keep the rest from being delivered.
func TestSpool_damagedOnDisk_isVerifiedAndTheRestExported(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true})
	if err := p.CutKinesis(); err != nil {
		t.Fatal(err)
	}
	tr := send(t, p, tracker.Config{Connections: 1, Events: 60, Resend: true})
	tr.acked(t, 60)
	tr.stop()
	p.Collector.Kill()
	if err := p.MendKinesis(); err != nil {
		t.Fatal(err)
	}

	segments, err := filepath.Glob(filepath.Join(p.DataDir(), "spool", "good", "*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	data, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	copy(data[8192+4096+100:], "a bad sector")
	if err := os.WriteFile(segments[0], data, 0o640); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := command(t, p, "spool", "verify", "--config", p.CollectorConfig())
	if code != 1 || !strings.Contains(stdout, filepath.Base(segments[0])+" at offset 12288") {
		t.Errorf("verify: exit code %d, %s%s", code, stdout, stderr)
	}
	stdout, stderr, code = command(t, p, "spool", "export", "--config", p.CollectorConfig(), "--json")
	if code != 1 || !strings.Contains(stdout, `"damaged": 1,`) || !strings.Contains(stdout, `"left": 0`) {
		t.Errorf("export: exit code %d, %s%s", code, stdout, stderr)
	}
	r, err := p.Audit(tr.Ledger())
	if err != nil || len(r.Lost) != 1 {
		t.Errorf("%d events are lost, want the one that was hit: %v %v", len(r.Lost), r, err)
	}
}
