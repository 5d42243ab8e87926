package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sys/unix"

	"spillway/collector/internal/replay"
)

// show tells a person how far a replay is: by a bar on a terminal, by a line now
// and then elsewhere. Log lines are written through it, so that they and the bar
// do not run into each other.
type show struct {
	mu     sync.Mutex // guards what follows
	out    io.Writer
	onTerm bool
	bar    *progressbar.ProgressBar // nil when there is none
	ended  chan struct{}
	done   sync.WaitGroup
}

// How often the bar moves, and how often there is a line where there is no bar.
const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 10 * time.Second
)

func newShow(out io.Writer) *show { return &show{out: out, onTerm: isTerminal(out)} }

// Write implements io.Writer for the log.
func (s *show) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		_ = s.bar.Clear() // it is drawn again soon
	}
	return s.out.Write(p)
}

// start begins to show the progress towards the end of the plan.
func (s *show) start(plan *replay.Plan, progress *replay.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil || len(plan.Waiting) == 0 {
		return
	}
	every := lineEvery
	if s.onTerm {
		every = barEvery
		s.bar = progressbar.NewOptions64(max(plan.Bytes, 1), progressbar.OptionSetWriter(s.out), progressbar.OptionShowBytes(true),
			progressbar.OptionUseIECUnits(true), progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
	}
	s.ended = make(chan struct{})
	began := time.Now()
	s.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-s.ended:
				return
			case <-tick.C:
				s.draw(plan, progress, time.Since(began))
			}
		}
	})
}

func (s *show) draw(plan *replay.Plan, progress *replay.Progress, took time.Duration) {
	rate := float64(progress.Events()) / took.Seconds()
	read := min(progress.Read(), plan.Bytes)
	text := fmt.Sprintf("%d/%d objects, %d events, %.0f/s", progress.Objects(), len(plan.Waiting), progress.Events(), rate)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		s.bar.Describe(text)
		_ = s.bar.Set64(min(read, max(plan.Bytes-1, 0))) // full only when it is over
		return
	}
	left := "unknown"
	if read > 0 {
		left = time.Duration(float64(took) * float64(plan.Bytes-read) / float64(read)).Round(time.Second).String()
	}
	_, _ = fmt.Fprintf(s.out, "replay: %s, %d of %d bytes read, time left %s\n", text, read, plan.Bytes, left)
}

// stop ends the showing. It may be called again.
func (s *show) stop() {
	s.mu.Lock()
	if s.ended != nil {
		select {
		case <-s.ended:
		default:
			close(s.ended)
		}
	}
	if s.bar != nil {
		_ = s.bar.Clear()
		s.bar = nil
	}
	s.mu.Unlock()
	s.done.Wait()
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// summary is the report at the end.
type summary struct {
	replay.Figures
	Waiting      int     `json:"objects_selected"` // that were not done
	WaitingBytes int64   `json:"bytes_selected"`
	Seconds      float64 `json:"seconds"`
	Stopped      bool    `json:"stopped"` // before its end

	verb string // what was done with the objects; empty: nothing
}

// mostFaults bounds the list for people; the JSON has all.
const mostFaults = 50

func (s summary) print(out io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	}
	o, e := s.Objects, s.Events
	_, err := fmt.Fprintf(out, "%d objects to replay, %d bytes; %d were done before\n", s.Waiting, s.WaitingBytes, o.DoneSoFar)
	if s.verb != "" {
		_, err = fmt.Fprintf(out, "%s: %d objects, %d events in %.1f s; finished by others: %d objects\n", s.verb, o.Finished, e.Delivered, s.Seconds, o.DoneNow)
	}
	if avoided := e.Skipped + e.Twins; avoided > 0 {
		_, err = fmt.Fprintf(out, "not sent again: %d events (%d confirmed by an earlier replay, %d that stand in two objects)\n", avoided, e.Skipped, e.Twins)
	}
	if e.DeadLetters > 0 {
		_, err = fmt.Fprintf(out, "dead letters: %d events can never be delivered and are kept with the reason\n", e.DeadLetters)
	}
	for i, f := range s.Faults {
		if i == mostFaults {
			_, err = fmt.Fprintf(out, "... and %d more; --json lists all\n", len(s.Faults)-i)
			break
		}
		at := ""
		if f.Line > 0 {
			at = fmt.Sprintf(" line %d", f.Line)
		}
		_, err = fmt.Fprintf(out, "%s%s: %s\n", f.Object, at, f.Reason)
	}
	return err
}

// err says what was not as it should be.
func (s summary) err() error {
	o := s.Objects
	switch {
	case s.Stopped:
		return errors.New("stopped before the end: start it again to go on")
	case o.Failed+o.Damaged+o.Foreign > 0:
		return fmt.Errorf("%d objects are damaged, %d could not be %s, %d are no archived objects", o.Damaged, o.Failed, cmpOr(s.verb, "read"), o.Foreign)
	}
	return nil
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
