package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
	"spillway/shared/configfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string, lane sink.Lane) *Sink {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Dir = dir
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return New(cfg, Options{Lane: lane, Instance: "ip-10-0-0-12"})
}

// stored reads every file of a lane below dir.
func stored(t *testing.T, dir string, lane sink.Lane) (records []sink.Record, paths []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, string(lane)), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name, err := archive.ParseName(filepath.ToSlash(rel))
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		r := archive.NewReader(lane, f)
		for {
			record, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			records = append(records, record)
		}
		if !strings.HasPrefix(r.Sum(), name.Sum) {
			return fmt.Errorf("%s holds what has the sum %s", path, r.Sum())
		}
		paths = append(paths, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records, paths
}

func TestSink_keepsTheContract(t *testing.T) {
	for _, lane := range sink.Lanes() {
		t.Run(string(lane), func(t *testing.T) {
			sinktest.Run(t, func(t *testing.T) sinktest.Destination {
				dir := filepath.Join(t.TempDir(), "out")
				aside := dir + ".aside"
				must := func(err error) {
					t.Helper()
					if err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
				}
				return sinktest.Destination{
					Sink: open(t, dir, lane),
					Stored: func() []sink.Record {
						if info, err := os.Stat(dir); err == nil && !info.IsDir() {
							records, _ := stored(t, aside, lane)
							return records
						}
						records, _ := stored(t, dir, lane)
						return records
					},
					FailNotApplied: func() {
						must(os.Rename(dir, aside))
						must(os.WriteFile(dir, nil, 0o600))
					},
					Mend: func() {
						must(os.Remove(dir))
						must(os.Rename(aside, dir))
					},
				}
			})
		})
	}
}

func TestSink_Write_repeated_replacesItself(t *testing.T) {
	dir := t.TempDir()
	records := sinktest.Records(100, 5)
	for range 3 {
		for _, o := range open(t, dir, sink.Good).Write(t.Context(), records) {
			if o.Class != sink.Written {
				t.Fatal(o.Err)
			}
		}
	}
	open(t, dir, sink.Good).Write(t.Context(), append(records[:1:1], records[4]))
	got, paths := stored(t, dir, sink.Good)
	if len(paths) != 2 || len(got) != 7 {
		t.Errorf("%d records in %v, want the batch once, and another one between the same numbers", len(got), paths)
	}
	for _, path := range paths {
		if !strings.HasPrefix(path, "good/date=2026-12-01/hour=01/ip-10-0-0-12/100-104-") {
			t.Errorf("path %s", path)
		}
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != fileMode {
			t.Errorf("mode %v, want %v", info.Mode(), fs.FileMode(fileMode))
		}
	}
}

func TestSink_Write_directoryRemovedMeanwhile_isMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	s := open(t, dir, sink.Good)
	s.Write(t.Context(), sinktest.Records(1, 2))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if o := s.Write(t.Context(), sinktest.Records(1, 2))[0]; o.Class != sink.Transient || o.Err.Cause != sink.CauseConfig {
		t.Errorf("first Write: %v, %v", o.Class, o.Err)
	}
	if o := s.Write(t.Context(), sinktest.Records(1, 2))[0]; o.Class != sink.Written {
		t.Errorf("second Write: %v", o.Err)
	}
}

func TestSink_Write_remembersABoundedNumberOfDirectories(t *testing.T) {
	s := open(t, t.TempDir(), sink.Good)
	for i := range maxKnown {
		s.known[fmt.Sprint("earlier ", i)] = true
	}
	s.Write(t.Context(), sinktest.Records(1, 1))
	if len(s.known) != 1 {
		t.Errorf("%d directories are remembered", len(s.known))
	}
}

func TestSink_Write_hangingDisk_holdsNobodyBeyondItsContext(t *testing.T) {
	s := open(t, t.TempDir(), sink.Good)
	s.mu.Lock() // a publish that needs a directory waits for this, as for a disk
	var waiting []context.CancelFunc
	results := make(chan sink.Outcome)
	for i := range s.cfg.InFlight + 2 {
		ctx, cancel := context.WithCancel(t.Context())
		waiting = append(waiting, cancel)
		go func() { results <- s.Write(ctx, sinktest.Records(uint64(10*i), 3))[0] }()
	}
	for len(s.slots) < cap(s.slots) {
		select {
		case o := <-results:
			t.Fatalf("a Write returned: %v", o)
		default:
			runtime.Gosched()
		}
	}
	for _, cancel := range waiting {
		cancel()
		if o := <-results; o.Class != sink.Transient || o.Err == nil {
			t.Errorf("%v, %v", o.Class, o.Err)
		}
	}
	if len(s.slots) != s.cfg.InFlight {
		t.Errorf("%d files wait for the disk, want %d", len(s.slots), s.cfg.InFlight)
	}
	s.mu.Unlock()
	for range cap(s.slots) { // wait until they are through
		s.slots <- struct{}{}
	}
	if got, _ := stored(t, s.cfg.Dir, sink.Good); len(got) != 3*s.cfg.InFlight {
		t.Errorf("%d records stored, want those of the %d Writes that had begun", len(got), s.cfg.InFlight)
	}
}

func TestSink_explain_faultsOfTheDisk_areTransientWithACause(t *testing.T) {
	s := open(t, "/var/lib/spillway/out", sink.Good)
	for err, want := range map[error]sink.Error{
		syscall.ENOSPC:        {Cause: sink.CauseServer, Message: "make room"},
		syscall.EDQUOT:        {Cause: sink.CauseServer, Message: "make room"},
		syscall.EIO:           {Cause: sink.CauseServer, Message: "input/output error"},
		syscall.EACCES:        {Cause: sink.CauseAuth, Message: "let the collector's user"},
		syscall.EROFS:         {Cause: sink.CauseConfig, Message: "mounted"},
		syscall.ENOTDIR:       {Cause: sink.CauseConfig, Message: "correct dir"},
		errors.New("strange"): {Cause: sink.CauseServer, Message: "strange"},
	} {
		got := s.explain(fmt.Errorf("write /var/lib/spillway/out/.x.tmp-123: %w", err))
		if got.Cause != want.Cause || !strings.Contains(got.Message, want.Message) || !strings.Contains(got.Message, "/var/lib/spillway/out") {
			t.Errorf("%v: %+v", err, got)
		}
	}
	if s.explain(nil) != nil {
		t.Error("no error is an error")
	}
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	valid := DefaultConfig()
	valid.Dir = "/var/lib/spillway/out"
	if err := valid.Validate(); err != nil {
		t.Errorf("a valid config: %v", err)
	}
	for key, change := range map[string]func(*Config){
		"dir: it is missing": func(c *Config) { c.Dir = "" },
		"dir: \"out\"":       func(c *Config) { c.Dir = "out" },
		"max_records: ":      func(c *Config) { c.MaxRecords = 0 },
		"max_bytes: ":        func(c *Config) { c.MaxBytes = 2 * configfile.GiB },
		"linger: ":           func(c *Config) { c.Linger = -1 },
		"in_flight: ":        func(c *Config) { c.InFlight = 0 },
	} {
		c := valid
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
