package docker

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// stages returns the stages of the Dockerfile with their instructions.
func stages(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	from := regexp.MustCompile(`^FROM (\S+) AS (\S+)$`)
	all, stage := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if m := from.FindStringSubmatch(line); m != nil {
			stage = m[2]
		}
		if stage != "" && line != "" && !strings.HasPrefix(line, "#") {
			all[stage] = append(all[stage], line)
		}
	}
	return all
}

func TestDockerfile_imagesHoldAProgramAndNoPrivileges(t *testing.T) {
	all := stages(t)
	for _, target := range []string{"collector", "watchdog", "standins"} {
		lines := all[target]
		for _, want := range []string{"FROM scratch AS " + target, "USER 65532:65532"} {
			if !slices.Contains(lines, want) {
				t.Errorf("%s: no line %q in %q", target, want, lines)
			}
		}
		for _, line := range lines {
			if strings.HasPrefix(line, "RUN") || strings.HasPrefix(line, "ADD") {
				t.Errorf("%s: %s", target, line)
			}
		}
	}
}

func TestCompose_fitsTheImagesAndFilesThatExist(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Build    struct{ Context, Dockerfile, Target string }
			ReadOnly bool     `yaml:"read_only"`
			CapDrop  []string `yaml:"cap_drop"`
			Restart  string
			Volumes  []string
			Configs  []struct{ Source, Target string }
		}
		Configs map[string]struct{ File string }
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	if len(compose.Services) != 3 {
		t.Errorf("%d services, want 3", len(compose.Services))
	}
	all := stages(t)
	for name, s := range compose.Services {
		if len(all[s.Build.Target]) == 0 {
			t.Errorf("%s: the Dockerfile has no target %q", name, s.Build.Target)
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.Restart != "always" {
			t.Errorf("%s: read_only %v, cap_drop %v, restart %q", name, s.ReadOnly, s.CapDrop, s.Restart)
		}
		for _, v := range s.Volumes {
			volume, dir, _ := strings.Cut(v, ":")
			if _, ok := compose.Volumes[volume]; !ok {
				t.Errorf("%s: no volume %s", name, volume)
			}
			// A new volume takes its owner from the image, or belongs to root.
			if !slices.ContainsFunc(all[s.Build.Target], func(line string) bool { return strings.HasSuffix(line, "--chown=65532:65532 /out/empty "+dir) }) {
				t.Errorf("%s: its image has no directory %s of its user", name, dir)
			}
		}
		for _, c := range s.Configs {
			if _, err := os.Stat(compose.Configs[c.Source].File); err != nil {
				t.Errorf("%s: config %s: %v", name, c.Source, err)
			}
			if filepath.Base(c.Target) != filepath.Base(compose.Configs[c.Source].File) {
				t.Errorf("%s: config %s becomes %s", name, c.Source, c.Target)
			}
		}
	}
}
