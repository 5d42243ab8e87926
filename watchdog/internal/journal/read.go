package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Filter chooses entries. The zero value chooses all.
type Filter struct {
	Since    time.Time // at or after; zero is from the beginning
	Until    time.Time // before; zero is to the end
	Events   []string  // any of these; none is all
	ActionID string
	Last     int // only the last so many; 0 is all
}

func (f Filter) takes(e Entry) bool {
	return (f.Since.IsZero() || !e.At.Before(f.Since)) &&
		(f.Until.IsZero() || e.At.Before(f.Until)) &&
		(len(f.Events) == 0 || slices.Contains(f.Events, e.Event)) &&
		(f.ActionID == "" || e.ActionID == f.ActionID)
}

// Read returns the entries that f takes, oldest first, from the journal at path
// and its rotated files, and how many lines could not be read. It needs no
// running watchdog and takes no lock. A journal that does not exist is empty.
func Read(path string, f Filter) (entries []Entry, damaged int, err error) {
	files, err := files(path)
	if err != nil {
		return nil, 0, err
	}
	for _, name := range files {
		err := scan(name, func(e Entry, ok bool) {
			switch {
			case !ok:
				damaged++
			case f.takes(e):
				entries = append(entries, e)
			}
		})
		if err != nil {
			return nil, damaged, err
		}
	}
	if f.Last > 0 && len(entries) > f.Last {
		entries = entries[len(entries)-f.Last:]
	}
	return entries, damaged, nil
}

// files lists the files of the journal at path, oldest first.
func files(path string) ([]string, error) {
	names, err := filepath.Glob(globEscape(path) + "*")
	if err != nil {
		return nil, fmt.Errorf("list journal files: %w", err)
	}
	type numbered struct {
		name string
		n    int
	}
	var list []numbered
	for _, name := range names {
		if name == path {
			list = append(list, numbered{name, 0})
			continue
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(name, path+".")); err == nil && n > 0 {
			list = append(list, numbered{name, n})
		}
	}
	slices.SortFunc(list, func(a, b numbered) int { return b.n - a.n })
	var sorted []string
	for _, f := range list {
		sorted = append(sorted, f.name)
	}
	return sorted, nil
}

func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// maxLineBytes bounds the memory a damaged file can take.
const maxLineBytes = 1 << 20

// scan calls each for every line of a file: with its entry, or with ok false
// when it is none. Empty lines are passed over.
func scan(name string, each func(e Entry, ok bool)) error {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // rotated away since it was listed
	}
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer func() { _ = file.Close() }()
	reader := bufio.NewReaderSize(file, 64<<10)
	for {
		line, tooLong, err := readLine(reader)
		if line = bytes.TrimSpace(line); len(line) > 0 || tooLong {
			var e Entry
			ok := !tooLong && json.Unmarshal(line, &e) == nil && e.Event != ""
			each(e, ok)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read journal %s: %w", name, err)
		}
	}
}

func readLine(r *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > maxLineBytes; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// lastSeq finds the number of the last entry that can be read.
func lastSeq(path string, maxFiles int) (uint64, error) {
	var last uint64
	for n := 0; n <= maxFiles && last == 0; n++ {
		err := scan(rotated(path, n), func(e Entry, ok bool) {
			if ok {
				last = max(last, e.Seq)
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return last, nil
}
