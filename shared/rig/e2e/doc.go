// Package e2e tests the two real programs end to end: built, run as processes
// under a supervisor, loaded as trackers load them, killed, cut off, misused, and
// then held to the one promise: an event that was answered 200 is never lost.
package e2e
