package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spillway/collector/internal/app"
	"spillway/collector/internal/deadletter"
)

func deadLetterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead-letter",
		Short: "List the records that could not be delivered, and send them again",
		Long: `Dead letters are records that the destination will not take at any time, and
whole requests too large to become records. The collector may run meanwhile.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(deadLetterListCommand(), deadLetterRetryCommand())
	return cmd
}

// letter is a dead letter as ls shows it.
type letter struct {
	File       string    `json:"file"`
	Line       int       `json:"line"` // from 1; blank lines are not counted
	Lane       string    `json:"lane,omitempty"`
	Code       string    `json:"code,omitempty"`
	Reason     string    `json:"reason"`
	Bytes      int       `json:"bytes"`
	At         time.Time `json:"at,omitzero"`
	ReceivedAt time.Time `json:"received_at,omitzero"`
	Damaged    bool      `json:"damaged,omitempty"`
}

func deadLetterListCommand() *cobra.Command {
	var r rescue
	var match string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List dead letters with the reason of each",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := r.load()
			if err != nil {
				return err
			}
			if _, err := r.lanes(); err != nil {
				return err
			}
			dir := filepath.Join(cfg.DataDir, "dead-letters")
			if err := exists(dir); err != nil {
				return err
			}
			files, err := deadletter.List(dir)
			if err != nil {
				return err
			}
			all := []letter{}
			for _, f := range files {
				found, err := read(f.Path)
				if err != nil {
					return err
				}
				all = append(all, found...)
			}
			all = slices.DeleteFunc(all, func(l letter) bool {
				return r.lane != "" && l.Lane != r.lane || !strings.Contains(l.Reason, match) && !strings.Contains(l.Code, match)
			})
			return r.answer(cmd, all, func(w io.Writer) {
				row(w, "FILE", "LINE", "LANE", "CODE", "SIZE", "AT", "REASON")
				for _, l := range all {
					row(w, l.File, l.Line, l.Lane, l.Code, size(int64(l.Bytes)), l.At, l.Reason)
				}
				_, _ = fmt.Fprintf(w, "\n%d dead letters\n", len(all))
			})
		},
	}
	r.flags(cmd)
	cmd.Flags().StringVar(&match, "match", "", "only letters whose reason or code contains this `TEXT`")
	return cmd
}

// read lists the letters in a file.
func read(path string) ([]letter, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // dealt with since
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var all []letter
	n := 0
	for e, err := range deadletter.Read(f) {
		n++
		l := letter{File: filepath.Base(path), Line: n, Lane: e.Lane, Code: e.Code, Reason: e.Reason, Bytes: len(e.Data), At: e.At, ReceivedAt: e.ReceivedAt}
		if damaged, ok := errors.AsType[*deadletter.DamagedError](err); ok {
			n = damaged.Line
			l.Line, l.Reason, l.Damaged = n, "this line is no dead letter: "+damaged.Err.Error(), true
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func deadLetterRetryCommand() *cobra.Command {
	var r rescue
	var retry app.Retry
	cmd := &cobra.Command{
		Use:   "retry",
		Short: "Send dead letters again",
		Long: `Sends dead letters again, to where the config or --to says. What arrives is taken
out of the files; what is refused again stays, with the new reason. The whole
payload of a request that was too large is cut as it would be now; if that does
not help, the answer says which limit to raise. Exit code 1 if any of the chosen
letters stays.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if retry.Config, err = r.loadSink(); err != nil {
				return err
			}
			if retry.Lanes, err = r.lanes(); err != nil {
				return err
			}
			if err := exists(filepath.Join(retry.Config.DataDir, "dead-letters")); err != nil {
				return err
			}
			if retry.Log, err = r.log(retry.Config, cmd.ErrOrStderr()); err != nil {
				return err
			}
			ctx, release := r.until(cmd.Context())
			defer release()
			done, err := retry.Run(ctx)
			if done == nil {
				done = []app.FileRetry{}
			}
			stay, chosen := 0, 0
			for _, f := range done {
				stay, chosen = stay+f.Chosen-f.Delivered, chosen+f.Chosen
			}
			err = errors.Join(err, r.answer(cmd, done, func(w io.Writer) {
				row(w, "FILE", "CHOSEN", "DELIVERED", "KEPT", "DAMAGED LINES")
				for _, f := range done {
					row(w, f.File, f.Chosen, f.Delivered, f.Kept, f.Damaged)
				}
				for _, f := range done {
					for _, reason := range slices.Sorted(maps.Keys(f.Reasons)) {
						_, _ = fmt.Fprintf(w, "%s: %d stay: %s\n", f.File, f.Reasons[reason], reason)
					}
					if f.Moved != "" {
						_, _ = fmt.Fprintf(w, "%s: lines that are no letters are in %s\n", f.File, f.Moved)
					}
				}
			}))
			if err == nil && stay > 0 && !retry.DryRun {
				err = fmt.Errorf("%d of %d dead letters stay", stay, chosen)
			}
			return err
		},
	}
	r.flags(cmd)
	r.sinkFlags(cmd)
	cmd.Flags().StringVar(&retry.File, "file", "", "only this `FILE`, as ls names it")
	cmd.Flags().StringVar(&retry.Match, "match", "", "only letters whose reason or code contains this `TEXT`")
	cmd.Flags().BoolVar(&retry.DryRun, "dry-run", false, "only say what would be sent and what stands in the way")
	return cmd
}
