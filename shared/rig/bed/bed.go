// Package bed boots a real systemd, with D-Bus and polkit, in a container of its
// own, so that units, their hardening and their permissions are tried by what
// will judge them in earnest. Nothing of the machine is changed: the container
// sees its /usr, with a tree of files laid over it, and has an empty /etc and
// /var that vanish with it.
//
//	if err := bed.Possible(); err != nil { ... }
//	b, err := bed.Boot(ctx, bed.Options{Tree: destdir})
//	defer b.Close()
//	err = b.Write("/etc/spillway/collector.yaml", text)
//	out, err := b.Run(ctx, "systemctl", "start", "spillway.target")
//
// The container shares the network of the machine: stand-ins of the test are
// reached from inside, and what listens inside is reached from the test.
package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"spillway/shared/rig/proc"
)

// Possible tells why no bed can be booted here, or nil.
func Possible() error {
	if os.Geteuid() != 0 {
		return errors.New("booting a systemd takes root")
	}
	for _, program := range []string{"systemd-nspawn", "nsenter", "/usr/lib/systemd/systemd", "dbus-daemon", "/usr/lib/polkit-1/polkitd"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w (Debian: apt-get install systemd systemd-container dbus polkitd)", err)
		}
	}
	return nil
}

// Options of a bed.
type Options struct {
	// Tree is a directory whose usr/ is laid over the machine's, as `make install
	// DESTDIR=Tree` leaves it. Empty: the machine's /usr alone.
	Tree string
}

// Bed is a booted systemd. It is safe for concurrent use, except for Close.
type Bed struct {
	nspawn *exec.Cmd
	ended  chan struct{} // closed when nspawn has ended
	output *output
	groups []string
	leader int // the pid here of the systemd in there
}

var booted atomic.Int64

// Boot boots a systemd and returns when it answers and has nothing left to start.
// What it runs ends with Close, or with this program.
func Boot(ctx context.Context, o Options) (*Bed, error) {
	if err := Possible(); err != nil {
		return nil, fmt.Errorf("boot a systemd: %w", err)
	}
	name := fmt.Sprintf("bed-%d-%d", os.Getpid(), booted.Add(1))
	groups, err := makeGroups(name)
	if err != nil {
		return nil, fmt.Errorf("boot a systemd: %w", err)
	}
	b := &Bed{ended: make(chan struct{}), output: &output{}, groups: groups}
	args := []string{
		"--quiet", "--directory=/", "--volatile=yes", "--boot", "--register=no", "--keep-unit",
		"--console=pipe", "--machine=" + name, "--link-journal=no",
	}
	if o.Tree != "" {
		tree := strings.ReplaceAll(filepath.Join(o.Tree, "usr"), ":", `\:`)
		args = append(args, "--overlay-ro=/usr:"+tree+":/usr")
	}
	args = append(args,
		"systemd.unit=basic.target", "systemd.mask=systemd-firstboot.service",
		// Not ours to start, and in the way of a container where they are installed.
		"systemd.mask=docker.socket", "systemd.mask=timers.target")
	b.nspawn = inGroups(groups, "systemd-nspawn", args)
	b.nspawn.Stdout, b.nspawn.Stderr = b.output, b.output
	if err := b.start(); err != nil {
		return nil, fmt.Errorf("boot a systemd: %w", errors.Join(err, removeGroups(groups)))
	}
	if err := b.wait(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("boot a systemd: %w\n%s", err, b.output), b.Close())
	}
	return b, nil
}

// start starts nspawn on a thread that lives as long as nspawn does: the kernel
// takes the end of the thread for the death of the parent. SIGTERM lets nspawn
// shut its systemd down; killed, it would leave it behind.
func (b *Bed) start() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(b.ended)
		b.nspawn.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		err := b.nspawn.Start()
		started <- err
		if err == nil {
			_ = b.nspawn.Wait()
		}
	}()
	return <-started
}

// wait waits until systemd runs and has no jobs left.
func (b *Bed) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return proc.Until(ctx, func() error {
		select {
		case <-b.ended:
			return proc.Final(fmt.Errorf("systemd-nspawn: %v", b.nspawn.ProcessState))
		default:
		}
		leader, err := leaderOf(b.nspawn.Process.Pid)
		if err != nil {
			return err
		}
		b.leader = leader
		// Exit code 1 goes with every state but running.
		out, err := b.Run(ctx, "systemctl", "is-system-running")
		if state := strings.TrimSpace(out); state != "running" && state != "degraded" {
			return fmt.Errorf("systemd is %q: %w", state, err)
		}
		return nil
	})
}

// leaderOf returns the child of nspawn that is process 1 of the container.
func leaderOf(nspawn int) (int, error) {
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", nspawn))
	if err != nil {
		return 0, err
	}
	for _, file := range children {
		list, err := os.ReadFile(file)
		if err != nil {
			continue // that thread is gone
		}
		for field := range strings.FieldsSeq(string(list)) {
			status, err := os.ReadFile("/proc/" + field + "/status")
			if err != nil || !bytes.HasPrefix(status, []byte("Name:\tsystemd\n")) || !inner(status) {
				continue
			}
			return strconv.Atoi(field)
		}
	}
	return 0, errors.New("systemd-nspawn has not started a systemd yet")
}

// inner tells whether /proc/PID/status is of a process 1 in a pid namespace.
func inner(status []byte) bool {
	for line := range bytes.Lines(status) {
		if ids, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			fields := bytes.Fields(ids)
			return len(fields) > 1 && string(fields[len(fields)-1]) == "1"
		}
	}
	return false
}

// Close shuts the systemd down, in order if it can be done within 20 seconds,
// and removes what is left of it.
func (b *Bed) Close() error {
	select {
	case <-b.ended:
		return removeGroups(b.groups)
	default:
	}
	var late error
	_ = b.nspawn.Process.Signal(syscall.SIGTERM)
	select {
	case <-b.ended:
	case <-time.After(20 * time.Second):
		late = errors.New("shut the systemd down: it took longer than 20s and was killed")
		if leader, err := leaderOf(b.nspawn.Process.Pid); err == nil {
			_ = syscall.Kill(leader, syscall.SIGKILL) // takes its whole namespace along
		}
		_ = b.nspawn.Process.Kill()
		<-b.ended
	}
	return errors.Join(late, removeGroups(b.groups))
}
