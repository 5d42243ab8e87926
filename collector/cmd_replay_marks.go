package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spillway/collector/internal/replay"
	"spillway/collector/internal/sink"
)

func replayStatusCommand() *cobra.Command {
	var f replayPlace
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say which objects wait, which are claimed by whom, and which are done",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.open(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer p.close()
			plan, err := replay.Look(cmd.Context(), p.store, p.selection)
			if err != nil {
				return err
			}
			s, err := statusOf(cmd.Context(), p.store, plan)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(s)
			}
			return s.print(cmd.OutOrStdout())
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// replayStatus is what `replay status` prints.
type replayStatus struct {
	Lanes    []laneStatus   `json:"lanes"`
	OldestAt *time.Time     `json:"oldest_event_at,omitempty"` // of what waits
	Claimed  []markedObject `json:"claimed,omitempty"`
	Damaged  []markedObject `json:"damaged,omitempty"`
	Foreign  []string       `json:"foreign,omitempty"`
}

type laneStatus struct {
	Lane         sink.Lane  `json:"lane"`
	Waiting      int        `json:"waiting"` // the claimed ones included
	WaitingBytes int64      `json:"waiting_bytes"`
	Claimed      int        `json:"claimed"`
	Done         int        `json:"done"`
	Damaged      int        `json:"done_damaged"`
	OldestHour   *time.Time `json:"oldest_hour,omitempty"`
}

type markedObject struct {
	Object string      `json:"object"`
	Mark   replay.Mark `json:"mark"`
}

func statusOf(ctx context.Context, store replay.Store, plan *replay.Plan) (replayStatus, error) {
	s := replayStatus{Foreign: plan.Foreign}
	for _, lane := range sink.Lanes() {
		l := laneStatus{Lane: lane, Claimed: count(plan.Claimed, lane), Done: count(plan.Done, lane), Damaged: count(plan.Damaged, lane)}
		for _, o := range plan.Of(lane) {
			if l.Waiting++; l.OldestHour == nil {
				hour := o.Name.Hour
				l.OldestHour = &hour
			}
			l.WaitingBytes += o.Size
		}
		s.Lanes = append(s.Lanes, l)
	}
	if len(plan.Waiting) > 0 {
		if at, err := replay.FirstAt(ctx, store, plan.Waiting[0]); err == nil {
			s.OldestAt = &at
		}
	}
	var err error
	if s.Claimed, err = marked(ctx, store, plan.Claimed, func(m replay.Marks) string { return m.Claim }); err != nil {
		return s, err
	}
	s.Damaged, err = marked(ctx, store, plan.Damaged, func(m replay.Marks) string { return m.Damaged })
	return s, err
}

func count(objects []replay.Object, lane sink.Lane) (n int) {
	for _, o := range objects {
		if o.Name.Lane == lane {
			n++
		}
	}
	return n
}

// marked reads the marks of objects. One that is gone meanwhile is left out.
func marked(ctx context.Context, store replay.Store, objects []replay.Object, which func(replay.Marks) string) ([]markedObject, error) {
	var found []markedObject
	for _, o := range objects {
		m, err := store.ReadMark(ctx, which(o.Marks()))
		if errors.Is(err, replay.ErrNoMark) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, markedObject{o.Key, m})
	}
	return found, nil
}

func (s replayStatus) print(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "LANE\tWAITING\tBYTES\tCLAIMED\tDONE\tDONE, DAMAGED\tOLDEST HOUR")
	for _, l := range s.Lanes {
		oldest := "-"
		if l.OldestHour != nil {
			oldest = l.OldestHour.Format("2006-01-02 15:00")
		}
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", l.Lane, l.Waiting, l.WaitingBytes, l.Claimed, l.Done, l.Damaged, oldest)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if s.OldestAt != nil {
		_, _ = fmt.Fprintf(out, "oldest event that waits: %s\n", s.OldestAt.Format(time.RFC3339))
	}
	for _, c := range s.Claimed {
		state := "claimed by"
		if c.Mark.Released {
			state = "stopped by"
		}
		_, _ = fmt.Fprintf(out, "%s: %s %s, line %d, %s\n", c.Object, state, c.Mark.By, c.Mark.Line, c.Mark.At.Format(time.RFC3339))
	}
	for _, d := range s.Damaged {
		_, _ = fmt.Fprintf(out, "%s: done %s, %d faults\n", d.Object, d.Mark.At.Format(time.RFC3339), d.Mark.Damaged)
	}
	for _, key := range s.Foreign {
		_, _ = fmt.Fprintf(out, "%s: not an archived object\n", key)
	}
	return nil
}

func replayForgetCommand() *cobra.Command {
	var f replayPlace
	var all, claims, dryRun bool
	cmd := &cobra.Command{
		Use:   "forget",
		Short: "Clear the marks of objects, so that they are replayed again from their beginning",
		Long: `Clears the marks of the objects selected by --lane, --instance, --since and
--until, or of --all. The next replay sends them again from their beginning:
every event in them arrives once more.

The claims of replayers at work are left alone unless --claims is given.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if selects := f.lane != "" || len(f.instances) > 0 || f.since != "" || f.until != ""; selects == all {
				return usageError{errors.New("say which objects are to be replayed again: --lane, --instance, --since, --until, or --all for every one")}
			}
			p, err := f.open(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer p.close()
			plan, err := replay.Look(cmd.Context(), p.store, p.selection)
			if err != nil {
				return err
			}
			n, err := replay.Forget(cmd.Context(), p.store, plan, claims, dryRun)
			verb := "cleared"
			if dryRun {
				verb = "would be cleared"
			}
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "the marks of %d objects %s\n", n, verb)
			return err
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every object below the place")
	cmd.Flags().BoolVar(&claims, "claims", false, "claims of replayers at work too; make sure that there are none")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say how many")
	return cmd
}
