package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const maxLines = 400

// sourceFiles calls visit for every text file of the repository that people write.
func sourceFiles(t *testing.T, visit func(name, content string)) {
	t.Helper()
	skipped := []string{".git", "bin", "dist", "artifacts", "node_modules", ".venv", "venv"}
	kinds := []string{".go", ".md", ".sh", ".yaml", ".yml", ".txtar", ".service", ".socket", ".js", ".html", ".css"}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		plain := d.Name() == "Makefile" || d.Name() == "Dockerfile" || d.Name() == "run"
		if !plain && !slices.Contains(kinds, filepath.Ext(name)) {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		visit(filepath.ToSlash(rel), string(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rule is something that no file may contain.
type rule struct {
	pattern *regexp.Regexp
	in      func(name string) bool
	why     string
}

func isGo(name string) bool   { return strings.HasSuffix(name, ".go") }
func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }
func isMain(name string) bool {
	return strings.Count(name, "/") == 1 || strings.Contains(name, "/cmd/")
}
func inPrograms(n string) bool {
	return strings.HasPrefix(n, "collector/") || strings.HasPrefix(n, "watchdog/")
}
func isLibrary(n string) bool {
	forTests := strings.HasSuffix(path.Dir(n), "test")
	return isGo(n) && !isTest(n) && inPrograms(n) && !isMain(n) && !forTests
}
func everywhere(_ string) bool   { return true }
func isProduction(n string) bool { return isGo(n) && !isTest(n) }

// The patterns are put together so that this file does not contain them.
var rules = []rule{
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`), everywhere, "finish it, or leave it out"},
	{regexp.MustCompile(`\btime\.Sl` + `eep\(`), isTest, "use testing/synctest, or wait for a condition"},
	{regexp.MustCompile(`\blogrus\.(Trace|Debug|Info|Warn|Error|Fatal|Print)(f|ln)?\(`), isProduction, "log to the entry that was handed in"},
	{regexp.MustCompile(`\bos\.Exit\(|\b[Ll]og\w*\.Fatal`), isLibrary, "return an error: only main exits"},
}

func TestSource_keepsTheHouseRules(t *testing.T) {
	sourceFiles(t, func(name, content string) {
		for _, r := range rules {
			if !r.in(name) {
				continue
			}
			for i, line := range strings.Split(content, "\n") {
				line = strings.ReplaceAll(line, "context.TO"+"DO()", "")
				if found := r.pattern.FindString(line); found != "" {
					t.Errorf("%s:%d: %s: %s", name, i+1, found, r.why)
				}
			}
		}
		generated := strings.Contains(content, "DO NOT EDIT.")
		if lines := strings.Count(content, "\n"); isProduction(name) && !generated && lines > maxLines {
			t.Errorf("%s has %d lines, %d at most: split it by ideas", name, lines, maxLines)
		}
		if skips := regexp.MustCompile(`\bt\.Skip(f|Now)?\(`); isTest(name) && skips.MatchString(content) && !strings.Contains(content, "SPILLWAY_NO_SKIP") {
			t.Errorf("%s skips tests whatever SPILLWAY_NO_SKIP says", name)
		}
	})
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

func TestDocs_linksLeadSomewhere(t *testing.T) {
	sourceFiles(t, func(name, content string) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		for _, l := range link.FindAllStringSubmatch(content, -1) {
			if strings.Contains(l[1], "://") || strings.HasPrefix(l[1], "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(name), l[1])); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", name, l[1])
			}
		}
	})
}

var symbol = regexp.MustCompile("`([a-z]+)\\.([A-Z][A-Za-z]*(?:\\.[A-Z][A-Za-z]*)?)`")

// The two ways through the house name functions and types: they must be there.
func TestArchitecture_namesWhatExists(t *testing.T) {
	declared := map[string]bool{}
	for _, p := range packages(t) {
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				for _, name := range namesIn(d) {
					declared[p.Name+"."+name] = true
				}
			}
		}
	}
	found := symbol.FindAllStringSubmatch(read(t, "docs/architecture.md"), -1)
	if len(found) == 0 {
		t.Fatal("architecture.md names no function")
	}
	for _, s := range found {
		if name := s[1] + "." + s[2]; !declared[name] {
			t.Errorf("architecture.md names %s, which is not declared", name)
		}
	}
}

// namesIn returns what a declaration declares: names, Type.Method for methods of
// types and interfaces.
func namesIn(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		if id, ok := receiver.(*ast.Ident); ok {
			return []string{id.Name + "." + d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
				if i, ok := s.Type.(*ast.InterfaceType); ok {
					for _, m := range i.Methods.List {
						for _, n := range m.Names {
							names = append(names, s.Name.Name+"."+n.Name)
						}
					}
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
		return names
	}
	return nil
}
