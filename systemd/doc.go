// Package systemd holds the units, users and permissions with which both programs
// run under systemd, and the tests that boot a real systemd to try them: that
// they start, restart, fail over and stop as the documentation promises, with no
// more rights than they need.
package systemd
