package deadletter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"spillway/shared/configfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string, maxBytes configfile.Size) *Store {
	t.Helper()
	logger, _ := logtest.NewNullLogger()
	s, err := Open(dir, Config{MaxBytes: maxBytes}, Options{Log: logrus.NewEntry(logger), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// letters reads everything in dir, files in order.
func letters(t *testing.T, dir string) (entries []Entry, damaged int) {
	t.Helper()
	files, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range Read(bytes.NewReader(data)) {
			if err != nil {
				damaged++
				continue
			}
			entries = append(entries, e)
		}
	}
	return entries, damaged
}

func TestStore_Put_isReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "dead-letter")
	s := open(t, dir, configfile.MiB)
	want := []Entry{
		{At: noon, ReceivedAt: noon.Add(-time.Hour), Reason: "too large: 2 MiB", Code: "ValidationException", Lane: "bad", Seq: 7, Key: "k", Data: []byte(`{"a":"<é>"}`)},
		{At: noon, Reason: "one\ntwo", Lane: "good", Key: "\xff", Data: []byte{0x0b, 0xff, 0x00}},
		{At: noon.Add(12 * time.Hour), Reason: "next day", Lane: "good", Key: "", Data: []byte{}},
	}
	if err := s.Put(t.Context(), want...); err != nil {
		t.Fatal(err)
	}
	got, damaged := letters(t, dir)
	if diff := cmp.Diff(want, got, cmp.Transformer("text", func(b []byte) string { return string(b) })); diff != "" || damaged != 0 {
		t.Errorf("%d damaged; read back (-want +got):\n%s", damaged, diff)
	}
	var names []string
	files, _ := List(dir)
	for _, f := range files {
		names = append(names, filepath.Base(f.Path))
		info, err := os.Stat(f.Path)
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s has mode %v (%v), want 0640", f.Path, info.Mode(), err)
		}
	}
	if diff := cmp.Diff([]string{"bad-2026-12-01.ndjson", "good-2026-12-01.ndjson", "good-2026-12-02.ndjson"}, names); diff != "" {
		t.Error(diff)
	}
	if st := s.Stats(); st.Letters["good"] != 2 || st.Letters["bad"] != 1 || st.Files != 3 || st.Bytes != sizeOf(t, dir) {
		t.Errorf("stats are %+v, %d bytes on disk", st, sizeOf(t, dir))
	}
}

func sizeOf(t *testing.T, dir string) (n int64) {
	t.Helper()
	files, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		n += f.Bytes
	}
	return n
}

func TestStore_Put_toleratesATornTail(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName("good", noon))
	if err := os.WriteFile(path, []byte(`{"at":"2026-12-01T11:00:00Z","reason":"cut sho`), 0o640); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, configfile.MiB)
	for i := range 2 {
		if err := s.Put(t.Context(), Entry{At: noon, Lane: "good", Reason: "r", Seq: uint64(i + 1), Data: []byte("d")}); err != nil {
			t.Fatal(err)
		}
	}
	got, damaged := letters(t, dir)
	if len(got) != 2 || damaged != 1 {
		t.Errorf("%d letters and %d damaged lines, want 2 and 1", len(got), damaged)
	}
}

func TestStore_Put_concurrentCallsAreAllDurable(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 64*configfile.MiB)
	var wg sync.WaitGroup
	errs := make(chan error, 200)
	for i := range 200 {
		wg.Go(func() {
			errs <- s.Put(t.Context(), Entry{At: noon, Lane: []string{"good", "bad"}[i%2], Seq: uint64(i + 1), Data: []byte("x")})
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	seen := map[uint64]int{}
	got, _ := letters(t, dir)
	for _, e := range got {
		seen[e.Seq]++
	}
	if len(got) != 200 || len(seen) != 200 {
		t.Errorf("%d lines, %d different letters, want 200", len(got), len(seen))
	}
}

func TestStore_Put_returnsErrFullUntilRoomIsMade(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, configfile.MiB)
	big := Entry{At: noon, Lane: "good", Reason: "large", Data: bytes.Repeat([]byte("x"), 600<<10)}
	if err := s.Put(t.Context(), big); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := s.Put(t.Context(), big); !errors.Is(err, ErrFull) {
			t.Fatalf("second big letter: %v, want ErrFull", err)
		}
	}
	if got, _ := letters(t, dir); len(got) != 1 {
		t.Fatalf("%d letters on disk, want 1", len(got))
	}
	if got := s.Stats().LastError; !strings.Contains(got, dir) || !strings.Contains(got, "max_bytes") {
		t.Errorf("last error is %q, want one that says where to make room", got)
	}
	if got := testutil.ToFloat64(s.metrics.failures); got != 5 {
		t.Errorf("%v failures counted, want 5", got)
	}
	if err := os.Remove(filepath.Join(dir, fileName("good", noon))); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.measuredAt = time.Now().Add(-remeasure) // as if a second had passed
	s.mu.Unlock()
	if err := s.Put(t.Context(), big); err != nil {
		t.Errorf("after room was made: %v", err)
	}
	if got := s.Stats().LastError; got != "" {
		t.Errorf("last error is %q after a success", got)
	}
}

func TestStore_Put_survivesDeletedFilesAndDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dl")
	s := open(t, dir, configfile.MiB)
	for i := range 3 {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), Entry{At: noon, Lane: "good", Seq: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := letters(t, dir); len(got) != 1 || got[0].Seq != 2 {
		t.Errorf("letters are %+v, want the last one", got)
	}
}

func TestStore_Put_reportsADiskThatRefuses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, configfile.MiB)
	blocked := filepath.Join(dir, fileName("good", noon))
	if err := os.Mkdir(blocked, 0o750); err != nil { // a directory where the file should be
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), Entry{At: noon, Lane: "good"}); err == nil || !strings.Contains(err.Error(), blocked) {
		t.Errorf("Put returned %v, want an error naming %s", err, blocked)
	}
	if st := s.Stats(); st.Bytes != 0 || st.LastError == "" {
		t.Errorf("stats are %+v", st)
	}
}

func TestStore_Put_returnsWhenContextEnds(t *testing.T) {
	s := open(t, t.TempDir(), configfile.MiB)
	s.writing.Lock() // as if the disk hung under the group before
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, Entry{At: noon, Lane: "good"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Put returned %v", err)
	}
	s.writing.Unlock()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Put(t.Context(), Entry{Lane: "good"}); !errors.Is(err, ErrClosed) {
		t.Errorf("Put after Close returned %v", err)
	}
}

func TestClaim_losesNothingToWriters(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 64*configfile.MiB)
	path := filepath.Join(dir, fileName("good", noon))
	done := make(chan error, 1)
	go func() {
		var err error
		for i := range 300 {
			err = errors.Join(err, s.Put(t.Context(), Entry{At: noon, Lane: "good", Seq: uint64(i + 1)}))
		}
		done <- err
	}()
	seen := map[uint64]bool{}
	take := func() {
		claimed, err := Claim(path)
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if files, err := List(dir); err != nil || !files[0].Claimed && !files[len(files)-1].Claimed {
			t.Fatalf("List shows no claimed file: %+v, %v", files, err)
		}
		data, err := os.ReadFile(claimed)
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range Read(bytes.NewReader(data)) {
			if err != nil {
				t.Fatal(err)
			}
			seen[e.Seq] = true
		}
		if err := os.Remove(claimed); err != nil {
			t.Fatal(err)
		}
	}
	for writing := true; writing; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			writing = false
		default:
		}
		take()
	}
	if len(seen) != 300 {
		t.Errorf("%d letters found by claiming, want 300", len(seen))
	}
}

func TestClaim_resumesAndNeverReplacesAnEarlierClaim(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName("bad", noon))
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "a\n")
	if err := os.Link(path, path+claimedExt); err != nil { // a claim cut short
		t.Fatal(err)
	}
	if got, err := Claim(path); err != nil || got != path+claimedExt {
		t.Fatalf("resuming a claim: %q, %v", got, err)
	}
	write(path, "b\n")
	if _, err := Claim(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("second claim returned %v, want one that says the first stands", err)
	}
	if data, _ := os.ReadFile(path + claimedExt); string(data) != "a\n" {
		t.Errorf("the earlier claim now holds %q", data)
	}
	if got, err := Claim(path + claimedExt); err != nil || got != path+claimedExt {
		t.Errorf("claiming what is claimed: %q, %v", got, err)
	}
}

func TestEntry_line_roundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Entry{
			At: noon, Reason: rapid.String().Draw(t, "reason"), Lane: "good", Seq: rapid.Uint64().Draw(t, "seq"),
			Key:  string(rapid.SliceOf(rapid.Byte()).Draw(t, "key")),
			Data: rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })).Draw(t, "data"),
		}
		text, err := appendLine(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(text, []byte("\n")) != 1 || text[len(text)-1] != '\n' {
			t.Fatalf("not one line: %q", text)
		}
		got, err := parseLine(text)
		if err != nil {
			t.Fatal(err)
		}
		if got.Key != want.Key || !bytes.Equal(got.Data, want.Data) || got.Seq != want.Seq || !got.At.Equal(want.At) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func FuzzRead(f *testing.F) {
	good, err := appendLine(nil, Entry{At: noon, Lane: "good", Data: []byte{0xff}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("\n\n{}\n" + string(good) + "{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// Whatever stands before it, a whole letter on a line of its own is found.
		data = append(append(data, '\n'), good...)
		last, n := Entry{}, 0
		for e, err := range Read(bytes.NewReader(data)) {
			n++
			last = e
			if _, damaged := errors.AsType[*DamagedError](err); err != nil && !damaged {
				t.Fatalf("reading from memory failed: %v", err)
			}
		}
		if string(last.Data) != "\xff" || n > bytes.Count(data, []byte("\n"))+1 {
			t.Fatalf("last letter is %+v after %d lines", last, n)
		}
	})
}

func TestRead_passesOverATooLongLine(t *testing.T) {
	good, err := appendLine(nil, Entry{At: noon, Lane: "good", Seq: 9})
	if err != nil {
		t.Fatal(err)
	}
	in := io.MultiReader(io.LimitReader(endless{}, maxLine+1), bytes.NewReader(append([]byte("\n"), good...)))
	var got []string
	for e, err := range Read(in) {
		got = append(got, fmt.Sprint(e.Seq, err != nil))
	}
	if diff := cmp.Diff([]string{"0 true", "9 false"}, got); diff != "" {
		t.Error(diff)
	}
}

// endless reads as the letter x for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := (Config{MaxBytes: 10}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "max_bytes:") {
		t.Errorf("Validate returned %v", err)
	}
}
