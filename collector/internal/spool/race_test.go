//go:build race

package spool

const raceDetector = true
