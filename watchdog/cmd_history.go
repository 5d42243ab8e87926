package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"spillway/shared/configfile"
	"spillway/watchdog/internal/journal"
)

func historyCommand() *cobra.Command {
	var f journal.Filter
	var since, until string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show what was decided and done, from the journal",
		Long:  "Shows the journal, oldest first. It needs no running watchdog.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for flag, t := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
				text := map[string]string{"since": since, "until": until}[flag]
				if text == "" {
					continue
				}
				at, err := parseTime(text, time.Now())
				if err != nil {
					return usageError{fmt.Errorf("--%s: %w", flag, err)}
				}
				*t = at
			}
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			entries, damaged, err := journal.Read(cfg.JournalFile(), f)
			if err != nil {
				return err
			}
			return printEntries(cmd.OutOrStdout(), entries, damaged, asJSON)
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "from that `TIME` on: 2h (ago), 03:15, or 2026-12-01T03:15:00Z")
	cmd.Flags().StringVar(&until, "until", "", "before that `TIME`")
	cmd.Flags().StringSliceVar(&f.Events, "event", nil, "only these `EVENTS`, like action_start,action_end")
	cmd.Flags().StringVar(&f.ActionID, "action", "", "only what belongs to the action `ID`")
	cmd.Flags().IntVarP(&f.Last, "last", "n", 50, "only the last `N`; 0 for all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the entries as they are, one JSON object a line")
	return cmd
}

func printEntries(w io.Writer, entries []journal.Entry, damaged int, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		for _, entry := range entries {
			if err := e.Encode(entry); err != nil {
				return err
			}
		}
		return nil
	}
	for _, e := range entries {
		who := ""
		if e.By != "" {
			who = " (" + e.By + ")"
		}
		if e.Enforced != nil && !*e.Enforced {
			who += " (dry run)"
		}
		if _, err := fmt.Fprintf(w, "%s  %-12s  %s%s\n", e.At.Local().Format(time.DateTime), e.Event, e.Sentence, who); err != nil {
			return err
		}
	}
	if damaged > 0 {
		_, err := fmt.Fprintf(w, "%d lines of the journal could not be read and were passed over.\n", damaged)
		return err
	}
	return nil
}

// parseTime reads a point in time as people give it: a duration ago, a time of
// the last 24 hours, or a whole date.
func parseTime(text string, now time.Time) (time.Time, error) {
	if d, err := configfile.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		t, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil {
			continue
		}
		at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		if at.After(now) {
			at = at.AddDate(0, 0, -1)
		}
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q is no time: want 2h (ago), 03:15, or 2026-12-01T03:15:00Z", text)
}
