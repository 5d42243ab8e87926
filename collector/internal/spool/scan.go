package spool

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// readWindow is how much of a segment is read at once.
const readWindow = 256 << 10

// scanner finds the records of one segment in order, and gets past damage. It
// trusts nothing it reads: a record counts only if both its checksums match and
// its seq is one that may come next.
type scanner struct {
	file   io.ReaderAt
	salted uint32

	window []byte // bytes of the file from at on
	at     int64
	failed int64  // offset at which the last error occurred
	torn   uint64 // seq after the last record with a valid header and a damaged body
}

// found is a whole record. Its body is valid until the next call of the scanner.
type found struct {
	header
	offset int64
	body   []byte // key and data
}

// next returns the first whole record at or after off that ends by end and whose
// seq is at least seq and below limit. A found seq above seq means that the
// records between are not there. ok is false when there is none.
func (s *scanner) next(off, end int64, seq, limit uint64) (f found, ok bool, err error) {
	for p := off; p+headerSize <= end; {
		f, whole, err := s.record(p, end)
		if err != nil {
			return found{}, false, err
		}
		valid := f.offset == p && f.seq >= seq && f.seq < limit
		switch {
		case valid && whole:
			return f, true, nil
		case valid: // damaged body: its length holds
			p, s.torn = p+f.size(), f.seq+1
			continue
		}
		// Padding ends at the next block. Only if exactly the record expected
		// stands there were these bytes padding.
		if q := roundUp(p); q > p && q+headerSize <= end {
			f, whole, err := s.record(q, end)
			if err != nil {
				return found{}, false, err
			}
			if f.offset == q && f.seq == seq && seq < limit && whole {
				return f, true, nil
			}
		}
		if p, ok, err = s.search(p+1, end, seq, limit); !ok {
			return found{}, false, err
		}
	}
	return found{}, false, nil
}

// record reads what stands at p. f.offset is p if there is a valid header of a
// record that ends by end; whole says that the body is valid too.
func (s *scanner) record(p, end int64) (f found, whole bool, err error) {
	f.offset = -1
	b, err := s.view(p, headerSize, end)
	if err != nil {
		return f, false, err
	}
	if !f.decode(b, s.salted) || p+f.size() > end {
		return f, false, nil
	}
	if b, err = s.view(p, f.size(), end); err != nil {
		return f, false, err
	}
	f.offset, f.body = p, b[headerSize:]
	return f, crc32.Checksum(f.body, castagnoli) == f.header.body, nil
}

// search returns the first offset from p on at which there is a header that next
// may accept.
func (s *scanner) search(p, end int64, seq, limit uint64) (int64, bool, error) {
	var h header
	for p+headerSize <= end {
		b, err := s.view(p, min(blockSize+headerSize, end-p), end)
		if err != nil {
			return 0, false, err
		}
		for i := 0; i+headerSize <= len(b); i++ {
			// Comparing the seq first leaves few places to check in full.
			if n := binary.LittleEndian.Uint64(b[i+16:]); n-seq < limit-seq &&
				h.decode(b[i:], s.salted) && p+int64(i)+h.size() <= end {
				return p + int64(i), true, nil
			}
		}
		p += int64(len(b)) - headerSize + 1
	}
	return 0, false, nil
}

// afterPadding returns off, or the next block if there are only zeros before it.
func (s *scanner) afterPadding(off, end int64) int64 {
	q := min(roundUp(off), end)
	b, err := s.view(off, q-off, end)
	if err != nil {
		return off
	}
	for _, c := range b {
		if c != 0 {
			return off
		}
	}
	return q
}

// view returns the n bytes at off. It reads ahead, never to end or beyond: there
// the file may still change.
func (s *scanner) view(off, n, end int64) ([]byte, error) {
	if off < s.at || off+n > s.at+int64(len(s.window)) {
		want := min(max(n, readWindow), end-off)
		err := s.load(off, want, n)
		if err != nil && want > n { // perhaps only what lies further on is bad
			err = s.load(off, n, n)
		}
		if err != nil {
			s.failed = off
			return nil, err
		}
	}
	return s.window[off-s.at:][:n], nil
}

func (s *scanner) load(off, want, need int64) error {
	if int64(cap(s.window)) < want || (cap(s.window) > 16*readWindow && want <= readWindow) {
		s.window = make([]byte, max(want, min(2*int64(cap(s.window)), readWindow)))
	}
	s.window, s.at = s.window[:want], off
	n, err := s.file.ReadAt(s.window, off)
	s.window = s.window[:n]
	if int64(n) >= need {
		return nil
	}
	s.window = s.window[:0]
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
