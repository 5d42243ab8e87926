package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/journal"
)

func whyCommand() *cobra.Command {
	var asJSON bool
	var at string
	cmd := &cobra.Command{
		Use:   "why",
		Short: "Explain what the watchdog does now, and why it does no more",
		Long: `Explains what the watchdog does now and why it does no more. With --at it shows
what the journal says of that time.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at != "" {
				return whyThen(cmd, at, asJSON)
			}
			s, running, err := situation(cmd)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				return printJSON(out, s.Explain)
			}
			if !running {
				_, _ = fmt.Fprintln(out, notRunning)
			}
			return printWhy(out, view{s})
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "show that `TIME`: 2h (ago), 03:15, or 2026-12-01T03:15:00Z")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func printWhy(w io.Writer, s view) error {
	e := s.Explain
	_, _ = fmt.Fprintln(w, e.Summary)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range e.Rules {
		if r.Status == decide.Off {
			continue
		}
		value := r.Value
		if value == "" {
			value = "-"
		}
		if r.Threshold != "" {
			value += " of " + r.Threshold
		}
		_, _ = fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", r.Name, value, r.Status, r.Text)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, text := range blocked(e) {
		_, _ = fmt.Fprintln(w, "Not done: "+text)
	}
	if e.Next != "" {
		_, _ = fmt.Fprintln(w, "Next: "+e.Next)
	}
	if last := s.State.Last; last != nil {
		_, _ = fmt.Fprintf(w, "Last act: %s %s, %s at %s\n", last.Kind, last.ID, last.End, s.when(last.At))
	}
	return nil
}

// whyThen shows the journal around a time: what led there and what followed.
func whyThen(cmd *cobra.Command, at string, asJSON bool) error {
	t, err := parseTime(at, time.Now())
	if err != nil {
		return usageError{fmt.Errorf("--at: %w", err)}
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	before, damaged, err := journal.Read(cfg.JournalFile(), journal.Filter{Until: t.Add(time.Second), Last: 10})
	if err != nil {
		return err
	}
	after, _, err := journal.Read(cfg.JournalFile(), journal.Filter{Since: t.Add(time.Second), Until: t.Add(10 * time.Minute)})
	if err != nil {
		return err
	}
	return printEntries(cmd.OutOrStdout(), append(before, after...), damaged, asJSON)
}
