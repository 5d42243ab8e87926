package config_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"spillway/collector/internal/config"
	"spillway/shared/configfile/configdoc"
)

var update = flag.Bool("update", false, "write docs/configuration-collector.md anew")

// TestReference keeps the reference of the config file as the code has it.
func TestReference(t *testing.T) {
	const path = "../../../docs/configuration-collector.md"
	defaults := config.Default()
	defaults.Instance, defaults.DataDir = "", "" // these depend on the machine
	sections, err := configdoc.Sections(defaults)
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	page.WriteString("# Settings of spillway-collector\n\nGenerated from the source: `go test ./collector/internal/config -run Reference -update`.\n" +
		"How such a file is written stands in [configuration.md](configuration.md).\n\n")
	if err := configdoc.Markdown(&page, 2, sections); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, page.Bytes()) {
		t.Errorf("%s is not what the code says: run this test with -update", path)
	}
}
