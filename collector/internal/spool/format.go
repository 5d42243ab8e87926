package spool

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// The bytes on disk; docs/spool-format.md is the same in prose. Integers are
// little-endian, checksums CRC-32C, times milliseconds since 1970.

const (
	formatVersion = 1

	// blockSize is the unit a group of records is padded to, so that a block with
	// records that were answered for is never written again.
	blockSize = 4096

	// A segment begins with two label blocks; the second is rewritten when the
	// segment is sealed.
	sealOffset = blockSize
	dataOffset = 2 * blockSize

	labelSize = 128
	labelCRC  = labelSize - 4
)

var (
	segmentMagic = []byte("SPILLSEG")
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
)

// label says what a segment is and, once sealed, what is in it.
type label struct {
	number uint64 // as in the file's name
	base   uint64 // seq of the first record
	prev   uint64 // seq after the last record that was durable when it was made
	salt   uint64 // random; part of every header checksum
	sealed bool
	end    int64  // sealed: offset after the last group
	count  uint64 // sealed: records, the last is base+count-1
	first  int64  // sealed: when the first record was received
}

func (l *label) encode(block []byte) {
	clear(block)
	le := binary.LittleEndian
	copy(block, segmentMagic)
	le.PutUint32(block[8:], formatVersion)
	if l.sealed {
		le.PutUint32(block[12:], 1)
	}
	le.PutUint64(block[16:], l.number)
	le.PutUint64(block[24:], l.base)
	le.PutUint64(block[32:], l.prev)
	le.PutUint64(block[40:], l.salt)
	le.PutUint64(block[48:], uint64(l.end))
	le.PutUint64(block[56:], l.count)
	le.PutUint64(block[64:], uint64(l.first))
	le.PutUint32(block[labelCRC:], crc32.Checksum(block[:labelCRC], castagnoli))
}

// decode reads a label. It returns the version found (0 if the block is no
// label at all) and whether the label is whole and of this version.
func (l *label) decode(block []byte) (version uint32, ok bool) {
	le := binary.LittleEndian
	if len(block) < labelSize || !bytes.Equal(block[:8], segmentMagic) ||
		le.Uint32(block[labelCRC:]) != crc32.Checksum(block[:labelCRC], castagnoli) {
		return 0, false
	}
	version = le.Uint32(block[8:])
	if version != formatVersion {
		return version, false
	}
	*l = label{
		sealed: le.Uint32(block[12:]) == 1,
		number: le.Uint64(block[16:]),
		base:   le.Uint64(block[24:]),
		prev:   le.Uint64(block[32:]),
		salt:   le.Uint64(block[40:]),
		end:    int64(le.Uint64(block[48:])),
		count:  le.Uint64(block[56:]),
		first:  int64(le.Uint64(block[64:])),
	}
	return version, true
}

// A record is a header, the key and the data. The header has its own checksum:
// when only the body is damaged its length can still be trusted, and exactly
// one record is lost.
const (
	headerSize = 32
	maxKey     = 1<<16 - 1

	flagGroupStart = 1 // first record of what was written and synced together
)

// header stands in front of a record:
//
//	0  checksum of the segment's salt and the 28 bytes that follow
//	4  checksum of key and data
//	8  length of data
//	12 length of key (16 bits)
//	14 flags (16 bits)
//	16 seq
//	24 time received
type header struct {
	body  uint32
	data  uint32
	key   uint16
	flags uint16
	seq   uint64
	at    int64
}

// size is what the record takes on disk.
func (h *header) size() int64 { return headerSize + int64(h.key) + int64(h.data) }

// appendRecord appends a record whose header still lacks what place fills in.
func appendRecord(dst []byte, r *Record) []byte {
	le := binary.LittleEndian
	at := len(dst)
	dst = append(dst, make([]byte, headerSize)...)
	dst = append(dst, r.Key...)
	dst = append(dst, r.Data...)
	b := dst[at:]
	le.PutUint32(b[4:], crc32.Checksum(b[headerSize:], castagnoli))
	le.PutUint32(b[8:], uint32(len(r.Data)))
	le.PutUint16(b[12:], uint16(len(r.Key)))
	le.PutUint64(b[24:], uint64(r.At.UnixMilli()))
	return dst
}

// placeRecord completes the header of a record that goes into the segment with
// this salted checksum.
func placeRecord(b []byte, salted uint32, seq uint64, flags uint16) {
	le := binary.LittleEndian
	le.PutUint16(b[14:], flags)
	le.PutUint64(b[16:], seq)
	le.PutUint32(b, crc32.Update(salted, castagnoli, b[4:headerSize]))
}

// encodedSize reads the size of a record from appendRecord.
func encodedSize(b []byte) int64 {
	le := binary.LittleEndian
	return headerSize + int64(le.Uint32(b[8:])) + int64(le.Uint16(b[12:]))
}

// saltChecksum is what every header checksum in a segment starts from. Bytes
// that an earlier use of the file left behind, and headers that a client made up
// inside its data, do not match it.
func saltChecksum(salt uint64) uint32 {
	return crc32.Checksum(binary.LittleEndian.AppendUint64(nil, salt), castagnoli)
}

func (h *header) decode(b []byte, salted uint32) bool {
	le := binary.LittleEndian
	if le.Uint32(b) != crc32.Update(salted, castagnoli, b[4:headerSize]) {
		return false
	}
	*h = header{
		body:  le.Uint32(b[4:]),
		data:  le.Uint32(b[8:]),
		key:   le.Uint16(b[12:]),
		flags: le.Uint16(b[14:]),
		seq:   le.Uint64(b[16:]),
		at:    int64(le.Uint64(b[24:])),
	}
	return true
}

// roundUp returns n rounded up to whole blocks.
func roundUp(n int64) int64 { return (n + blockSize - 1) &^ (blockSize - 1) }
