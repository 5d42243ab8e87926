// Package process looks at one process of this box through /proc and sends
// signals to it through a pidfd, so that a pid that was reused is never
// mistaken for the process that had it before.
//
// A process is proven when its pid is of our own pid namespace and the start
// time in /proc is the one it reported of itself. Only then is a signal sent,
// and SIGUSR1 only to a process that catches it: its default is to kill.
package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Identity says which process is meant.
type Identity struct {
	PID        int
	StartTicks uint64 // field 22 of /proc/PID/stat
	Namespace  uint64 // inode of /proc/PID/ns/pid
}

// The reasons why a process cannot be proven to be the one that is meant.
var (
	ErrUnknown          = errors.New("the collector has not said which process it is")
	ErrForeignNamespace = errors.New("the process lives in another pid namespace, its pid means nothing here")
	ErrGone             = errors.New("the process is gone")
	ErrReused           = errors.New("the pid belongs to another process now")
)

// Stat is one look at a process.
type Stat struct {
	State      byte   // R, S, D, T (stopped), Z (dead, not reaped), ...
	StartTicks uint64 // clock ticks since boot
	CPUTicks   uint64 // user and system time spent so far
	// Dying says that it is killed but a thread of it lives, as one does that
	// hangs in the kernel on a disk. It holds its files and locks until then.
	Dying bool
}

// Look reads /proc/PID/stat. It returns ErrGone when there is no such process.
func Look(pid int) (Stat, error) {
	if pid <= 0 {
		return Stat{}, ErrGone
	}
	stat, err := readStat(procFile(pid, "stat"))
	if err != nil && !errors.Is(err, ErrGone) {
		err = fmt.Errorf("look at process %d: %w", pid, err)
	}
	if err == nil && stat.dead() {
		stat.Dying = anyThreadLives(pid)
	}
	return stat, err
}

func (s Stat) dead() bool { return s.State == 'Z' || s.State == 'X' }

// anyThreadLives looks at the threads of a process: its own state in /proc is
// that of the first thread alone.
func anyThreadLives(pid int) bool {
	threads, err := os.ReadDir(procFile(pid, "task"))
	if err != nil {
		return false // it has just gone
	}
	for _, t := range threads {
		stat, err := readStat(procFile(pid, "task/"+t.Name()+"/stat"))
		if err == nil && !stat.dead() {
			return true
		}
	}
	return false
}

func readStat(path string) (Stat, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return Stat{}, ErrGone
	}
	if err != nil {
		return Stat{}, err
	}
	return parseStat(string(data))
}

// parseStat reads the fields behind the command name, which stands in brackets
// and may itself hold spaces and brackets: counting starts behind the last one.
func parseStat(text string) (Stat, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const state, userTime, systemTime, start = 0, 11, 12, 19 // fields 3, 14, 15, 22 of the manual
	if len(fields) <= start || len(fields[state]) != 1 {
		return Stat{}, errors.New("the line has too few fields")
	}
	var ticks [3]uint64
	for i, field := range []int{userTime, systemTime, start} {
		n, err := strconv.ParseUint(fields[field], 10, 64)
		if err != nil {
			return Stat{}, fmt.Errorf("field %d is %q, want a number", field+3, fields[field])
		}
		ticks[i] = n
	}
	return Stat{State: fields[state][0], CPUTicks: ticks[0] + ticks[1], StartTicks: ticks[2]}, nil
}

// Namespace returns the inode of the pid namespace that pids given to this
// package are meant in: the caller's own.
func Namespace() (uint64, error) {
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &st); err != nil {
		return 0, fmt.Errorf("read own pid namespace: %w", err)
	}
	return st.Ino, nil
}

// Self is the identity of the calling process.
func Self() (Identity, error) {
	stat, err := Look(os.Getpid())
	if err != nil {
		return Identity{}, err
	}
	ns, err := Namespace()
	return Identity{PID: os.Getpid(), StartTicks: stat.StartTicks, Namespace: ns}, err
}

// Check tells whether id is alive and the process that is meant. It returns nil,
// or an error that is one of the reasons above, or that /proc cannot be read.
// A zombie is gone: it will never serve again. One that is still dying is not.
func (id Identity) Check() (Stat, error) {
	if id.PID <= 0 || id.StartTicks == 0 || id.Namespace == 0 {
		return Stat{}, ErrUnknown
	}
	ns, err := Namespace()
	if err != nil {
		return Stat{}, err
	}
	if ns != id.Namespace {
		return Stat{}, ErrForeignNamespace
	}
	stat, err := Look(id.PID)
	switch {
	case err != nil:
		return stat, err
	case stat.StartTicks != id.StartTicks:
		return stat, ErrReused
	case stat.dead() && !stat.Dying:
		return stat, ErrGone
	}
	return stat, nil
}

func procFile(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}
