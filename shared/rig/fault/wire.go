package fault

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"time"
)

// Handle answers one call: with the fault that strikes it, or with apply, which
// makes it take effect and writes the answer. fail writes an error of the
// service's own (Error and Skew).
func (b *Board) Handle(w http.ResponseWriter, r *http.Request, c Call, fail func(http.ResponseWriter, Fault), apply http.HandlerFunc) {
	f, mended, struck := b.PickCall(c)
	if !struck {
		apply(w, r)
		return
	}
	switch f.Kind {
	case Reset, Garbage, Empty, Status, Error:
		io.Copy(io.Discard, r.Body) // a caller still busy sending would not see the answer, or not this reset
	}
	switch f.Kind {
	case Hang:
		hang(w, r, mended)
	case HangApplied:
		apply(newRecorder(), r)
		hang(w, r, mended)
	case Reset:
		reset(w)
	case Lost:
		apply(newRecorder(), r)
		reset(w)
	case Trickle:
		answer := newRecorder()
		apply(answer, r)
		trickle(w, r, answer, mended, or(f.By, 100*time.Millisecond))
	case Delay:
		if !wait(r, mended, f.By) {
			reset(w)
			return
		}
		apply(w, r)
	case Garbage:
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html><body>It works! \x00\xff{</body></html>")
	case Empty:
		w.WriteHeader(http.StatusOK)
	case Status:
		w.WriteHeader(or(f.Status, http.StatusInternalServerError))
		io.WriteString(w, f.Message)
	default:
		fail(w, f)
	}
}

// hang keeps the connection open without a word until the caller gives up or
// the fault is mended.
func hang(w http.ResponseWriter, r *http.Request, mended <-chan struct{}) {
	wait(r, mended, 0)
	reset(w)
}

// wait returns true when d has passed (0: never), and false when faults were
// mended before or the caller went away.
func wait(r *http.Request, mended <-chan struct{}, d time.Duration) bool {
	// net/http notices that a caller is gone only once its body has been read.
	body, err := io.ReadAll(r.Body)
	if err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var passed <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-passed:
		return true
	case <-mended:
	case <-r.Context().Done():
	}
	return false
}

// reset closes the connection so that the peer sees a reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http closes the connection without an answer
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// trickle sends a recorded answer one byte at a time until it is through, the
// caller gives up or the fault is mended (then the rest follows at once).
func trickle(w http.ResponseWriter, r *http.Request, answer *recorder, mended <-chan struct{}, pause time.Duration) {
	answer.copyHead(w)
	rest := answer.body.Bytes()
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for ; len(rest) > 0; rest = rest[1:] {
		select {
		case <-ticker.C:
		case <-mended:
			w.Write(rest)
			return
		case <-r.Context().Done():
			return
		}
		w.Write(rest[:1])
		http.NewResponseController(w).Flush()
	}
}

// recorder takes an answer that is not sent, or not yet.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newRecorder() *recorder { return &recorder{header: http.Header{}, status: http.StatusOK} }

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(p []byte) (int, error) { return w.body.Write(p) }

func (w *recorder) copyHead(to http.ResponseWriter) {
	maps.Copy(to.Header(), w.header)
	to.WriteHeader(w.status)
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
