package bed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Run runs a program in the bed as root and returns what it wrote, standard output
// before standard error. The error has the exit code and all that was written.
func (b *Bed) Run(ctx context.Context, argv ...string) (string, error) {
	enter := []string{"--target", strconv.Itoa(b.leader), "--mount", "--uts", "--ipc", "--pid", "--root", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, argv...)...)
	// The machine's environment is not the bed's.
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0"}
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String() + stderr.String(), fmt.Errorf("%s: %w\n%s%s", strings.Join(argv, " "), err, &stdout, &stderr)
	}
	return stdout.String() + stderr.String(), nil
}

// RunAs is Run as another user, of the group of the same name and that user's
// other groups, without root's capabilities.
func (b *Bed) RunAs(ctx context.Context, user string, argv ...string) (string, error) {
	return b.Run(ctx, append([]string{"setpriv", "--reuid=" + user, "--regid=" + user, "--init-groups", "--inh-caps=-all", "--"}, argv...)...)
}

// Property returns a property of a unit, as `systemctl show` writes it.
func (b *Bed) Property(ctx context.Context, unit, name string) (string, error) {
	out, err := b.Run(ctx, "systemctl", "show", "--value", "--property", name, unit)
	return strings.TrimSpace(out), err
}

// Journal returns the last lines of a unit's log.
func (b *Bed) Journal(ctx context.Context, unit string, lines int) string {
	out, err := b.Run(ctx, "journalctl", "--no-pager", "--output=short-precise", "--lines", strconv.Itoa(lines), "--unit", unit)
	if err != nil {
		return err.Error()
	}
	return out
}

// Path returns where a file of the bed stands on this machine.
func (b *Bed) Path(file string) string {
	return filepath.Join("/proc", strconv.Itoa(b.leader), "root", file)
}

// Write writes a file in the bed, readable for everybody, with the directories
// that lead to it.
func (b *Bed) Write(file, text string) error {
	path := b.Path(file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// output keeps what nspawn and the systemd write to the console.
type output struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns all of it.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
