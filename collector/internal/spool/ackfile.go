package spool

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"spillway/collector/internal/spool/vfs"
)

// ackState is which records were acked: all below low, and those in the spans.
type ackState struct {
	low   uint64
	spans []span // ascending, disjoint, above low; at most maxSpans
}

// span is the seqs from from up to before to.
type span struct{ from, to uint64 }

// covers says whether all records from from up to before to were acked.
func (a *ackState) covers(from, to uint64) bool {
	if to <= a.low {
		return true
	}
	for _, s := range a.spans {
		if s.from <= max(from, a.low) && to <= s.to {
			return true
		}
	}
	return false
}

var ackMagic = []byte("SPILLACK")

const (
	ackSlots = 2
	ackCRC   = blockSize - 4
	maxSpans = (ackCRC - 32) / 16
)

// encode writes a slot:
//
//	0  magic      8 version   12 number of spans
//	16 generation 24 low      32 spans, from and to
//	4092 checksum of all before it
func (a *ackState) encode(slot []byte, generation uint64) {
	clear(slot)
	le := binary.LittleEndian
	copy(slot, ackMagic)
	le.PutUint32(slot[8:], formatVersion)
	le.PutUint32(slot[12:], uint32(len(a.spans)))
	le.PutUint64(slot[16:], generation)
	le.PutUint64(slot[24:], a.low)
	for i, s := range a.spans {
		le.PutUint64(slot[32+16*i:], s.from)
		le.PutUint64(slot[40+16*i:], s.to)
	}
	le.PutUint32(slot[ackCRC:], crc32.Checksum(slot[:ackCRC], castagnoli))
}

// decode reads a slot. A slot that is not whole has generation 0.
func (a *ackState) decode(slot []byte) (generation uint64, version uint32) {
	le := binary.LittleEndian
	if len(slot) < blockSize || !bytes.Equal(slot[:8], ackMagic) ||
		le.Uint32(slot[ackCRC:]) != crc32.Checksum(slot[:ackCRC], castagnoli) {
		return 0, 0
	}
	version = le.Uint32(slot[8:])
	n := int(le.Uint32(slot[12:]))
	if version != formatVersion || n > maxSpans {
		return 0, version
	}
	*a = ackState{low: le.Uint64(slot[24:])}
	last := a.low
	for i := range n {
		s := span{le.Uint64(slot[32+16*i:]), le.Uint64(slot[40+16*i:])}
		if s.from < last || s.to <= s.from {
			return 0, version
		}
		a.spans, last = append(a.spans, s), s.to
	}
	return le.Uint64(slot[16:]), version
}

// ackFile keeps the last two ack states in two slots that are written in turn,
// in place: saving one needs no room on the disk, and a write that is torn
// leaves the one before.
type ackFile struct {
	fs         vfs.FS
	file       vfs.File // nil until made
	generation uint64   // of the last state saved
	slot       [blockSize]byte
}

// load returns the newest state that is whole; found is false if there is none.
func (f *ackFile) load() (state ackState, found bool, err error) {
	file, err := f.fs.Open(acksName, true)
	if err != nil {
		return ackState{}, false, err
	}
	whole := 0
	for i := range int64(ackSlots) {
		if n, err := file.ReadAt(f.slot[:], i*blockSize); n < blockSize {
			_ = err // a short or unreadable slot is one that is not whole
			continue
		}
		whole++
		var a ackState
		generation, version := a.decode(f.slot[:])
		if version != 0 && version != formatVersion {
			_ = file.Close()
			return ackState{}, false, &FormatError{File: acksName, Version: version}
		}
		if generation > f.generation {
			state, found, f.generation = a, true, generation
		}
	}
	if whole < ackSlots {
		_ = file.Close() // made anew by the first save
		return state, found, nil
	}
	f.file = file
	return state, found, nil
}

// save makes state durable. After an error the state saved before still is.
func (f *ackFile) save(state *ackState) error {
	state.encode(f.slot[:], f.generation+1)
	var err error
	if f.file != nil {
		// Only the slot that does not hold the last state saved is touched, also
		// when a failed save is tried again.
		if err = f.write(f.file, int64(f.generation+1)%ackSlots); err == nil {
			f.generation++
			return nil
		}
	}
	if err2 := f.remake(); err2 != nil {
		if err == nil {
			err = err2
		}
		return err
	}
	return nil
}

func (f *ackFile) write(file vfs.File, slot int64) error {
	if _, err := file.WriteAt(f.slot[:], slot*blockSize); err != nil {
		return err
	}
	return file.Sync()
}

// remake puts a new file with the state in f.slot in the place of the old.
func (f *ackFile) remake() (err error) {
	const temp = acksName + tempSuffix
	file, err := f.fs.Create(temp)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = f.fs.Remove(temp)
		}
	}()
	// Both slots are written, so that later saves need no new blocks.
	if _, err := file.WriteAt(make([]byte, ackSlots*blockSize), 0); err != nil {
		return err
	}
	if err := f.write(file, int64(f.generation+1)%ackSlots); err != nil {
		return err
	}
	// From here on the old file may no longer be the one with the name: what is
	// saved to it might be saved to nowhere.
	f.close()
	if err := f.fs.Rename(temp, acksName); err != nil {
		return err
	}
	if err := f.fs.SyncDir(); err != nil {
		return err
	}
	f.file = file
	f.generation++
	return nil
}

func (f *ackFile) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}
