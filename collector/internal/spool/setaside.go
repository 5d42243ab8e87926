package spool

import (
	"fmt"
	"time"

	"spillway/collector/internal/spool/vfs"
)

// maxCorruptBytes bounds what is copied to the corrupt directory. Whole files
// that are moved there take no room that they did not take before.
const maxCorruptBytes = 64 << 20

// listCorrupt learns how much was set aside before.
func (l *Log) listCorrupt() {
	entries, err := l.fs.List(corruptDir)
	if err != nil {
		return // mostly: there is none
	}
	for _, e := range entries {
		l.totals.setAsideBytes += e.Size
	}
}

// setAsideFile moves a file that cannot be used out of the way.
func (l *Log) setAsideFile(name, reason string) {
	l.totals.damagedSegments++
	to := fmt.Sprintf("%s/%s-%d", corruptDir, name, time.Now().UnixNano())
	err := l.fs.Mkdir(corruptDir)
	if err == nil {
		err = l.fs.Rename(name, to)
	}
	if err != nil {
		l.log.WithError(err).Errorf("segment %s cannot be used (%s), nor be moved to %s: it is left where it is", name, reason, corruptDir)
		return
	}
	l.log.Errorf("segment %s cannot be used (%s): it was moved to %s", name, reason, to)
}

// setAsideBytes copies damaged bytes of a segment to a file of their own, with a
// note beside it. It does what it can: on a full disk they are only counted.
func (l *Log) setAsideBytes(file vfs.File, number uint64, off, length int64, note string) {
	l.mu.Lock()
	room := maxCorruptBytes - l.totals.setAsideBytes
	l.mu.Unlock()
	if length > room {
		l.log.Warnf("%s holds %d bytes: nothing more is copied there", corruptDir, maxCorruptBytes-room)
		return
	}
	data := make([]byte, length)
	n, _ := file.ReadAt(data, off)
	name := fmt.Sprintf("%s/%012d-%d-%d", corruptDir, number, off, length)
	err := l.fs.Mkdir(corruptDir)
	if err == nil {
		err = l.put(name+".bin", data[:n])
	}
	if err == nil {
		err = l.put(name+".txt", []byte(note+"\n"))
	}
	if err != nil {
		l.log.WithError(err).Warn("the damaged bytes cannot be set aside")
		return
	}
	l.mu.Lock()
	l.totals.setAsideBytes += int64(n)
	l.mu.Unlock()
}

// put writes a small file, and removes it again if that fails half way.
func (l *Log) put(name string, data []byte) error {
	file, err := l.fs.Create(name)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(data, 0)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = l.fs.Remove(name)
	}
	return err
}
