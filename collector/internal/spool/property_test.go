package spool

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"spillway/collector/internal/spool/vfs/vfstest"
)

// TestLog_segmentsEndAnywhere appends so that a segment ends just before, at and
// just behind its limit, alone and within a group.
func TestLog_segmentsEndAnywhere(t *testing.T) {
	room := int(small().SegmentBytes) - dataOffset
	for delta := -2; delta <= 2; delta++ {
		for _, first := range []int{0, 1, 100, 4000, 4096 - headerSize - 5} {
			for _, together := range []bool{true, false} {
				t.Run(fmt.Sprint(delta, first, together), func(t *testing.T) {
					fs := vfstest.New()
					l := memory(t, fs, small())
					a := record(0, first)
					used := headerSize + len(a.Key) + first
					if !together {
						used = int(roundUp(int64(used)))
					}
					size := room - used + delta - headerSize - len("key-1")
					want := []Record{a, record(1, size), record(2, 10)}
					if together {
						if err := l.Append(t.Context(), want); err != nil {
							t.Fatal(err)
						}
					} else {
						appendN(t, l, 0, 1, first)
						appendN(t, l, 1, 1, size)
						appendN(t, l, 2, 1, 10)
					}
					same(t, all(t, l), want)
					l.abort()
					l = memory(t, fs, small())
					same(t, all(t, l), want)
					if s := l.Stats(); s.CorruptRecords+s.TornRecords+s.DamagedSegments > 0 {
						t.Fatalf("stats %+v", s)
					}
				})
			}
		}
	}
}

func TestLog_Append_refusesWhatNoSegmentHolds(t *testing.T) {
	l := memory(t, vfstest.New(), small())
	most := int(small().SegmentBytes) - dataOffset - headerSize - len("key-0")
	appendN(t, l, 0, 1, most)
	err := l.Append(t.Context(), []Record{record(1, 1), record(0, most+1)})
	if err == nil || err.Error() != "record of 8193 bytes is larger than a segment can hold (8192)" {
		t.Fatalf("got %v", err)
	}
	if n := l.Stats().Events; n != 1 {
		t.Fatalf("%d events", n)
	}
}

// TestSegment_acksLikeASet compares the marks of a segment, which grows while it
// is acked, with a plain set.
func TestSegment_acksLikeASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &segment{base: 1000, end: dataOffset}
		set := map[uint64]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"grow": func(t *rapid.T) {
				n := rapid.Uint64Range(1, 200).Draw(t, "n")
				s.grow(s.end+blockSize, s.count+n)
			},
			"ack": func(t *rapid.T) {
				from := rapid.Uint64Range(900, 1000+s.count+10).Draw(t, "from")
				to := from + rapid.Uint64Range(0, 300).Draw(t, "n")
				fresh := uint64(0)
				for seq := from; seq < to; seq++ {
					if seq >= 1000 && seq < s.limit() && !set[seq] {
						set[seq] = true
						fresh++
					}
				}
				if got := s.ack(from, to); got != fresh {
					t.Fatalf("ack(%d, %d) = %d, want %d", from, to, got, fresh)
				}
			},
			"": func(t *rapid.T) {
				low, found := s.limit(), false
				for seq := s.base; seq < s.limit(); seq++ {
					if s.isAcked(seq) != set[seq] {
						t.Fatalf("isAcked(%d) = %v", seq, !set[seq])
					}
					if !set[seq] && !found {
						low, found = seq, true
					}
				}
				if s.low() != low || s.acked != uint64(len(set)) {
					t.Fatalf("low %d, want %d; %d acked, want %d", s.low(), low, s.acked, len(set))
				}
				var runs, want []span
				for seq := s.base; seq < s.limit(); {
					from, to := s.run(seq)
					if from < to {
						runs = append(runs, span{from, to})
					}
					seq = max(to, from)
				}
				for seq := s.base; seq < s.limit(); seq++ {
					if n := len(want); set[seq] && n > 0 && want[n-1].to == seq {
						want[n-1].to++
					} else if set[seq] {
						want = append(want, span{seq, seq + 1})
					}
				}
				if !slices.Equal(runs, want) {
					t.Fatalf("runs %v, want %v", runs, want)
				}
				if n := s.unacked(0, 1<<40); n != s.count-s.acked {
					t.Fatalf("unacked %d of %d, %d acked", n, s.count, s.acked)
				}
			},
		})
	})
}

// TestLog_moreHolesThanASlotHolds acks every other record of many: what is not
// saved is delivered again, and nothing else goes wrong.
func TestLog_moreHolesThanASlotHolds(t *testing.T) {
	fs := vfstest.New()
	cfg := small()
	cfg.SegmentBytes = 1 << 20
	l := memory(t, fs, cfg)
	var want []Record
	for i := range 2000 {
		want = append(want, record(i, 10))
	}
	if err := l.Append(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	got := all(t, l)
	for i := 0; i < len(got); i += 2 {
		l.Ack(got[i].Seq)
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	l.abort()
	l = memory(t, fs, cfg)
	again := all(t, l)
	if n := len(again); n != 2000-maxSpans-1 {
		t.Fatalf("%d records again, want %d", n, 2000-maxSpans-1)
	}
	l.Ack(seqs(again)...)
	if err := l.Sync(); err != nil || l.Stats().Events != 0 {
		t.Fatalf("%v, stats %+v", err, l.Stats())
	}
}
