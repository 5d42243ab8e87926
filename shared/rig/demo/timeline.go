package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Who speaks in a line of the timeline, and in which colour.
type speaker struct{ name, colour string }

var (
	own       = speaker{"", "1"}           // bold
	client    = speaker{"trackers", "36"}  // cyan
	kinesis   = speaker{"kinesis", "33"}   // yellow
	collector = speaker{"collector", "34"} // blue
	watchdog  = speaker{"watchdog", "35"}  // magenta
)

const (
	red   = "1;31"
	green = "1;32"
	dim   = "2"
)

// timeline prints one line for each event of the story, with the time since it
// began. On a terminal a status line below changes in place. It is safe for
// concurrent use.
type timeline struct {
	begun    time.Time
	terminal bool
	colour   bool

	mu     sync.Mutex // guards what follows
	out    io.Writer
	status string // as it stands on the terminal
}

func newTimeline(out *os.File) *timeline {
	_, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS)
	terminal := err == nil && os.Getenv("TERM") != "dumb"
	return &timeline{begun: time.Now(), terminal: terminal, colour: terminal && os.Getenv("NO_COLOR") == "", out: out}
}

// say prints a line.
func (t *timeline) say(s speaker, format string, args ...any) {
	t.line(s, s.colour, fmt.Sprintf(format, args...))
}

// bad prints a line that nobody should miss.
func (t *timeline) bad(s speaker, format string, args ...any) {
	t.line(s, red, fmt.Sprintf(format, args...))
}

func (t *timeline) line(s speaker, colour, text string) {
	at := time.Since(t.begun)
	stamp := fmt.Sprintf("%3d:%04.1f", int(at.Minutes()), at.Seconds()-60*float64(int(at.Minutes())))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	_, _ = fmt.Fprintf(t.out, "%s  %s %s\n", t.paint(dim, stamp), t.paint(s.colour, fmt.Sprintf("%-9s", s.name)), t.paintIf(colour == red || s == own, colour, text))
	t.draw()
}

// block prints text as it is, without time.
func (t *timeline) block(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	_, _ = io.WriteString(t.out, text)
	t.draw()
}

// show changes the status line; an empty one removes it.
func (t *timeline) show(status string) {
	if !t.terminal {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	t.status = status
	t.draw()
}

// wipe and draw take the status line away and put it back. Called with mu held.
func (t *timeline) wipe() {
	if t.status != "" {
		_, _ = io.WriteString(t.out, "\r\x1b[K")
	}
}

func (t *timeline) draw() {
	if t.status == "" {
		return
	}
	text := t.status
	if size, err := unix.IoctlGetWinsize(unix.Stdout, unix.TIOCGWINSZ); err == nil && size.Col > 0 && len(text) >= int(size.Col) {
		text = text[:size.Col-1] // a line that wraps could not be wiped
	}
	_, _ = io.WriteString(t.out, t.paint(dim, text))
}

func (t *timeline) paint(colour, text string) string { return t.paintIf(true, colour, text) }

func (t *timeline) paintIf(really bool, colour, text string) string {
	if !t.colour || !really || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
