package health

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// Identity names one run of the process, so that a watchdog can tell a new boot
// from an old one and prove that a pid is still the process it means.
type Identity struct {
	Instance      string
	Version       string
	PID           int
	PIDStartTicks uint64 // field 22 of /proc/PID/stat, see proc_pid_stat(5)
	PIDNamespace  uint64 // inode of /proc/self/ns/pid, see pid_namespaces(7)
	BootID        string
	StartedAt     time.Time
}

// Identify describes the calling process. Where /proc does not answer, the
// fields that come from it are zero and a watchdog will not send signals.
func Identify(instance, version string) (Identity, error) {
	boot, err := uuid.NewV7()
	if err != nil {
		return Identity{}, fmt.Errorf("make boot id: %w", err)
	}
	id := Identity{
		Instance: instance, Version: version, PID: os.Getpid(),
		BootID: boot.String(), StartedAt: time.Now(),
	}
	if stat, err := os.ReadFile("/proc/self/stat"); err == nil {
		id.PIDStartTicks = startTicks(string(stat))
	}
	var ns syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &ns); err == nil {
		id.PIDNamespace = ns.Ino
	}
	return id, nil
}

// startTicks reads field 22. The command name in field 2 may hold spaces and
// brackets, so counting starts behind its last closing bracket.
func startTicks(stat string) uint64 {
	_, rest, ok := strings.Cut(stat[strings.LastIndexByte(stat, ')')+1:], " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return ticks
}
