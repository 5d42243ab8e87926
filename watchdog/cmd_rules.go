package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spillway/watchdog/internal/decide"
)

func rulesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rules",
		Short: "List the rules of the config as sentences",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			for _, r := range rules(cfg.Policy.Rules) {
				if r.off || r.span == 0 {
					_, _ = fmt.Fprintf(t, "%s\tswitched off\t\n", r.name)
					continue
				}
				_, _ = fmt.Fprintf(t, "%s\t%s, for %s\t%s\n", r.name, r.when, short(r.span), r.then)
			}
			return t.Flush()
		},
	}
}

// What a rule leads to.
const (
	divert  = "divert to the fallback"
	restart = "restart in the same mode, if a second witness agrees"
	tell    = "tell people"
)

type ruleLine struct {
	name string
	when string
	span time.Duration
	then string
	off  bool
}

// rules puts the rules into words, in the order of decide.RuleNames.
func rules(r decide.Rules) []ruleLine {
	over := func(text string, d time.Duration) string { return text + " for more than " + short(d) }
	level := fmt.Sprintf("more than %g %% of the spool's limit waits", r.BacklogBytes.Percent)
	if r.BacklogBytes.Bytes > 0 {
		level = "more than " + r.BacklogBytes.Bytes.String() + " wait"
		if r.BacklogBytes.Percent > 0 {
			level += fmt.Sprintf(", or %g %% of the spool's limit", r.BacklogBytes.Percent)
		}
	}
	full := r.SecondsToFull
	return []ruleLine{
		{"refusing", "trackers are refused for want of room", r.Refusing.For, divert, false},
		{"last_write_age", over("events wait and the sink has taken none", r.LastWriteAge.Threshold), r.LastWriteAge.For, divert, r.LastWriteAge.Threshold == 0},
		{"oldest_event_age", over("the oldest event waits", r.OldestEventAge.Threshold), r.OldestEventAge.For, divert, r.OldestEventAge.Threshold == 0},
		{"backlog_bytes", level, r.BacklogBytes.For, divert, r.BacklogBytes.Percent == 0 && r.BacklogBytes.Bytes == 0},
		{"backlog_events", fmt.Sprintf("more than %d events wait", r.BacklogEvents.Threshold), r.BacklogEvents.For, divert, r.BacklogEvents.Threshold == 0},
		{"seconds_to_full", fmt.Sprintf("the spool will be full within %s, seen over %s and over %s, with %g %% used",
			short(full.Threshold), short(full.Short), short(full.Long), full.FloorPercent), full.For, divert, full.Threshold == 0},
		{"unreachable", "the health report cannot be had", r.Unreachable.For, restart, false},
		{"stalled", over("a part of the collector shows no progress", r.Stalled.Threshold), r.Stalled.For, restart, r.Stalled.Threshold == 0},
		{"disk", "trackers are refused because the disk does not answer", r.Refusing.For, tell, false},
		{"blind", "the report cannot be had but trackers are served", r.Blind.For, tell, false},
		{"foreign", "somebody else answers", r.Foreign.For, tell, false},
		{"inconsistent", "the report contradicts itself", r.Inconsistent.For, tell, false},
		{"slow", "the report takes longer than " + short(r.Slow.Threshold), r.Slow.For, tell, r.Slow.Threshold == 0},
		{"drift", "the collector runs another mode than the mode file says", r.Drift.For, tell, false},
		{"fallback_not_ready", "the fallback would not work if it were needed", r.FallbackNotReady.For, tell, false},
	}
}
