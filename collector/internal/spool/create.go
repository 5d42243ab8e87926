package spool

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"spillway/collector/internal/spool/vfs"
)

// disk is what is known of the volume.
type disk struct {
	known       bool
	free, total int64
}

// create makes the segment that follows. Its label is durable before the file
// gets a segment's name, and the name before anything is appended: whatever has
// the name of a segment has a label that was once whole.
func (l *Log) create() (*tail, error) {
	c := &l.commit
	number := c.number
	c.number++ // used up even if this fails: the name may be on disk
	l.mu.Lock()
	prev := l.tip
	l.mu.Unlock()
	t := &tail{
		seg: &segment{
			number: number,
			base:   c.next,
			prev:   prev,
			salt:   newSalt(),
			size:   int64(l.cfg.SegmentBytes),
			end:    dataOffset,
		},
		end:   dataOffset,
		fresh: true,
	}
	t.salted = saltChecksum(t.seg.salt)

	file, name, err := l.takeFile(number)
	if err != nil {
		return nil, err
	}
	fail := func(op string, err error) (*tail, error) {
		_ = file.Close()
		_ = l.fs.Remove(name)
		_ = l.fs.Remove(t.seg.name()) // a rename that failed may have been done
		return nil, trouble(op, t.seg.name(), err)
	}
	if _, err := file.WriteAt(t.seg.labels(), 0); err != nil {
		return fail("label segment", err)
	}
	if err := file.Sync(); err != nil {
		return fail("sync label of segment", err)
	}
	if err := l.fs.Rename(name, t.seg.name()); err != nil {
		return fail("name segment", err)
	}
	if err := l.fs.SyncDir(); err != nil {
		return fail("sync name of segment", err)
	}
	t.file = file
	return t, nil
}

// takeFile returns a file of a segment's size: a spare one, or a new one.
func (l *Log) takeFile(number uint64) (vfs.File, string, error) {
	for {
		l.mu.Lock()
		if len(l.spares) == 0 {
			l.mu.Unlock()
			break
		}
		s := l.spares[len(l.spares)-1]
		l.spares = l.spares[:len(l.spares)-1]
		l.mu.Unlock()
		file, err := l.fs.Open(s.name, true)
		if err == nil {
			return file, s.name, nil
		}
		_ = l.fs.Remove(s.name)
	}
	// Asking first spares a full disk the making and removing of a file for every
	// append that is refused.
	if d := l.refreshUsage(); d.known && d.free < int64(l.cfg.MinFreeDisk+l.cfg.SegmentBytes) {
		return nil, "", &FullError{Reason: fmt.Sprintf(
			"the volume has %d bytes free; a new segment needs %s, min_free_disk is %s",
			d.free, l.cfg.SegmentBytes, l.cfg.MinFreeDisk)}
	}
	name := fileName(number, tempSuffix)
	file, err := l.fs.Create(name)
	if err == nil {
		if err = file.Allocate(int64(l.cfg.SegmentBytes)); err == nil {
			return file, name, nil
		}
		_ = file.Close()
	}
	_ = l.fs.Remove(name)
	return nil, "", trouble("create segment", name, err)
}

func newSalt() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// labels returns the two label blocks of a segment that is not sealed.
func (s *segment) labels() []byte {
	blocks := make([]byte, dataOffset)
	l := label{number: s.number, base: s.base, prev: s.prev, salt: s.salt}
	l.encode(blocks[:blockSize])
	l.encode(blocks[sealOffset:])
	return blocks
}

// seal writes down what is in a segment that will not grow, so that Open need not
// scan it, and with trim gives back the room behind its end. It is not synced:
// a seal that is lost costs the next Open a scan.
func (l *Log) seal(t *tail, trim bool) {
	s := t.seg
	block := make([]byte, blockSize)
	(&label{
		number: s.number, base: s.base, prev: s.prev, salt: s.salt,
		sealed: true, end: t.end, count: t.count, first: t.first,
	}).encode(block)
	_, err := t.file.WriteAt(block, sealOffset)
	size := int64(0)
	if trim && err == nil && t.end < s.size {
		if err = t.file.Truncate(t.end); err == nil {
			size = t.end
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if size > 0 {
		s.size, s.spoilt = size, true
	}
	if err != nil {
		l.diskFailed(fmt.Errorf("seal segment %s: %w", s.name(), err))
	}
}

// refreshUsage asks the volume how full it is.
func (l *Log) refreshUsage() disk {
	free, total, err := l.fs.Usage()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.diskFailed(err)
		return l.disk
	}
	l.disk = disk{known: true, free: free, total: total}
	if l.limitBytes = int64(l.cfg.MaxBytes); l.limitBytes == 0 {
		l.limitBytes = total / 5 * 4
	}
	return l.disk
}
