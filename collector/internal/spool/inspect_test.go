package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spillway/collector/internal/spool/vfs"
)

// died leaves a spool of which nobody closed anything: n records in segments of
// a few, the first acked many delivered.
func died(t *testing.T, n, acked int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	l, err := Open(dir, small(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	appendN(t, l, 0, n, 3000)
	read := drain(t, l, acked)
	l.Ack(seqs(read)...)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	l.abort()
	return dir
}

// image is every file of a directory, to see whether anything changed.
func image(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

func unchanged(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	after := image(t, dir)
	if len(after) != len(before) {
		t.Errorf("the directory had %d files and has %d", len(before), len(after))
	}
	for name, data := range before {
		if after[name] != data {
			t.Errorf("%s has changed", name)
		}
	}
}

func TestInspect_showsADeadSpoolAndChangesNothing(t *testing.T) {
	const n, acked = 11, 4
	dir := died(t, n, acked)
	before := image(t, dir)
	i, err := Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	var records uint64
	for _, s := range i.Segments {
		if s.Problem != "" || s.Records > 0 && (s.LastSeq-s.FirstSeq+1 != s.Records || s.FirstAt.IsZero()) {
			t.Errorf("segment %+v", s)
		}
		records += s.Records
	}
	last := i.Segments[len(i.Segments)-1]
	if i.Waiting() != n-acked || records < n-acked || !i.AcksFound || i.RunningPID != 0 || last.State != StateOpen {
		t.Errorf("%d of %d records wait, want %d; %+v", i.Waiting(), records, n-acked, i)
	}
	v, err := i.Verify(t.Context())
	if err != nil || len(v.Damage) > 0 || v.Records != records || v.LastAt != record(n-1, 0).At {
		t.Errorf("verified %+v (%v), want %d whole records", v, err, records)
	}
	unchanged(t, dir, before)
}

// What Verify says is what a collector finds: the same records lost, no others.
func TestInspection_Verify_findsTheDamageThatReadFinds(t *testing.T) {
	for name, damage := range map[string]func(file []byte) []byte{
		"garbled": func(b []byte) []byte { b[dataOffset+blockSize+200] ^= 1; return b },
		"cut off": func(b []byte) []byte { return b[:dataOffset+blockSize+100] },
		"zeroed":  func(b []byte) []byte { clear(b[dataOffset:]); return b },
		"label":   func(b []byte) []byte { clear(b[:dataOffset]); return b },
		"empty":   func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			const n = 8
			dir := died(t, n, 0)
			path := filepath.Join(dir, first)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(data), 0o640); err != nil {
				t.Fatal(err)
			}
			before := image(t, dir)
			i, err := Inspect(dir)
			if err != nil {
				t.Fatal(err)
			}
			v, err := i.Verify(t.Context())
			if err != nil || len(v.Damage) == 0 || v.Damage[0].File != first && len(i.Missing) == 0 {
				t.Fatalf("found %+v (%v)", v, err)
			}
			if !strings.Contains(v.Damage[len(v.Damage)-1].String(), first) {
				t.Errorf("damage %v does not name the segment", v.Damage)
			}
			unchanged(t, dir, before)

			// A log on a look of the directory, and one on the directory itself.
			fs, err := vfs.ReadOnly(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, fs := range []vfs.FS{fs, nil} {
				l, err := Open(dir, small(), Options{FS: fs})
				if err != nil {
					t.Fatal(err)
				}
				got := drain(t, l, int(v.Records))
				if rest := l.Stats(); rest.Read != v.Records || uint64(len(got)) != v.Records {
					t.Errorf("the log hands out %d records, Verify found %d whole", rest.Read, v.Records)
				}
				l.Ack(seqs(got)...)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if fs != nil {
					unchanged(t, dir, before)
				}
			}
		})
	}
}

func TestInspect_ofASpoolInUseSaysByWhom(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir, small())
	i, err := Inspect(dir)
	if err != nil || i.RunningPID != os.Getpid() {
		t.Errorf("got %+v (%v), want the process that has it", i, err)
	}
	if _, err := Inspect(filepath.Join(dir, "elsewhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
