package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is a test as reliability.md names it: a package, a test in it, and
// perhaps one of its parts.
var named = regexp.MustCompile("`([a-z0-9/]+) ((?:Test|Fuzz)\\w+)(?:/([^`]+))?`")

// TestReliability_namesTestsThatExist keeps the list of faults honest: every row
// names a test, and every test named is there.
func TestReliability_namesTestsThatExist(t *testing.T) {
	page := read(t, "docs/reliability.md")
	rows := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what ") && strings.HasSuffix(strings.TrimSpace(line), "| shown by |") {
			continue
		}
		rows++
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | "); len(cells) != 3 || !named.MatchString(cells[2]) {
			t.Errorf("no test stands in the last column of: %s", line)
		}
	}
	if rows == 0 {
		t.Fatal("reliability.md lists nothing")
	}
	for _, m := range named.FindAllStringSubmatch(page, -1) {
		if where := declares(t, m[1], m[2]); where == "" {
			t.Errorf("%s has no %s", m[1], m[2])
		} else if m[3] != "" && !strings.Contains(where, `"`+m[3]+`"`) {
			t.Errorf("%s has no part %q", m[2], m[3])
		}
	}
}

// declares returns the file of a package that has the test, or "".
func declares(t *testing.T, pkg, test string) (content string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "\nfunc "+test+"(") {
			return string(data)
		}
	}
	return ""
}
