// Package sinktest is what tests of sinks and of their callers share: Fake, a
// destination in memory that does as a script says, for tests of delivery; and
// the contract that every real sink passes.
package sinktest
