package app

import "golang.org/x/sys/unix"

// monotonicMicros is CLOCK_MONOTONIC in microseconds, as sd_notify(3) wants it
// with RELOADING=1.
func monotonicMicros() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano() / 1000
}
