package bed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spillway/shared/rig/proc"
)

func boot(t *testing.T, o Options) *Bed {
	t.Helper()
	if err := Possible(); err != nil {
		if os.Getenv("SPILLWAY_NO_SKIP") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	b, err := Boot(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestBed_runsASystemdOfItsOwnAndLeavesNothing(t *testing.T) {
	tree := t.TempDir()
	if err := os.MkdirAll(filepath.Join(tree, "usr/share/bed"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "usr/share/bed/laid"), []byte("over"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := boot(t, Options{Tree: tree})
	run := func(argv ...string) string {
		t.Helper()
		out, err := b.Run(t.Context(), argv...)
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(out)
	}
	if got := run("cat", "/proc/1/comm", "/usr/share/bed/laid"); got != "systemd\nover" {
		t.Errorf("process 1 and the tree: %q", got)
	}
	if err := b.Write("/etc/systemd/system/one.service", "[Service]\nExecStart=/bin/echo said by one\nRemainAfterExit=yes\n"); err != nil {
		t.Fatal(err)
	}
	run("systemctl", "daemon-reload")
	run("systemctl", "start", "one.service")
	if state, err := b.Property(t.Context(), "one.service", "ActiveState"); err != nil || state != "active" {
		t.Errorf("the unit is %q, %v", state, err)
	}
	proc.Eventually(t, time.Minute, func() error {
		if log := b.Journal(t.Context(), "one.service", 10); !strings.Contains(log, "said by one") {
			return fmt.Errorf("the unit's log: %s", log)
		}
		return nil
	})
	out, err := b.RunAs(t.Context(), "daemon", "sh", "-c", "id -un; cat /proc/self/status | grep CapEff")
	if fields := strings.Fields(out); err != nil || len(fields) != 3 || fields[0] != "daemon" || strings.Trim(fields[2], "0") != "" {
		t.Errorf("as daemon: %q, %v", out, err)
	}
	if out, err := b.Run(t.Context(), "sh", "-c", "echo lost >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(out, "lost") {
		t.Errorf("a failed command: %q, %v", out, err)
	}

	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", b.leader)); err == nil {
		t.Errorf("its systemd, process %d, lives on", b.leader)
	}
	for _, dir := range b.groups {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("the control group %s is still there", dir)
		}
	}
}

func TestBoot_saysWhyItCannot(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	b, err := Boot(ctx, Options{})
	if err == nil {
		t.Errorf("it booted in no time; %v", b.Close())
	} else if !strings.HasPrefix(err.Error(), "boot a systemd: ") {
		t.Errorf("got %v", err)
	}
}
