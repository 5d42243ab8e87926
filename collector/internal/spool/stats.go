package spool

import "time"

// Stats is how a log fares. Sizes are in bytes, totals count from Open.
type Stats struct {
	Events   int64     // durable and not acked
	Bytes    int64     // of these with overhead; within segments acked in part an estimate
	OldestAt time.Time // when the oldest of them was received, or a little before; zero if there is none

	LimitBytes   int64 // Append returns ErrFull above; never 0 once the volume is known
	LimitEvents  int64 // the same for events; 0 is no limit
	FreeBytes    int64 // of the volume, a second old at most
	MinFreeBytes int64 // Append returns ErrFull while FreeBytes is less
	DiskBytes    int64 // taken by the log's files
	Segments     int   // files with records
	Spares       int   // emptied files, to be written again

	Appended      uint64 // records
	AppendedBytes uint64
	Groups        uint64 // writes that were synced together
	Read          uint64 // records handed out
	Acked         uint64 // records
	Refused       uint64 // appends refused for want of room

	CorruptRecords    uint64 // damaged, left out
	CorruptBytes      uint64
	TornRecords       uint64 // torn by a crash before anybody was answered for them
	UnreadableRecords uint64 // the disk does not give them back; kept for the next start
	DamagedSegments   uint64 // whole files that could not be used
	MissingSegments   uint64 // places where segments should be and are not
	SetAsideBytes     int64  // in the corrupt directory
	ForeignFiles      int    // in the directory, and not the log's

	WritingFor  time.Duration // how long the group being written has taken so far; 0 if none is: long is a disk that hangs
	Failing     bool          // the last group could not be written, for another reason than room
	DiskErrors  uint64
	LastError   string // of the disk; "" if there was none
	LastErrorAt time.Time
}

// totals is what Stats counts. Guarded by Log.mu.
type totals struct {
	appended, appendedBytes, groups, read, acked, refused uint64
	corruptRecords, corruptBytes, torn, unreadable        uint64
	damagedSegments, missing                              uint64
	setAsideBytes                                         int64
	foreign                                               int
	failing                                               bool
	diskErrors                                            uint64
	lastError                                             string
	lastErrorAt                                           time.Time
}

// Stats returns how the log fares. It is cheap and asks the disk nothing.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.totals
	s := Stats{
		Events:   l.events,
		Bytes:    l.bytes,
		OldestAt: l.oldestAt(),

		LimitBytes:   l.limitBytes,
		LimitEvents:  l.cfg.MaxEvents,
		FreeBytes:    l.disk.free,
		MinFreeBytes: int64(l.cfg.MinFreeDisk),
		DiskBytes:    ackSlots*blockSize + t.setAsideBytes,
		Segments:     len(l.segments),
		Spares:       len(l.spares),

		Appended: t.appended, AppendedBytes: t.appendedBytes, Groups: t.groups,
		Read: t.read, Acked: t.acked, Refused: t.refused,

		CorruptRecords: t.corruptRecords, CorruptBytes: t.corruptBytes,
		TornRecords: t.torn, UnreadableRecords: t.unreadable,
		DamagedSegments: t.damagedSegments, MissingSegments: t.missing,
		SetAsideBytes: t.setAsideBytes, ForeignFiles: t.foreign,

		Failing: t.failing, DiskErrors: t.diskErrors,
		LastError: t.lastError, LastErrorAt: t.lastErrorAt,
	}
	if began := l.writing.Load(); began != nil {
		s.WritingFor = time.Since(*began)
	}
	for _, seg := range l.segments {
		s.DiskBytes += seg.size
	}
	for _, sp := range l.spares {
		s.DiskBytes += sp.size
	}
	return s
}

// oldestAt is never later than the truth: where the log does not know it takes
// the time of a record before.
func (l *Log) oldestAt() time.Time {
	low, s := l.low()
	if s == nil {
		return time.Time{}
	}
	at := s.first
	if low == s.base {
		return fromMillis(at)
	}
	if low >= l.readSeq {
		if l.unreadAt != 0 {
			at = l.unreadAt
		}
		return fromMillis(at)
	}
	for _, m := range l.handed {
		if m.seq > low {
			break
		}
		at = max(at, m.at)
	}
	return fromMillis(at)
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
