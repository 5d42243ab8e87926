// Package trackers tests the collector with the trackers that people use: those
// of Snowplow for Node, for browsers (in a real browser) and for Python, each
// driven by a small program beside this file. What the trackers report is held
// against the records that arrive, and against what this package knows that it
// asked them to track.
//
// `make trackers` installs them. Where one is missing its test is skipped, and
// fails with SPILLWAY_NO_SKIP=1. The tests name what each tracker makes of a
// refusal; docs/trackers.md says it in words.
package trackers
