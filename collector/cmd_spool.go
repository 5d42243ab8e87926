package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"spillway/collector/internal/app"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/spool"
)

func spoolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "spool",
		Short: "Look at, check and deliver the spool of a collector that does not run",
		Long: `Works on the spool of a collector that does not run: its box died, or it cannot
start. Nothing in the data directory changes, which may be on a volume mounted
read-only, but for export --drain.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(spoolListCommand(), spoolVerifyCommand(), spoolExportCommand())
	return cmd
}

// inspected is a lane's spool as ls and verify show it.
type inspected struct {
	Lane sink.Lane `json:"lane"`
	*spool.Inspection
	Verified *spool.Verified `json:"verified,omitempty"`
}

// inspect looks at the lanes' spools, unless a collector has them open.
func (r *rescue) inspect(force bool) ([]inspected, error) {
	cfg, err := r.load()
	if err != nil {
		return nil, err
	}
	lanes, err := r.lanes()
	if err != nil {
		return nil, err
	}
	if err := exists(filepath.Join(cfg.DataDir, "spool")); err != nil {
		return nil, err
	}
	var all []inspected
	for _, lane := range lanes {
		i, err := spool.Inspect(filepath.Join(cfg.DataDir, "spool", string(lane)))
		if err != nil {
			return nil, err
		}
		if i.RunningPID != 0 && !force {
			return nil, fmt.Errorf("%w; its health report says how the backlog is, or use --force: what the collector changes meanwhile may then look damaged",
				&spool.LockedError{Dir: i.Dir, PID: max(i.RunningPID, 0)})
		}
		all = append(all, inspected{Lane: lane, Inspection: i})
	}
	return all, nil
}

func spoolListCommand() *cobra.Command {
	var r rescue
	var force bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the segments: what is in them, and what of it was delivered",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := r.inspect(force)
			if err != nil {
				return err
			}
			return r.answer(cmd, all, func(w io.Writer) {
				row(w, "LANE", "SEGMENT", "STATE", "RECORDS", "WAITING", "FIRST SEQ", "LAST SEQ", "SIZE", "FIRST RECEIVED", "PROBLEM")
				for _, i := range all {
					for _, s := range i.Segments {
						row(w, i.Lane, s.File, s.State, s.Records, s.Waiting(), s.FirstSeq, s.LastSeq, size(s.Bytes), s.FirstAt, s.Problem)
					}
				}
				for _, i := range all {
					_, _ = fmt.Fprintf(w, "\n%s lane: %d records wait in %d segments; acks %s; %d emptied segments (%s); %d files set aside as damaged (%s)\n",
						i.Lane, i.Waiting(), len(i.Segments), found(i.AcksFound), i.Spares, size(i.SpareBytes), i.SetAside, size(i.AsideBytes))
					for _, d := range i.Missing {
						_, _ = fmt.Fprintln(w, "missing:", d)
					}
					for _, name := range i.Foreign {
						_, _ = fmt.Fprintln(w, "not the spool's:", name)
					}
				}
			})
		},
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "look although a collector has the spool open")
	return cmd
}

func found(ok bool) string {
	if ok {
		return "saved"
	}
	return "not found, so that everything counts as waiting"
}

func spoolVerifyCommand() *cobra.Command {
	var r rescue
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read every record and check it; exit code 1 if any is damaged",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := r.inspect(false)
			if err != nil {
				return err
			}
			ctx, release := r.until(cmd.Context())
			defer release()
			damage, lost := 0, uint64(0)
			for n := range all {
				v, err := all[n].Verify(ctx)
				if err != nil {
					return err
				}
				all[n].Verified = &v
				damage, lost = damage+len(v.Damage), lost+v.Lost
			}
			err = r.answer(cmd, all, func(w io.Writer) {
				for _, i := range all {
					v := i.Verified
					_, _ = fmt.Fprintf(w, "%s lane: %d records (%s) in %d segments are whole, %d wait for delivery", i.Lane, v.Records, size(v.Bytes), v.Segments, i.Waiting()-min(v.Lost, i.Waiting()))
					if !v.LastAt.IsZero() {
						_, _ = fmt.Fprintf(w, ", the last was received %s", v.LastAt.Format("2006-01-02T15:04:05Z"))
					}
					_, _ = fmt.Fprintln(w)
					for _, d := range v.Damage {
						_, _ = fmt.Fprintln(w, "damaged:", d)
					}
				}
			})
			if err == nil && damage > 0 {
				err = fmt.Errorf("%d places are damaged, %d records that were not delivered are lost; all others are delivered by `spool export`, or by a collector that starts on this directory", damage, lost)
			}
			return err
		},
	}
	r.flags(cmd)
	return cmd
}

func spoolExportCommand() *cobra.Command {
	var r rescue
	var drain bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Deliver what waits in the spool",
		Long: `Delivers the records that wait in the spool as a collector would: batched, tried
again, waiting for a destination that is down. Exit code 1 if not all of them
arrived.

Without --drain nothing in the data directory changes: a second export, or a
collector that starts on it, delivers the same records again. With --drain what
was delivered is acked, as by a running collector, and the spool is empty after.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := r.loadSink()
			if err != nil {
				return err
			}
			lanes, err := r.lanes()
			if err != nil {
				return err
			}
			if err := exists(filepath.Join(cfg.DataDir, "spool")); err != nil {
				return err
			}
			log, err := r.log(cfg, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, release := r.until(cmd.Context())
			defer release()
			done, err := app.Export{Config: cfg, Lanes: lanes, Drain: drain, Log: log}.Run(ctx)
			if err != nil {
				return err
			}
			err = r.answer(cmd, done, func(w io.Writer) {
				row(w, "LANE", "WAITING", "DELIVERED", "DEAD LETTERS", "REFUSED", "DAMAGED", "LEFT", "REASON")
				for _, l := range done {
					row(w, l.Lane, l.Waiting, l.Delivered, l.DeadLetters, l.Refused, l.Damaged, l.Left, l.Reason)
				}
			})
			for _, l := range done {
				if err == nil && !l.Complete() {
					err = fmt.Errorf("not every record has arrived: %d are left, %d were refused, %d are damaged in the %s lane", l.Left, l.Refused, l.Damaged, l.Lane)
				}
			}
			return err
		},
	}
	r.flags(cmd)
	r.sinkFlags(cmd)
	cmd.Flags().BoolVar(&drain, "drain", false, "take the spool as a collector does and ack what was delivered")
	return cmd
}
