package deadletter

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

const (
	ext        = ".ndjson"
	claimedExt = ".claimed"
	// maxLine is the longest line that is taken for a letter; what is longer is
	// damage. The largest request, as base64, is well below it.
	maxLine = 128 << 20
)

// File is one file of the store.
type File struct {
	Path    string
	Bytes   int64
	Claimed bool // taken out by Claim and not yet deleted
}

// List returns the store's files by name, hence by lane and day. Other files in
// the directory are left alone.
func List(dir string) ([]File, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	var files []File
	for _, n := range names {
		plain, claimed := strings.CutSuffix(n.Name(), claimedExt)
		if n.IsDir() || filepath.Ext(plain) != ext {
			continue
		}
		info, err := n.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted since
		}
		if err != nil {
			return nil, fmt.Errorf("list dead letters: %w", err)
		}
		files = append(files, File{filepath.Join(dir, n.Name()), info.Size(), claimed})
	}
	return files, nil
}

// DamagedError is a line that is not a dead letter: cut short by a crash, or
// edited by hand.
type DamagedError struct {
	Line int // from 1
	Err  error
}

// Error names the line.
func (e *DamagedError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong with the line.
func (e *DamagedError) Unwrap() error { return e.Err }

// Read yields the letters in r in the order in which they were put. A damaged
// line is yielded as a *DamagedError and reading goes on; any other error is the
// last thing yielded. Each Entry's Data is the caller's.
func Read(r io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		for n := 1; ; n++ {
			text, err := readLine(in)
			if errors.Is(err, errLong) {
				if !yield(Entry{}, &DamagedError{n, err}) {
					return
				}
				continue
			}
			if len(bytes.TrimSpace(text)) > 0 {
				entry, perr := parseLine(text)
				if perr != nil {
					perr = &DamagedError{n, perr}
				}
				if !yield(entry, perr) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Entry{}, fmt.Errorf("read dead letters: %w", err))
				return
			}
		}
	}
}

var errLong = fmt.Errorf("longer than %d bytes", maxLine)

// readLine returns the next line without bounding the file, only the line: of one
// that is too long the rest is passed over and errLong is returned.
func readLine(in *bufio.Reader) ([]byte, error) {
	var text []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if len(text)+len(part) > maxLine {
			long, text = true, nil
		}
		if !long {
			text = append(text, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long && (err == nil || errors.Is(err, io.EOF)) {
			return nil, errLong
		}
		return text, err
	}
}
