package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Entry is one object as a Store lists it.
type Entry struct {
	Key     string // with slashes between its parts, prefix included
	Size    int64  // in bytes, as it is stored
	Version string // differs when the content does; may be empty
}

// Store is where objects and the marks of their replay stand. It is safe for
// concurrent use. Its methods try again by themselves what may pass by itself; an
// error they return will not.
type Store interface {
	// Place is the part of all keys below which the objects are looked for.
	Place() string
	// List calls visit for everything whose key begins with place, in the order of
	// keys, until it returns an error, which List then returns.
	List(ctx context.Context, place string, visit func(Entry) error) error
	// Open returns a reader of the object as it is stored.
	Open(ctx context.Context, e Entry) (io.ReadCloser, error)
	// Claim makes this replayer the only one that works on the object. It returns
	// ErrDone when the object has been replayed, and a *BusyError when another
	// replayer has it, or may have it: asking again later shows whether that one is
	// still at work.
	Claim(ctx context.Context, e Entry, marks Marks, to string) (Claim, error)
	// ReadMark returns a mark, or an error that wraps ErrNoMark.
	ReadMark(ctx context.Context, key string) (Mark, error)
	// Delete removes an object or a mark. That it is gone already is no error.
	Delete(ctx context.Context, key string) error
}

// Claim is the sole right to replay one object.
type Claim interface {
	// Found is the mark that was there, so that the work goes on at its line.
	Found() Mark
	// Save makes a mark durable and renews the claim. It returns an error that
	// wraps ErrLost when another replayer has taken over; after any other error it
	// may be called again.
	Save(ctx context.Context, m Mark) error
	// Finish makes it durable that the object has been replayed, and lets it go.
	Finish(ctx context.Context, m Mark) error
	// Release lets the object go, for any replayer to go on at the mark's line.
	Release(ctx context.Context, m Mark) error
}

var (
	// ErrDone says that an object has been replayed already.
	ErrDone = errors.New("the object has been replayed already")
	// ErrLost says that another replayer has taken over an object.
	ErrLost = errors.New("another replayer has taken over")
	// ErrNoMark says that a mark does not exist.
	ErrNoMark = errors.New("there is no such mark")
)

// BusyError says that another replayer has claimed an object.
type BusyError struct{ By string }

// Error names the other one.
func (e *BusyError) Error() string { return fmt.Sprintf("%s is at work on the object", e.By) }
