package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestFrom(t *testing.T) {
	vcs := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-12-01T16:00:00Z"}, {Key: "vcs.modified", Value: "true"},
	}
	for name, c := range map[string]struct {
		linked   Info
		recorded *debug.BuildInfo
		want     string
	}{
		"nothing known":  {Info{}, nil, "dev (commit unknown, unknown, go)"},
		"linker":         {Info{Version: "v1.2.3", Commit: "abc", Date: "today"}, &debug.BuildInfo{Settings: vcs}, "1.2.3 (commit abc, today, go)"},
		"repository":     {Info{}, &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs}, "dev (commit 0123456789ab+dirty, 2026-12-01T16:00:00Z, go)"},
		"pseudo-version": {Info{}, &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261201160000-0123456789ab"}}, "dev (commit unknown, unknown, go)"},
		"module":         {Info{}, &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "1.2.3 (commit unknown, unknown, go)"},
	} {
		t.Run(name, func(t *testing.T) {
			c.linked.Go = "go"
			if got := from(c.linked, c.recorded).String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestGet(t *testing.T) {
	got := Get()
	if got.Go != runtime.Version() || got.Version == "" || got.Commit == "" || got.Date == "" {
		t.Errorf("got %+v", got)
	}
}
