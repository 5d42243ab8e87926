package replay

import (
	"context"
	"errors"
	"io"
	"sync"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/sink"
)

// scanner reads an object's records and finds what is damaged.
type scanner struct {
	in   *archive.Reader
	name archive.Name
	line int // up to which everything was returned
}

func newScanner(n archive.Name, stored io.Reader) *scanner {
	return &scanner{in: archive.NewReader(n.Lane, stored), name: n}
}

// next returns a record or a fault. It returns io.EOF at the end of the object,
// with a last fault if the end is not what it should be, and any other error when
// the object could not be read on for a reason outside of it.
func (s *scanner) next() (sink.Record, *Fault, error) {
	r, err := s.in.Next()
	damaged, isLine := errors.AsType[*archive.LineError](err)
	var f *Fault
	switch {
	case isLine:
		f, err = &Fault{Line: damaged.Line, Reason: damaged.Err.Error()}, nil
		s.line = damaged.Line
	case err == nil:
		s.line = s.in.Line()
	case err == io.EOF:
		// That lines are well-formed does not show that they are those that were
		// written, nor that they are all.
		if sum := s.in.Sum(); sum[:len(s.name.Sum)] != s.name.Sum {
			f = &Fault{Reason: "its content is not what its name says: lines were changed, added or lost"}
		}
	case errors.Is(err, archive.ErrTruncated), errors.Is(err, archive.ErrCorrupt):
		s.line = s.in.Line() + 1
		f, err = &Fault{Line: s.line, Reason: err.Error() + "; nothing behind this line can be read"}, io.EOF
	}
	return r, f, err
}

// Verify reads the objects of Options.Store, several at a time, and reports what
// is damaged; progress counts the records that can be read. It delivers and writes
// nothing. It returns when all are read or ctx ends.
func Verify(ctx context.Context, objects []Object, o Options) {
	work := make(chan Object)
	var workers sync.WaitGroup
	for range max(o.Objects, 1) {
		workers.Go(func() {
			for object := range work {
				verify(ctx, object, o)
			}
		})
	}
	for _, object := range objects {
		select {
		case work <- object:
		case <-ctx.Done():
		}
	}
	close(work)
	workers.Wait()
}

func verify(ctx context.Context, object Object, o Options) {
	stored, err := o.Store.Open(ctx, object.Entry)
	if err != nil {
		o.Report.failed(object.Key, err, o.Log)
		return
	}
	defer func() { _ = stored.Close() }()
	in := newScanner(object.Name, counting{stored, o.Progress})
	var m Mark
	for ctx.Err() == nil {
		_, f, err := in.next()
		if f != nil {
			m.add(*f)
		}
		if err == io.EOF {
			o.Progress.finished()
			o.Report.finished(object.Key, m)
			return
		}
		if err != nil {
			if ctx.Err() == nil {
				o.Report.failed(object.Key, err, o.Log)
			}
			return
		}
		if f == nil {
			o.Progress.confirm(1)
		}
	}
}
