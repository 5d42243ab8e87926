package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Builder builds programs, each at most once. It is safe for concurrent use; the
// zero value is ready. Close removes what it built.
type Builder struct {
	mu    sync.Mutex
	dir   string            // guarded by mu
	built map[string]string // guarded by mu; package and flags to path
}

// Build compiles a main package, given as for go build (an import path, or a
// path that begins with ./ and counts from the working directory), and returns
// the program's path. Further flags go to go build. A test that builds a program
// is run again, rather than its cached result shown, when the program changes.
func (b *Builder) Build(pkg string, flags ...string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.Join(append(flags, pkg), " ")
	if path, ok := b.built[key]; ok {
		return path, nil
	}
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "rig-build-")
		if err != nil {
			return "", fmt.Errorf("build %s: %w", pkg, err)
		}
		b.dir, b.built = dir, map[string]string{}
	}
	if err := dependOn(pkg); err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	path := filepath.Join(b.dir, fmt.Sprintf("%d-%s", len(b.built), filepath.Base(pkg)))
	args := append(append([]string{"build", "-o", path}, flags...), pkg)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	b.built[key] = path
	return path, nil
}

// dependOn looks into the folders of this module that a package is made of: what a
// test looks at, the go command takes for an input of the test.
func dependOn(pkg string) error {
	list := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}", pkg)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list what it is made of: %w", err)
	}
	for dir := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		if dir == "" {
			continue // a program of this one file, or of no module
		}
		if _, err := os.ReadDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the programs that were built.
func (b *Builder) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir := b.dir
	b.dir, b.built = "", nil
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}
