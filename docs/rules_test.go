package docs_test

import "testing"

// The rules themselves: what the tables allow, and what they do not.
func TestMayImport(t *testing.T) {
	layer := map[string]string{
		"collector": "command", "c/app": "wiring", "c/config": "wiring", "c/ingest": "flow", "c/delivery": "flow", "c/ingest/protocol": "parts",
		"c/spool": "parts", "c/sink/s3": "parts", "c/archive": "base", "c/sink": "base", "shared/mode": "shared", "shared/rig": "rig", "c/table": "checks",
	}
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"collector", "c/app", true},
		{"c/app", "c/ingest", true},
		{"c/app", "c/config", true},
		{"c/config", "c/app", false},
		{"c/config", "c/spool", true},
		{"c/ingest", "c/delivery", false},
		{"c/ingest", "c/ingest/protocol", true},
		{"c/ingest/protocol", "c/ingest", true},
		{"c/spool", "c/sink/s3", false},
		{"c/spool", "c/delivery", false},
		{"c/sink/s3", "c/sink", true},
		{"c/archive", "c/sink", true},
		{"c/sink", "c/spool", false},
		{"c/sink", "shared/mode", true},
		{"shared/mode", "c/sink", false},
		{"shared/mode", "shared/rig", false},
		{"shared/rig", "shared/mode", true},
		{"shared/rig", "c/sink", false},
		{"c/app", "shared/rig", false},
		{"c/app", "c/table", false},
		{"c/table", "c/app", true},
	} {
		if got := mayImport(layer, c.from, c.to); got != c.want {
			t.Errorf("%s imports %s: got %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestDependency_allows(t *testing.T) {
	d := dependency{importers: []string{"a/b", "c/...", "tests"}}
	for path, want := range map[string]bool{"a/b": true, "a/b/c": false, "a": false, "c": true, "c/d/e": true, "cd": false} {
		if got := d.allows(goPackage{ImportPath: module + "/" + path}, false); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	if !d.allows(goPackage{ImportPath: module + "/x"}, true) {
		t.Error("tests must be allowed")
	}
}
