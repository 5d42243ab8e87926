package bed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// A systemd wants a control group of its own, in the hierarchy that systemd uses:
// the one hierarchy where the machine has only version 2, else those of version 1
// that carry its name, and of version 2 beside them.

const cgroups = "/sys/fs/cgroup"

// makeGroups makes the bed's control groups and returns their directories.
func makeGroups(name string) ([]string, error) {
	var made []string
	for _, parent := range []string{cgroups, cgroups + "/unified", cgroups + "/systemd"} {
		if _, err := os.Stat(parent + "/cgroup.procs"); err != nil {
			continue
		}
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("make a control group: %w", err), removeGroups(made))
		}
		made = append(made, dir)
	}
	if made == nil {
		return nil, fmt.Errorf("no control groups that systemd can use in %s", cgroups)
	}
	return made, nil
}

// inGroups returns a command that enters the control groups and becomes program.
func inGroups(dirs []string, program string, args []string) *exec.Cmd {
	const script = `n=$1; shift
while [ "$n" -gt 0 ]; do echo $$ > "$1/cgroup.procs" || exit 1; shift; n=$((n-1)); done
exec "$@"`
	argv := append([]string{"-c", script, "sh", strconv.Itoa(len(dirs))}, dirs...)
	return exec.Command("sh", append(append(argv, program), args...)...)
}

// removeGroups removes the control groups with all below them. Processes leave
// their group a moment after they have ended.
func removeGroups(dirs []string) error {
	deadline := time.Now().Add(2 * time.Second)
	for {
		err := removeAll(dirs)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func removeAll(dirs []string) error {
	var errs []error
	for _, dir := range dirs {
		var below []string
		_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, name)
			}
			return nil
		})
		for _, name := range slices.Backward(below) { // children first
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
