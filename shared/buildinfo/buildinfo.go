// Package buildinfo tells which build is running.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by the linker: -ldflags "-X spillway/shared/buildinfo.version=0.1.0 ...".
// What is not set is taken from what the Go tool records in the binary.
var version, commit, date string

// Info describes a build. A part that is not known is "unknown".
type Info struct {
	Version string // "0.1.0"; "dev" for a build that was not released
	Commit  string // full hash of the revision, with "+dirty" when files were changed
	Date    string // of the revision or the build, RFC 3339
	Go      string // version of the Go toolchain
}

// Get returns the description of the running binary.
func Get() Info {
	recorded, _ := debug.ReadBuildInfo()
	return from(Info{Version: version, Commit: commit, Date: date, Go: runtime.Version()}, recorded)
}

// from fills the gaps of linked, what the linker set, from recorded, which may
// be nil.
func from(linked Info, recorded *debug.BuildInfo) Info {
	info, dirty := linked, ""
	if recorded == nil {
		recorded = &debug.BuildInfo{}
	}
	var revision string
	for _, s := range recorded.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		case s.Key == "vcs.time" && info.Date == "":
			info.Date = s.Value
		}
	}
	if info.Commit == "" && revision != "" {
		info.Commit = revision + dirty
	}
	if v := recorded.Main.Version; info.Version == "" && v != "" && v != "(devel)" && !strings.HasPrefix(v, "v0.0.0-") {
		info.Version = v
	}
	info.Version = strings.TrimPrefix(orElse(info.Version, "dev"), "v")
	info.Commit = orElse(info.Commit, "unknown")
	info.Date = orElse(info.Date, "unknown")
	return info
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// String returns one line for people:
// "0.1.0 (commit 599c6c8, 2026-12-01T16:00:00Z, go1.26.0)".
func (i Info) String() string {
	short, dirty, _ := strings.Cut(i.Commit, "+")
	if len(short) > 12 {
		short = short[:12]
	}
	if dirty != "" {
		short += "+" + dirty
	}
	return fmt.Sprintf("%s (commit %s, %s, %s)", i.Version, short, i.Date, i.Go)
}
