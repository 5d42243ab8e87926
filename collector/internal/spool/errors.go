package spool

import (
	"errors"
	"fmt"
)

// States of a log that a caller acts on.
var (
	// ErrFull: there is no room; the error in hand is a *FullError. Nothing of
	// the Append was kept. The log takes records again, by itself, once records
	// were acked or space is back.
	ErrFull = errors.New("spool full")
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("spool closed")
	// ErrLocked: another process has the directory; the error in hand is a
	// *LockedError.
	ErrLocked = errors.New("spool locked")
	// ErrFormat: the directory was written by another version of the format; the
	// error in hand is a *FormatError.
	ErrFormat = errors.New("spool has another format")
	// ErrTooLarge: a record can never be stored because it is larger than a
	// segment; the error in hand is a *TooLargeError.
	ErrTooLarge = errors.New("record larger than a segment")
)

// FullError says which limit was reached, in words for an operator.
type FullError struct {
	Reason string
}

func (e *FullError) Error() string        { return "spool full: " + e.Reason }
func (e *FullError) Is(target error) bool { return target == ErrFull }

// LockedError names the process that has the directory.
type LockedError struct {
	Dir string
	PID int // 0 if it is not known
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("spool %s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("spool %s is in use by process %d: stop it, or give this one its own directory", e.Dir, e.PID)
}
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// FormatError says which file has which version of the format.
type FormatError struct {
	File    string
	Version uint32
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has format version %d, this program reads version %d: "+
		"run the version that wrote it until the spool is empty, or move the directory away", e.File, e.Version, formatVersion)
}
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

// TooLargeError says how large a record was and how large it may be, in bytes.
type TooLargeError struct {
	Bytes, MaxBytes int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("record of %d bytes is larger than a segment can hold (%d)", e.Bytes, e.MaxBytes)
}
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// DiskError says what the disk refused to do. Records of an Append that
// returned it are not delivered while this process lives; after a restart they
// may be found and delivered.
type DiskError struct {
	Op   string // what was tried: "write", "sync", "create segment", "read"
	File string
	Err  error
}

func (e *DiskError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.File, e.Err) }
func (e *DiskError) Unwrap() error { return e.Err }
