package app

import "golang.org/x/sys/unix"

// volatile says in words why what is written in a directory does not outlive the
// box or the container; it is empty for a file system that may well be a disk.
func volatile(dir string) string {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return ""
	}
	return volatileType(int64(s.Type))
}

func volatileType(magic int64) string {
	switch magic {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return "is in memory: a reboot, or a crash of the box, loses the events that wait"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "is in the container's own layer: removing the container loses the events that wait; mount a volume there"
	}
	return ""
}
