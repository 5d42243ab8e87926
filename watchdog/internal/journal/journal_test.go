package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/shared/configfile"
	"spillway/watchdog/internal/journal"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, path string, cfg journal.Config) *journal.Journal {
	t.Helper()
	j := journal.New(path, cfg)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func add(t *testing.T, j *journal.Journal, e journal.Entry) {
	t.Helper()
	if err := j.Append(e); err != nil {
		t.Fatal(err)
	}
}

func sentences(t *testing.T, path string, f journal.Filter) (list []string, damaged int) {
	t.Helper()
	entries, damaged, err := journal.Read(path, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, fmt.Sprintf("%d %s", e.Seq, e.Sentence))
	}
	return list, damaged
}

func TestJournal_Append_continuesAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.ndjson")
	j := open(t, path, journal.DefaultConfig())
	add(t, j, journal.Entry{At: noon, Event: "note", Sentence: "one"})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(journal.Entry{}); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("append after close: got %v", err)
	}
	add(t, open(t, path, journal.DefaultConfig()), journal.Entry{At: noon, Event: "note", Sentence: "two"})
	got, damaged := sentences(t, path, journal.Filter{})
	if diff := cmp.Diff([]string{"1 one", "2 two"}, got); diff != "" || damaged != 0 {
		t.Errorf("damaged %d, %s", damaged, diff)
	}
}

func TestJournal_Append_afterATornLine(t *testing.T) {
	tails := map[string]string{
		"half a line": `{"ts":"2026-12-01T12:00:00Z","se`,
		"zeroes":      "\x00\x00\x00\x00",
		"not json":    "oops\n",
		"other json":  "[1]\n",
		"very long":   strings.Repeat("x", 3<<20) + "\n",
	}
	for name, tail := range tails {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.ndjson")
			j := open(t, path, journal.DefaultConfig())
			add(t, j, journal.Entry{At: noon, Event: "note", Sentence: "before"})
			_ = j.Close()
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = f.WriteString(tail)
			_ = f.Close()
			add(t, open(t, path, journal.DefaultConfig()), journal.Entry{At: noon, Event: "note", Sentence: "after"})
			got, damaged := sentences(t, path, journal.Filter{})
			if diff := cmp.Diff([]string{"1 before", "2 after"}, got); diff != "" || damaged != 1 {
				t.Errorf("damaged %d, want 1; %s", damaged, diff)
			}
		})
	}
}

func TestJournal_Append_worksOnceTheDirectoryIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "journal.ndjson")
	j := open(t, path, journal.DefaultConfig())
	if err := j.Append(journal.Entry{At: noon, Event: "note", Sentence: "lost"}); err == nil {
		t.Error("appended to a directory that is not there")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	add(t, j, journal.Entry{At: noon, Event: "note", Sentence: "kept"})
	if got, _ := sentences(t, path, journal.Filter{}); len(got) != 1 || got[0] != "1 kept" {
		t.Errorf("got %v", got)
	}
}

func TestJournal_rotatesBySizeAndDropsTheOldest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a[b]*.ndjson") // a name that is no pattern
	j := open(t, path, journal.Config{MaxBytes: 64 * configfile.KiB, MaxFiles: 2})
	long := strings.Repeat("y", 30<<10)
	for n := range 12 {
		add(t, j, journal.Entry{At: noon, Event: "note", Sentence: fmt.Sprint(n), Output: long})
	}
	got, _ := sentences(t, path, journal.Filter{})
	want := []string{"7 6", "8 7", "9 8", "10 9", "11 10", "12 11"} // two entries a file, three files
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_ = j.Close()
	j = open(t, path, journal.Config{MaxBytes: 64 * configfile.KiB, MaxFiles: 2})
	add(t, j, journal.Entry{At: noon, Event: "note", Sentence: "end", Output: long})
	if got, _ := sentences(t, path, journal.Filter{Last: 1}); len(got) != 1 || got[0] != "13 end" {
		t.Errorf("after reopening: got %v", got)
	}
}

func TestRead_filters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.ndjson")
	if got, damaged := sentences(t, path, journal.Filter{}); got != nil || damaged != 0 {
		t.Errorf("no journal: got %v, %d", got, damaged)
	}
	j := open(t, path, journal.DefaultConfig())
	for n, event := range []string{"rule_fire", "action_start", "step", "action_end"} {
		add(t, j, journal.Entry{At: noon.Add(time.Duration(n) * time.Minute), Event: event, ActionID: fmt.Sprint("a", n/3), Sentence: event})
	}
	cases := map[string]struct {
		filter journal.Filter
		want   []string
	}{
		"since":  {journal.Filter{Since: noon.Add(2 * time.Minute)}, []string{"3 step", "4 action_end"}},
		"until":  {journal.Filter{Until: noon.Add(time.Minute)}, []string{"1 rule_fire"}},
		"events": {journal.Filter{Events: []string{"step", "rule_fire"}}, []string{"1 rule_fire", "3 step"}},
		"action": {journal.Filter{ActionID: "a1"}, []string{"4 action_end"}},
		"last":   {journal.Filter{Last: 1}, []string{"4 action_end"}},
	}
	for name, c := range cases {
		got, _ := sentences(t, path, c.filter)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	for key, cfg := range map[string]journal.Config{
		"max_bytes": {MaxBytes: 1, MaxFiles: 1},
		"max_files": {MaxBytes: configfile.MiB, MaxFiles: -1},
	} {
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("got %v, want it to begin with %s", err, key)
		}
	}
	if err := journal.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func FuzzRead_neverFails(f *testing.F) {
	f.Add([]byte("{\"event\":\"note\",\"seq\":18446744073709551615}\n\x00\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "journal.ndjson")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := journal.Read(path, journal.Filter{}); err != nil {
			t.Error(err)
		}
		j := journal.New(path, journal.DefaultConfig())
		defer j.Close()
		if err := j.Append(journal.Entry{At: noon, Event: "note", Sentence: "ours"}); err != nil {
			t.Fatal(err)
		}
		entries, _, err := journal.Read(path, journal.Filter{Last: 1})
		if err != nil || len(entries) != 1 || entries[0].Sentence != "ours" {
			t.Errorf("got %+v, %v", entries, err)
		}
	})
}
