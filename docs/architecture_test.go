// Package docs_test holds the documentation to the code and the code to the
// documentation: the tables in architecture.md and dependencies.md are the rules
// that are checked here, not a copy of them.
package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "spillway"

// root is the top of the repository, seen from this package.
const root = ".."

// goPackage is what `go list` knows about a package.
type goPackage struct {
	ImportPath, Dir, Name, Doc         string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
	Standard                           bool
}

// rel is the folder of the package, as the tables name it.
func (p goPackage) rel() string { return relative(p.ImportPath) }

func relative(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }

func ours(importPath string) bool { return strings.HasPrefix(importPath, module+"/") }

func packages(t *testing.T) []goPackage {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// list asks the Go tool once for all packages that have files.
var list = sync.OnceValues(func() ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Name,Doc,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Standard", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, &stderr)
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if len(p.GoFiles)+len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			all = append(all, p)
		}
	}
})

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Layers, from the bottom. A package imports only from layers below its own, its
// parent folder and, in base, its neighbours. The other words in the table's
// second column are special.
var layers = map[string]int{"base": 0, "parts": 1, "flow": 2, "wiring": 3, "command": 4}

var mapRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_/]+)` \\| ([a-z]+) \\| (.+) \\|$")

// layerOf reads the map of architecture.md: the layer of each package.
func layerOf(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, row := range mapRow.FindAllStringSubmatch(read(t, "docs/architecture.md"), -1) {
		name, layer := row[1], row[2]
		_, known := layers[layer]
		if !known && layer != "shared" && layer != "rig" && layer != "checks" {
			t.Errorf("architecture.md: %s is in layer %q, which does not exist", name, layer)
		}
		if _, twice := found[name]; twice {
			t.Errorf("architecture.md: %s stands twice", name)
		}
		found[name] = layer
	}
	if len(found) == 0 {
		t.Fatal("architecture.md has no map of packages")
	}
	return found
}

func TestArchitecture_mapShowsThePackagesThatExist(t *testing.T) {
	listed := layerOf(t)
	for _, p := range packages(t) {
		if _, ok := listed[p.rel()]; !ok {
			t.Errorf("%s is not in the map of architecture.md", p.rel())
		}
		delete(listed, p.rel())
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		t.Errorf("architecture.md shows %s, which does not exist", name)
	}
}

func TestArchitecture_importsPointDownwards(t *testing.T) {
	layer := layerOf(t)
	for _, p := range packages(t) {
		for _, i := range p.Imports {
			if ours(i) && !mayImport(layer, p.rel(), relative(i)) {
				t.Errorf("%s (%s) imports %s (%s)", p.rel(), layer[p.rel()], relative(i), layer[relative(i)])
			}
		}
	}
}

func mayImport(layer map[string]string, from, to string) bool {
	switch {
	case layer[from] == "checks":
		return true
	case layer[to] == "checks":
		return false
	case layer[to] == "rig":
		return layer[from] == "rig"
	case layer[to] == "shared":
		return true
	case layer[from] == "shared" || layer[from] == "rig":
		return false
	case layer[to] == "base":
		return true
	case strings.HasPrefix(from, to+"/"):
		return true // a child knows its parent
	case path.Base(from) == "app" && path.Base(to) == "config":
		return true
	}
	return layers[layer[to]] < layers[layer[from]]
}

// dependency is a row of dependencies.md.
type dependency struct {
	module    string
	importers []string // folders, folders with everything below ("/..."), "tests", "any"
}

var (
	dependencyRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\| ([^|]+) \\|$")
	quoted        = regexp.MustCompile("`([^`]+)`")
)

func dependencies(t *testing.T) []dependency {
	t.Helper()
	var all []dependency
	for _, row := range dependencyRow.FindAllStringSubmatch(read(t, "docs/dependencies.md"), -1) {
		d := dependency{module: row[1]}
		for _, q := range quoted.FindAllStringSubmatch(row[2], -1) {
			d.importers = append(d.importers, q[1])
		}
		all = append(all, d)
	}
	// The longest module first, so that a part of a module can have its own row.
	slices.SortFunc(all, func(a, b dependency) int { return len(b.module) - len(a.module) })
	return all
}

func (d dependency) allows(p goPackage, inTest bool) bool {
	for _, who := range d.importers {
		below, all := strings.CutSuffix(who, "/...")
		switch {
		case who == "any", who == p.rel(), who == "tests" && inTest,
			all && (p.rel() == below || strings.HasPrefix(p.rel(), below+"/")):
			return true
		}
	}
	return false
}

func TestDependencies_areImportedOnlyWhereTheyMay(t *testing.T) {
	all := dependencies(t)
	used := map[string]bool{}
	check := func(p goPackage, imports []string, inTest bool) {
		for _, i := range imports {
			first, _, _ := strings.Cut(i, "/")
			if ours(i) || i == module || !strings.Contains(first, ".") {
				continue
			}
			at := slices.IndexFunc(all, func(d dependency) bool { return i == d.module || strings.HasPrefix(i, d.module+"/") })
			if at < 0 {
				t.Errorf("%s imports %s, which has no row in dependencies.md", p.rel(), i)
				continue
			}
			used[all[at].module] = true
			if !all[at].allows(p, inTest) {
				t.Errorf("%s imports %s, which dependencies.md allows to %v", p.rel(), i, all[at].importers)
			}
		}
	}
	for _, p := range packages(t) {
		check(p, p.Imports, false)
		check(p, p.TestImports, true)
		check(p, p.XTestImports, true)
	}
	for _, d := range all {
		if !used[d.module] {
			t.Errorf("dependencies.md lists %s, which nothing imports", d.module)
		}
	}
}

func TestPackages_tellTheirStory(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment", p.rel())
		}
	}
}
