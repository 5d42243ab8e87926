//go:build !race

package spool

const raceDetector = false
