package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestVolatile_knowsWhatIsNoDisk(t *testing.T) {
	for magic, want := range map[int64]string{
		unix.TMPFS_MAGIC: "in memory", unix.RAMFS_MAGIC: "in memory", unix.OVERLAYFS_SUPER_MAGIC: "mount a volume",
		unix.EXT4_SUPER_MAGIC: "", unix.XFS_SUPER_MAGIC: "", unix.BTRFS_SUPER_MAGIC: "", unix.NFS_SUPER_MAGIC: "",
	} {
		if got := volatileType(magic); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%#x: %q, want %q", magic, got, want)
		}
	}
	// This test's directory is what the system says it is.
	var s unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &s); err != nil {
		t.Fatal(err)
	}
	if got, want := volatile(os.TempDir()), volatileType(int64(s.Type)); got != want {
		t.Errorf("the temporary directory: %q, want %q", got, want)
	}
	if got := volatile(filepath.Join(t.TempDir(), "missing")); got != "" {
		t.Errorf("a directory that is not there: %q", got)
	}
}
