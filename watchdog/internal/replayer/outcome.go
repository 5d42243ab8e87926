package replayer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Report is what the report of `spillway-collector replay --json` is read for.
type Report struct {
	Objects struct {
		Finished int `json:"finished"`
		Damaged  int `json:"damaged"` // of these, not readable in full
		Foreign  int `json:"foreign"` // no archived objects
		Failed   int `json:"failed"`
		Others   int `json:"done_by_others"` // meanwhile
	} `json:"objects"`
	Events struct {
		Delivered   int64 `json:"delivered"`
		DeadLetters int64 `json:"dead_letters"`
		Skipped     int64 `json:"skipped"` // duplicates avoided, as are Twins
		Twins       int64 `json:"twins"`
		Damaged     int64 `json:"damaged"`
	} `json:"events"`
	Bytes    int64 `json:"bytes"` // of events
	Selected int   `json:"objects_selected"`
	Stopped  bool  `json:"stopped"` // before its end
}

// parseReport returns nil when text is no report.
func parseReport(text []byte) *Report {
	var probe struct {
		Objects *json.RawMessage `json:"objects"`
	}
	var r Report
	if json.Unmarshal(text, &probe) != nil || probe.Objects == nil || json.Unmarshal(text, &r) != nil {
		return nil
	}
	return &r
}

// Outcome is how one replay ended.
type Outcome struct {
	Err    error   // nil: exit code 0
	Report *Report // nil when it printed none
	Output string  // the end of what it said besides
	Took   time.Duration
}

// finished tells whether another replay could bring nothing more: all is
// replayed that can be. Objects that are damaged, and keys that are none, are
// there for people, however often they are replayed.
func (o Outcome) finished() bool {
	if o.Err == nil {
		return true
	}
	exit, ok := errors.AsType[*exec.ExitError](o.Err)
	r := o.Report
	return ok && exit.ExitCode() == 1 && r != nil && !r.Stopped && r.Objects.Failed == 0 && r.Objects.Damaged+r.Objects.Foreign > 0
}

// sums says what a replay came to.
func (o Outcome) sums() string {
	r := o.Report
	if r == nil {
		return "it printed no report"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %d objects and %d events (%s) replayed in %s", r.Objects.Finished, r.Selected, r.Events.Delivered, size(r.Bytes), length(o.Took))
	for _, more := range []struct {
		n    int64
		what string
	}{
		{int64(r.Objects.Others), "objects replayed by others"},
		{r.Events.Skipped + r.Events.Twins, "events not sent again"},
		{r.Events.DeadLetters, "events kept as dead letters"},
		{int64(r.Objects.Failed), "objects could not be replayed"},
		{int64(r.Objects.Damaged), "objects are damaged"},
		{r.Events.Damaged, "lines or ends of objects could not be read"},
		{int64(r.Objects.Foreign), "keys are no archived objects"},
	} {
		if more.n > 0 {
			fmt.Fprintf(&text, ", %d %s", more.n, more.what)
		}
	}
	return text.String()
}

// lastLine is where a program that fails says why.
func (o Outcome) lastLine() string {
	const most = 300
	line := strings.TrimSpace(o.Output[strings.LastIndexByte(o.Output, '\n')+1:])
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + " ..."
	}
	return line
}

func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// length writes a duration in seconds, or finer when it is short.
func length(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
