package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"spillway/watchdog/internal/app"
	"spillway/watchdog/internal/control"
	"spillway/watchdog/internal/decide"
)

// situation asks the running watchdog how things are. When none runs, it looks
// for itself and says so in running.
func situation(cmd *cobra.Command) (s control.Status, running bool, err error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return s, false, err
	}
	s, err = newClient(cfg).status(cmd.Context())
	if !errors.Is(err, errNotRunning) {
		return s, err == nil, err
	}
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	s, err = app.Look(cmd.Context(), cfg, logrus.NewEntry(quiet))
	return s, false, err
}

const notRunning = "The watchdog is NOT running. This is how things look without it:"

func statusCommand() *cobra.Command {
	var asJSON, check bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how the collector and the watchdog are",
		Long: `Says how the collector and the watchdog are. With --check it prints one line
and exits 0 (ok), 1 (warning), 2 (critical) or 3 (unknown), as monitoring wants.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, running, err := situation(cmd)
			out := cmd.OutOrStdout()
			switch {
			case check:
				verdict, sentence := judge(s, running, err)
				_, _ = fmt.Fprintf(out, "%s - %s\n", verdict, sentence)
				if verdict == 0 {
					return nil
				}
				return verdict
			case err != nil:
				return err
			case asJSON:
				return printJSON(out, s)
			}
			if !running {
				_, _ = fmt.Fprintln(out, notRunning)
			}
			return printStatus(out, view{s}, running)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything as JSON")
	cmd.Flags().BoolVar(&check, "check", false, "print one line and exit as a monitoring plugin")
	return cmd
}

// checkResult is the verdict of status --check, and its exit code.
type checkResult int

func (c checkResult) Error() string { return c.String() }

func (c checkResult) String() string {
	return [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[c]
}

// judge says in one line how things are.
func judge(s control.Status, running bool, err error) (checkResult, string) {
	switch {
	case err != nil:
		return 3, err.Error()
	case !running:
		return 2, errNotRunning.Error()
	case s.At.IsZero():
		return 3, "the watchdog has just started"
	}
	st := s.State
	summary := s.Explain.Summary
	switch {
	case st.Authority.Phase == decide.HandedOver, st.Mode.BothFail, st.Liveness.Phase == decide.Down:
		return 2, summary
	case st.Mode.Phase == decide.Primary && st.Action == nil && len(firing(s.Explain, decide.SinkSick, decide.ProcessSick)) > 0:
		return 2, summary
	case st.Mode.Phase != decide.Primary, st.Authority.Phase != decide.Auto, st.Liveness.Phase != decide.Up, troubled(s.Explain):
		return 1, summary
	}
	return 0, summary
}

func firing(e decide.Explain, classes ...decide.Class) []string {
	var names []string
	for _, r := range e.Rules {
		for _, c := range classes {
			if r.Class == c && r.Status == decide.Firing {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

func troubled(e decide.Explain) bool {
	for _, r := range e.Rules {
		if r.Status == decide.Firing || r.Status == decide.Warn {
			return true
		}
	}
	return false
}

func printStatus(w io.Writer, s view, running bool) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	if running {
		line("Watchdog", "%s, version %s, pid %d, up %s", s.Instance, s.Version, s.PID, short(time.Since(s.StartedAt)))
		if s.At.IsZero() {
			line("", "it has just started: no round is over yet")
			_, err := io.WriteString(w, b.String())
			return err
		}
		if age := time.Since(s.At); age > 3*s.Policy.Poll.Interval {
			line("", "its last round was %s ago: it does not come round!", short(age))
		}
	}
	st, file := s.State, s.Observation.ModeFile
	line("Mode", "%s since %s", strings.ToUpper(string(st.Mode.Phase)), s.when(st.Mode.Since))
	if file.Err != "" {
		line("", "the mode file cannot be used: %s", file.Err)
	} else if file.File.Rev > 0 {
		line("", "mode file: %s, by %s at %s: %s", file.File.Mode, file.File.By, clockTime(file.File.Since), file.File.Reason)
	}
	line("Authority", "%s", authority(s))
	printCollector(line, s)
	if a := st.Action; a != nil {
		line("Action", "%s %s: %s%s, for %s of %s", a.Kind, a.ID, a.Step, by(a.Rung), short(st.Now.Sub(a.StepAt)), short(a.Timeout))
	}
	line("Budget", "%d of %d acts, flaps %d%s", st.Budget.Tokens, s.Policy.Budget.Tokens, st.Mode.Flaps, hold(st))
	line("Now", "%s", s.Explain.Summary)
	if s.Explain.Next != "" {
		line("Next", "%s", s.Explain.Next)
	}
	for _, text := range blocked(s.Explain) {
		line("Not done", "%s", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printCollector(line func(string, string, ...any), s view) {
	r := s.LastReport
	if r == nil {
		line("Collector", "%s, no report from %s (%s: %s)", s.State.Liveness.Phase, s.Collector, s.Observation.Reach, s.Observation.Detail)
		return
	}
	line("Collector", "%s, %s since %s, version %s, pid %d, runs %s", s.State.Liveness.Phase, r.State, clockTime(r.StateSince), r.Version, r.PID, r.Mode)
	if s.Observation.Reach != decide.ReachOK {
		line("", "last report %s ago, now %s: %s", short(s.At.Sub(s.LastReportAt)), s.Observation.Reach, s.Observation.Detail)
	}
	line("Backlog", "%d events, %s%s", r.Backlog.Events, size(r.Backlog.Bytes), full(r))
	kinesis := "has never been written to"
	if age := r.Kinesis.LastWriteAgeSeconds; age != nil {
		kinesis = "last write " + short(seconds(*age)) + " ago"
	}
	if r.Kinesis.ConsecutiveFailures > 0 {
		kinesis += fmt.Sprintf(", %d failures in a row (%s): %s", r.Kinesis.ConsecutiveFailures, r.Kinesis.ErrorClass, r.Kinesis.LastError)
	}
	line("Kinesis", "%s", kinesis)
	switch f := r.Fallback; {
	case !f.Configured:
		line("Fallback", "not configured: there is nowhere to divert to")
	case f.Ready:
		line("Fallback", "ready")
	default:
		line("Fallback", "NOT ready: %s", f.LastError)
	}
	for _, p := range r.Problems {
		line("Problem", "%s", p)
	}
}

func authority(s view) string {
	a := s.State.Authority
	text := string(a.Phase)
	order, ok := a.Orders[a.Phase]
	if !ok {
		return text
	}
	text += fmt.Sprintf(", by %s since %s: %s", order.By, s.when(order.At), order.Reason)
	if order.Until != 0 {
		text += fmt.Sprintf("; ends in %s", short(order.Until.Sub(s.State.Now)))
	}
	if order.Suppressed > 0 {
		text += fmt.Sprintf("; %d acts suppressed so far", order.Suppressed)
	}
	return text
}

func hold(s decide.State) string {
	if left := s.Mode.HoldUntil.Sub(s.Now); left > 0 {
		return ", no return for another " + short(left)
	}
	return ""
}

func by(r decide.Rung) string {
	if r == "" {
		return ""
	}
	return " by " + string(r)
}
