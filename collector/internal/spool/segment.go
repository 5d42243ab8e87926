package spool

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

const (
	segmentSuffix = ".seg"   // a segment; its label was durable before it got this name
	spareSuffix   = ".spare" // an emptied segment, to be written again
	tempSuffix    = ".tmp"   // half made; removed at Open
	acksName      = "acks"
	lockName      = "LOCK"
	corruptDir    = "corrupt"
)

func fileName(number uint64, suffix string) string { return fmt.Sprintf("%012d%s", number, suffix) }

// fileNumber is the reverse of fileName.
func fileNumber(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) < 12 {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil && fileName(number, suffix) == name
}

// segment is what the log knows of one file. Everything but the fixed fields is
// guarded by Log.mu.
type segment struct {
	number, base, prev, salt uint64 // fixed

	size   int64  // of the file
	end    int64  // records lie between dataOffset and here; all of them are durable
	count  uint64 // durable records: base to base+count-1
	first  int64  // when the first was received, ms
	closed bool   // nothing will be added
	spoilt bool   // a write or sync failed, or it is short: not to be written again
	held   bool   // could not be read whole: it stays for the next start

	acked uint64   // how many
	bits  []uint64 // which; nil if none or all are
	clean int      // words of bits before this one are full
}

func (s *segment) name() string  { return fileName(s.number, segmentSuffix) }
func (s *segment) limit() uint64 { return s.base + s.count }

// unackedBytes shares the bytes of the segment out evenly over its records:
// exact for a whole segment, an estimate within one.
func (s *segment) unackedBytes() int64 {
	if s.count == 0 {
		return 0
	}
	return (s.end - dataOffset) * int64(s.count-s.acked) / int64(s.count)
}

func (s *segment) isAcked(seq uint64) bool {
	if s.acked == s.count {
		return true
	}
	i := seq - s.base
	return i/64 < uint64(len(s.bits)) && s.bits[i/64]&(1<<(i%64)) != 0
}

// ack marks the records from from up to before to and returns how many of them
// were not marked before.
func (s *segment) ack(from, to uint64) uint64 {
	from, to = max(from, s.base), min(to, s.limit())
	if from >= to || s.acked == s.count {
		return 0
	}
	if from == s.base && to == s.limit() {
		fresh := s.count - s.acked
		s.acked, s.bits, s.clean = s.count, nil, 0
		return fresh
	}
	if need := int(s.count+63) / 64; need > len(s.bits) {
		s.bits = append(s.bits, make([]uint64, need-len(s.bits))...)
	}
	var fresh uint64
	for i := from - s.base; i < to-s.base; {
		word, bit := i/64, i%64
		n := min(64-bit, to-s.base-i)
		mask := ^uint64(0) >> (64 - n) << bit
		fresh += uint64(bits.OnesCount64(mask &^ s.bits[word]))
		s.bits[word] |= mask
		i += n
	}
	s.acked += fresh
	if s.acked == s.count && s.closed {
		s.bits, s.clean = nil, 0
	}
	return fresh
}

// grow adds durable records. Marks of a segment that was acked whole up to now
// have to be spelt out, or the new ones would seem to be acked.
func (s *segment) grow(end int64, count uint64) {
	if s.acked == s.count && s.count > 0 && len(s.bits) < int(s.count+63)/64 {
		acked := s.acked
		s.acked, s.bits = 0, nil
		s.bits = make([]uint64, (acked+63)/64)
		for i := range s.bits {
			s.bits[i] = ^uint64(0)
		}
		if rest := acked % 64; rest != 0 {
			s.bits[len(s.bits)-1] = 1<<rest - 1
		}
		s.acked = acked
	}
	s.end, s.count = end, count
}

// low returns the first seq that is not acked, or limit() if all are.
func (s *segment) low() uint64 {
	if s.acked == s.count {
		return s.limit()
	}
	for s.clean < len(s.bits) && s.bits[s.clean] == ^uint64(0) {
		s.clean++
	}
	i := uint64(s.clean) * 64
	if s.clean < len(s.bits) {
		i += uint64(bits.TrailingZeros64(^s.bits[s.clean]))
	}
	return s.base + i
}

// run returns the next run of acked records at or after seq, from up to before
// to; from is limit() if there is none.
func (s *segment) run(seq uint64) (from, to uint64) {
	seq = max(seq, s.base)
	for from = seq; from < s.limit() && !s.isAcked(from); from++ {
		if i := from - s.base; i%64 == 0 && i/64 < uint64(len(s.bits)) && s.bits[i/64] == 0 {
			from += 63 // a whole word of none
		} else if i/64 >= uint64(len(s.bits)) {
			return s.limit(), s.limit()
		}
	}
	if from >= s.limit() {
		return s.limit(), s.limit()
	}
	if s.acked == s.count {
		return from, s.limit()
	}
	for to = from; to < s.limit() && s.isAcked(to); to++ {
		if i := to - s.base; i%64 == 0 && i/64 < uint64(len(s.bits)) && s.bits[i/64] == ^uint64(0) {
			to += 63
		}
	}
	return from, min(to, s.limit())
}

// unacked returns how many records from from up to before to are not acked.
func (s *segment) unacked(from, to uint64) uint64 {
	var n uint64
	for seq := max(from, s.base); seq < min(to, s.limit()); seq++ {
		if !s.isAcked(seq) {
			n++
		}
	}
	return n
}
