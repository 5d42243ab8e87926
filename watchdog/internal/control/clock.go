package control

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spillway/watchdog/internal/decide"
)

// clockStep is from when on a difference between the clocks counts as a step.
const clockStep = 2 * time.Second

// BootClock returns a reader of the box's clocks. Differences are taken from
// CLOCK_BOOTTIME: it counts the time a box was suspended, which Go's own
// monotonic clock does not, and no step of the wall clock moves it.
func BootClock() (func() decide.Clock, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("read the kernel's boot id: %w", err)
	}
	bootID := strings.TrimSpace(string(data))
	if _, err := sinceBoot(); err != nil {
		return nil, err
	}
	return func() decide.Clock {
		since, _ := sinceBoot() // it worked once, and has no way to fail later
		return decide.Clock{BootID: bootID, SinceBoot: since, Wall: time.Now()}
	}, nil
}

func sinceBoot() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("read the boot clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}
