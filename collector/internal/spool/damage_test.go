package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"spillway/collector/internal/spool/vfs/vfstest"
)

// memory opens a log on a file system in memory. Acks are saved by Sync and
// Close only.
func memory(t testing.TB, fs *vfstest.FS, cfg Config) *Log {
	t.Helper()
	l, err := open("mem", cfg, Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	l.wait.Go(l.commitLoop)
	t.Cleanup(l.abort)
	return l
}

// all returns what can be read now.
func all(t testing.TB, l *Log) []Record {
	t.Helper()
	var got []Record
	for {
		records, err := l.collect(100, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 {
			return got
		}
		got = append(got, records...)
	}
}

const (
	first  = "000000000000.seg"
	second = "000000000001.seg"
	third  = "000000000002.seg"
)

func TestOpen_worksAroundDamage(t *testing.T) {
	// Three segments of two records, each record in a block of its own; the third
	// is still open when the process dies.
	block := func(i int) int { return dataOffset + i*blockSize }
	tests := []struct {
		name    string
		damage  func(fs *vfstest.FS)
		lost    []int // indexes of records
		corrupt uint64
		torn    uint64
		whole   uint64 // damaged segments
		missing uint64
		aside   string // what is set aside has this in its name
	}{
		{name: "none", damage: func(*vfstest.FS) {}},
		{
			name:   "garbled bytes in a record",
			damage: func(fs *vfstest.FS) { garble(fs, first, block(1)+100, 64) },
			lost:   []int{1}, corrupt: 1, aside: "000000000000-12288-",
		},
		{
			name:   "garbled header",
			damage: func(fs *vfstest.FS) { garble(fs, first, block(0), 16) },
			lost:   []int{0}, corrupt: 1, aside: "000000000000-8192-",
		},
		{
			name:   "zeroed block",
			damage: func(fs *vfstest.FS) { patch(fs, first, block(1), make([]byte, blockSize)) },
			lost:   []int{1}, corrupt: 1, aside: "corrupt/",
		},
		{
			name:   "second half of a segment zeroed",
			damage: func(fs *vfstest.FS) { patch(fs, second, block(1), make([]byte, blockSize)) },
			lost:   []int{3}, corrupt: 1, aside: "corrupt/",
		},
		{
			name:   "absurd length, valid nowhere",
			damage: func(fs *vfstest.FS) { patch(fs, first, block(0)+8, bytes.Repeat([]byte{0xff}, 8)) },
			lost:   []int{0}, corrupt: 1, aside: "corrupt/",
		},
		{
			name:   "seal garbled",
			damage: func(fs *vfstest.FS) { garble(fs, first, sealOffset, 200) },
		},
		{
			name:   "label garbled, seal whole",
			damage: func(fs *vfstest.FS) { garble(fs, first, 0, 200) },
		},
		{
			name:   "label and seal garbled",
			damage: func(fs *vfstest.FS) { garble(fs, second, 0, dataOffset) },
			lost:   []int{2, 3}, whole: 1, missing: 1, aside: "corrupt/" + second,
		},
		{
			name:   "segment emptied",
			damage: func(fs *vfstest.FS) { fs.Put(second, []byte{}) },
			lost:   []int{2, 3}, whole: 1, missing: 1,
		},
		{
			name:   "segment gone",
			damage: func(fs *vfstest.FS) { fs.Put(second, nil) },
			lost:   []int{2, 3}, missing: 1,
		},
		{
			name:   "segment cut short",
			damage: func(fs *vfstest.FS) { fs.Put(second, fs.Content(second)[:block(1)]) },
			lost:   []int{3}, corrupt: 1,
		},
		{
			name:   "segment has another's name",
			damage: func(fs *vfstest.FS) { fs.Put("000000000009.seg", fs.Content(first)) },
			whole:  1, aside: "corrupt/000000000009.seg",
		},
		{
			name: "segment of nothing but noise",
			damage: func(fs *vfstest.FS) {
				fs.Put("000000000007.seg", bytes.Repeat([]byte("noise "), 5000))
			},
			whole: 1, aside: "corrupt/000000000007.seg",
		},
		{
			name:   "open segment: garbled before later groups",
			damage: func(fs *vfstest.FS) { garble(fs, third, block(0)+50, 64) },
			lost:   []int{4}, corrupt: 1, aside: "corrupt/",
		},
		{
			name:   "open segment: garbled last group counts as torn",
			damage: func(fs *vfstest.FS) { garble(fs, third, block(1)+50, 64) },
			lost:   []int{5}, torn: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fs := vfstest.New()
			l := memory(t, fs, small())
			want := appendN(t, l, 0, 6, 3000)
			l.abort()
			if names := fs.Names(); len(names) != 4 || !strings.HasPrefix(names[2], third) {
				t.Fatalf("not three segments: %v", names)
			}
			tt.damage(fs)

			l = memory(t, fs, small())
			got := all(t, l)
			var left []Record
			for i, r := range want {
				if !slices.Contains(tt.lost, i) {
					left = append(left, r)
				}
			}
			same(t, got, left)
			s := l.Stats()
			if s.CorruptRecords != tt.corrupt || s.TornRecords != tt.torn || s.DamagedSegments != tt.whole || s.MissingSegments != tt.missing {
				t.Errorf("stats %+v", s)
			}
			if names := strings.Join(fs.Names(), "\n"); tt.aside != "" && !strings.Contains(names, tt.aside) {
				t.Errorf("%q was not set aside:\n%s", tt.aside, names)
			} else if tt.aside == "" && strings.Contains(names, corruptDir) {
				t.Errorf("set aside without need:\n%s", names)
			}

			// The log goes on, and gives everything back in the end.
			more := appendN(t, l, 10, 3, 100)
			same(t, all(t, l), more)
			for _, r := range got {
				l.Ack(r.Seq)
			}
			if err := l.Sync(); err != nil || l.Stats().Events != 3 {
				t.Errorf("after acks: %v, %+v", err, l.Stats())
			}
			l.abort()
			l = memory(t, fs, small())
			same(t, all(t, l), more)
			if s := l.Stats(); s.CorruptRecords+s.DamagedSegments+s.MissingSegments > 0 {
				t.Errorf("reported again: %+v", s)
			}
		})
	}
}

func garble(fs *vfstest.FS, name string, off, n int) {
	b := fs.Content(name)
	for i := range n {
		b[off+i] ^= 0x5a
	}
	fs.Put(name, b)
}

func patch(fs *vfstest.FS, name string, off int, with []byte) {
	b := fs.Content(name)
	copy(b[off:], with)
	fs.Put(name, b)
}

func TestOpen_rebuildsAcksThatAreDamaged(t *testing.T) {
	for name, damage := range map[string]func(fs *vfstest.FS){
		"missing": func(fs *vfstest.FS) { fs.Put(acksName, nil) },
		"empty":   func(fs *vfstest.FS) { fs.Put(acksName, []byte{}) },
		"short":   func(fs *vfstest.FS) { fs.Put(acksName, fs.Content(acksName)[:100]) },
		"zeros":   func(fs *vfstest.FS) { fs.Put(acksName, make([]byte, ackSlots*blockSize)) },
		"garbage": func(fs *vfstest.FS) { garble(fs, acksName, 0, ackSlots*blockSize) },
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfstest.New()
			l := memory(t, fs, small())
			want := appendN(t, l, 0, 4, 500)
			before := seqs(all(t, l))
			l.Ack(before[0], before[2])
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
			l.abort()
			damage(fs)
			l = memory(t, fs, small())
			got := all(t, l)
			same(t, got, want) // again, rather than not at all
			l.Ack(seqs(got)[:3]...)
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
			l.abort()
			l = memory(t, fs, small())
			same(t, all(t, l), want[3:])
		})
	}
}

func TestOpen_oneDamagedAckSlotLeavesTheOther(t *testing.T) {
	for slot := range ackSlots {
		fs := vfstest.New()
		l := memory(t, fs, small())
		appendN(t, l, 0, 4, 500)
		for _, r := range all(t, l) {
			l.Ack(r.Seq)
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		l.abort()
		garble(fs, acksName, slot*blockSize, blockSize)
		l = memory(t, fs, small())
		if n := len(all(t, l)); n > 1 {
			t.Errorf("slot %d damaged: %d records again, want at most the last", slot, n)
		}
	}
}

func TestOpen_refusesAnotherFormat(t *testing.T) {
	newer := func(b []byte, crc int) []byte {
		binary.LittleEndian.PutUint32(b[8:], formatVersion+1)
		binary.LittleEndian.PutUint32(b[crc:], crc32.Checksum(b[:crc], castagnoli))
		return b
	}
	for _, name := range []string{second, acksName} {
		fs := vfstest.New()
		l := memory(t, fs, small())
		appendN(t, l, 0, 10, 1500)
		l.abort()
		fs.Put("000000000077.tmp", []byte("half made"))
		b := fs.Content(name)
		if name == second {
			newer(b, labelCRC)
			newer(b[sealOffset:], labelCRC)
		} else {
			newer(b, ackCRC)
			newer(b[blockSize:], ackCRC)
		}
		fs.Put(name, b)
		before := fs.Names()
		_, err := open("mem", small(), Options{FS: fs})
		f, ok := errors.AsType[*FormatError](err)
		if !ok || !errors.Is(err, ErrFormat) || f.File != name || f.Version != formatVersion+1 || !strings.Contains(err.Error(), "move the directory away") {
			t.Fatalf("got %v", err)
		}
		if after := fs.Names(); !slices.Equal(before, after) {
			t.Fatalf("a directory of another format was changed: %v, was %v", after, before)
		}
		if lock, err := fs.Lock(lockName); err != nil {
			t.Fatalf("the lock was kept: %v", err)
		} else {
			_ = lock.Close()
		}
	}
}

func TestOpen_tidiesItsOwnAndReportsTheRest(t *testing.T) {
	fs := vfstest.New()
	fs.Put("000000000003.tmp", make([]byte, 100))
	fs.Put("acks.tmp", make([]byte, 100))
	fs.Put("000000000001.spare", make([]byte, 16<<10))
	fs.Put("000000000002.spare", make([]byte, 100))
	fs.Put("notes.txt", []byte("mine"))
	fs.Put("5.seg", []byte("not a segment's name"))
	logger, hook := logtest.NewNullLogger()
	l, err := open("mem", small(), Options{FS: fs, Log: logrus.NewEntry(logger)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.abort)
	want := []string{"000000000001.spare (16384)", "5.seg (20)", "acks (8192)", "notes.txt (4)"}
	if got := fs.Names(); !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
	if s := l.Stats(); s.ForeignFiles != 2 || s.Spares != 1 {
		t.Errorf("stats %+v", s)
	}
	said := false
	for _, e := range hook.AllEntries() {
		said = said || strings.Contains(e.Message, "5.seg, notes.txt")
	}
	if !said {
		t.Error("foreign files were not named")
	}
}

func TestLog_Read_isNotDeceivedByRecordsInsideData(t *testing.T) {
	fs := vfstest.New()
	cfg := small()
	cfg.SegmentBytes = 64 << 10
	l := memory(t, fs, cfg)
	appendN(t, l, 0, 1, 10)
	seq := all(t, l)[0].Seq
	// A client that knows everything but the salt sends a record in its data.
	forged := appendRecord(nil, &Record{Key: "forged", Data: []byte("forged")})
	for _, salt := range []uint64{0, 1} {
		placeRecord(forged, saltChecksum(salt), seq+2, 0)
		r := Record{Key: "k", Data: bytes.Repeat(forged, 20)}
		if err := l.Append(t.Context(), []Record{r}); err != nil {
			t.Fatal(err)
		}
	}
	last := record(9, 10)
	if err := l.Append(t.Context(), []Record{last}); err != nil {
		t.Fatal(err)
	}
	l.abort()
	// Its header is damaged, so that the log has to search its data.
	garble(fs, first, dataOffset+blockSize, 8)
	l = memory(t, fs, cfg)
	for _, r := range all(t, l) {
		if strings.HasPrefix(r.Key, "forged") {
			t.Fatalf("a record that was never appended was handed out: %+v", r)
		}
	}
}

func TestLog_Read_leavesOutWhatTheDiskDoesNotGiveBack(t *testing.T) {
	fs := vfstest.New()
	l := memory(t, fs, small())
	want := appendN(t, l, 0, 6, 3000)
	l.abort()
	bad := int64(dataOffset + blockSize) // the second record of the first segment
	fs.ReadErr = func(name string, off int64, length int) error {
		if name == first && off+int64(length) > bad && off < bad+blockSize {
			return errors.New("bad sector")
		}
		return nil
	}
	l = memory(t, fs, small())
	var got []Record
	failures := 0
	for {
		records, err := l.collect(100, 1<<20)
		if _, ok := errors.AsType[*DiskError](err); ok {
			failures++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 {
			break
		}
		got = append(got, records...)
	}
	if s := l.Stats(); failures == 0 || failures >= 10 || s.CorruptRecords != 0 || s.LastError == "" {
		t.Fatalf("%d failures; stats %+v", failures, s)
	}
	l.Ack(seqs(got)...)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	l.abort()
	fs.ReadErr = nil
	l = memory(t, fs, small())
	again := all(t, l)
	if len(got)+len(again) != len(want) {
		t.Fatalf("%d records, and %d at the next start; want %d in all", len(got), len(again), len(want))
	}
}

func TestOpen_neverPanicsOnRandomBytes(t *testing.T) {
	x := uint32(1)
	for round := range 300 {
		fs := vfstest.New()
		l := memory(t, fs, small())
		appendN(t, l, 0, 6, 3000)
		l.abort()
		for range 1 + round%5 {
			names := []string{first, second, third, acksName}
			x = x*1664525 + 1013904223
			name := names[x>>16%4]
			b := fs.Content(name)
			if b == nil {
				continue
			}
			for range 20 {
				x = x*1664525 + 1013904223
				off := int(x>>8) % len(b)
				x = x*1664525 + 1013904223
				n := min(int(x>>24), len(b)-off)
				for i := range n {
					x = x*1664525 + 1013904223
					b[off+i] = byte(x >> 24)
				}
			}
			fs.Put(name, b)
		}
		l = memory(t, fs, small())
		all(t, l)
		appendN(t, l, 50, 1, 10)
		if got := all(t, l); len(got) != 1 || got[0].Key != "key-50" {
			t.Fatalf("round %d: after damage the log does not go on: %v", round, got)
		}
	}
}

func TestOpen_says_whatStandsInTheWay(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(file, small(), Options{})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Fatalf("got %v", err)
	}
	cfg := small()
	cfg.MaxBytes = 100
	_, err = Open(t.TempDir(), cfg, Options{})
	if err == nil || !strings.Contains(err.Error(), "max_bytes: 100B is less than segment_bytes: 16KiB") {
		t.Fatalf("got %v", err)
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	bad := Config{SegmentBytes: 5000, MaxBytes: -1, MaxEvents: -1, MinFreeDisk: -1, SpareSegments: -1}
	for _, key := range []string{"segment_bytes", "max_bytes", "max_events", "min_free_disk", "spare_segments", "ack_every"} {
		if err := fmt.Sprint(bad.Validate()); !strings.Contains(err, key+": ") {
			t.Errorf("%s is not named in: %s", key, err)
		}
	}
}

// A removed segment may be back after a crash, for its removal is not synced. It
// must be known to be acked, however many lives later.
func TestOpen_knowsASegmentThatComesBack(t *testing.T) {
	for _, which := range []string{first, second, third} {
		t.Run(which, func(t *testing.T) {
			fs := vfstest.New()
			l := memory(t, fs, small())
			want := appendN(t, l, 0, 6, 3000)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			number, _ := fileNumber(which, segmentSuffix)
			from := 2 * number
			back := fs.Content(which)
			for range 3 {
				l = memory(t, fs, small())
				got := all(t, l)
				l.Ack(got[from].Seq)
				if len(got) == 6 {
					l.Ack(got[from+1].Seq)
				}
				if err := l.Sync(); err != nil {
					t.Fatal(err)
				}
				l.abort()
				if fs.Content(which) != nil {
					t.Fatal("not given back")
				}
				if len(got) == 6 {
					want = append(want[:from:from], want[from+2:]...)
					from = 0
				} else {
					want = want[1:]
				}
			}
			fs.Put(which, back)
			l = memory(t, fs, small())
			same(t, all(t, l), want)
			if s := l.Stats(); s.MissingSegments > 0 || s.Events != 2 {
				t.Fatalf("stats %+v", s)
			}
		})
	}
}
