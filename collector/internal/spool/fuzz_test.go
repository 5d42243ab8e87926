package spool

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/collector/internal/spool/vfs/vfstest"
)

// FuzzScanner reads any bytes as records. To get past the checksums the first
// byte says how many places in the rest to mend into valid headers.
func FuzzScanner(f *testing.F) {
	salted := saltChecksum(42)
	var good []byte
	for i := range 5 {
		at := len(good)
		r := record(i, 100*i)
		good = appendRecord(good, &r)
		placeRecord(good[at:], salted, uint64(100+i), 0)
	}
	f.Add([]byte{}, uint8(0), uint16(0))
	f.Add(good, uint8(0), uint16(0))
	f.Add(append(make([]byte, 5000), good...), uint8(0), uint16(0))
	f.Add(bytes.Repeat([]byte{0xff}, 9000), uint8(3), uint16(1000))
	f.Fuzz(func(t *testing.T, data []byte, mend uint8, step uint16) {
		for i, at := 0, 0; i < int(mend) && at+headerSize <= len(data); i++ {
			placeRecord(data[at:], salted, uint64(100+2*i), uint16(i))
			at += headerSize + int(step)
		}
		scan := scanner{file: bytes.NewReader(data), salted: salted}
		const base, limit = 100, 1 << 20
		off, seq, end := int64(0), uint64(base), int64(len(data))
		for {
			f, ok, err := scan.next(off, end, seq, limit)
			if err != nil {
				t.Fatalf("error without a disk: %v", err)
			}
			if !ok {
				break
			}
			if f.offset < off || f.seq < seq || f.seq >= limit || f.offset+f.size() > end {
				t.Fatalf("found %+v at %d, looking from %d for %d", f.header, f.offset, off, seq)
			}
			if crc32.Checksum(f.body, castagnoli) != f.header.body || int64(len(f.body)) != f.size()-headerSize {
				t.Fatalf("found a record that is not whole: %+v", f.header)
			}
			off, seq = f.offset+f.size(), f.seq+1
		}
	})
}

// FuzzAckSlot decodes any bytes, with a valid checksum, and compares what comes
// out with what that encodes to.
func FuzzAckSlot(f *testing.F) {
	slot := make([]byte, blockSize)
	(&ackState{low: 7, spans: []span{{9, 12}, {40, 41}}}).encode(slot, 3)
	f.Add(bytes.Clone(slot))
	(&ackState{}).encode(slot, 1)
	f.Add(bytes.Clone(slot))
	f.Add([]byte("SPILLACK\x01\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		slot := make([]byte, blockSize)
		copy(slot, data)
		binary.LittleEndian.PutUint32(slot[ackCRC:], crc32.Checksum(slot[:ackCRC], castagnoli))
		var a ackState
		generation, version := a.decode(slot)
		if generation == 0 {
			return
		}
		if version != formatVersion || len(a.spans) > maxSpans {
			t.Fatalf("accepted version %d with %d spans", version, len(a.spans))
		}
		last := a.low
		for _, s := range a.spans {
			if s.from < last || s.to <= s.from || !a.covers(s.from, s.to) {
				t.Fatalf("accepted span %+v after %d", s, last)
			}
			last = s.to
		}
		again := make([]byte, blockSize)
		a.encode(again, generation)
		var b ackState
		if g, _ := b.decode(again); g != generation || !cmp.Equal(a, b, cmp.AllowUnexported(ackState{}, span{})) {
			t.Fatalf("%+v became %+v", a, b)
		}
	})
}

// FuzzOpen opens a directory of any bytes.
func FuzzOpen(f *testing.F) {
	fs := vfstest.New()
	l, err := open("mem", small(), Options{FS: fs})
	if err != nil {
		f.Fatal(err)
	}
	l.wait.Go(l.commitLoop)
	appendN(f, l, 0, 3, 1000)
	l.abort()
	f.Add(fs.Content(first), fs.Content(acksName), fs.Content(first)[sealOffset:])
	f.Add([]byte("SPILLSEG"), []byte{}, []byte(nil))
	f.Fuzz(func(t *testing.T, segment, acks, other []byte) {
		fs := vfstest.New()
		for i, content := range [][]byte{segment, other} {
			// With a whole label more of the rest is looked at.
			if len(content) > dataOffset && content[0] < 128 {
				s := segmentOf(uint64(i))
				copy(content, s.labels())
			}
		}
		fs.Put(first, segment)
		fs.Put(second, other)
		fs.Put(acksName, acks)
		l, err := open("mem", small(), Options{FS: fs})
		if err != nil {
			return // of another format
		}
		l.wait.Go(l.commitLoop)
		defer l.abort()
		n := len(all(t, l))
		if s := l.Stats(); s.Events < int64(n) || s.Bytes < 0 || s.OldestAt.IsZero() != (s.Events == 0) {
			t.Fatalf("%d records, stats %+v", n, s)
		}
		appendN(t, l, 50, 1, 10)
		if got := all(t, l); len(got) != 1 || got[0].Key != "key-50" {
			t.Fatalf("the log does not go on: %v", got)
		}
	})
}

func segmentOf(number uint64) *segment {
	return &segment{number: number, base: 100 + 1000*number, prev: 100, salt: 42}
}

func TestLabel_roundTripAndDamage(t *testing.T) {
	want := label{number: 3, base: 1 << 41, prev: 1 << 40, salt: 99, sealed: true, end: 40960, count: 12, first: -5}
	block := make([]byte, blockSize)
	want.encode(block)
	var got label
	if version, ok := got.decode(block); !ok || version != formatVersion || got != want {
		t.Fatalf("got %+v, %v", got, ok)
	}
	for i := range labelSize * 8 {
		damaged := slices.Clone(block)
		damaged[i/8] ^= 1 << (i % 8)
		if _, ok := got.decode(damaged); ok {
			t.Fatalf("bit %d flipped and nobody noticed", i)
		}
	}
}
