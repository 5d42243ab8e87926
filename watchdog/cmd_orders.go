package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spillway/shared/configfile"
	"spillway/shared/mode"
	"spillway/watchdog/internal/control"
	"spillway/watchdog/internal/decide"
)

// orderTimeout is how long the watchdog may take to answer an order: one round
// of its loop, with every question running into its timeout.
const orderTimeout = 30 * time.Second

// order is what the commands that give orders have in common.
type order struct {
	reason string
	by     string
	length string
	wait   string // how long to follow the order; empty does not
	asJSON bool
}

func (o *order) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for the people after you (required)")
	cmd.Flags().StringVar(&o.by, "by", "", "who gives the order (default: you)")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print the answer as JSON")
}

func (o *order) lengthFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&o.length, "for", "", usage)
}

// give hands c to the watchdog, or leaves it for one that does not run.
func (o *order) give(cmd *cobra.Command, c decide.Command) error {
	if strings.TrimSpace(o.reason) == "" {
		return usageError{errors.New(`give a --reason: it stands in the journal, the mode file and the status`)}
	}
	if o.length != "" {
		d, err := configfile.ParseDuration(o.length)
		if err != nil || d <= 0 {
			return usageError{fmt.Errorf("--for: %q is no time to come: want one like 30m, 2h or 1d", o.length)}
		}
		c.For = d
	}
	c.Reason, c.By = o.reason, o.by
	if c.By == "" {
		c.By = person()
	}
	patience := time.Duration(0)
	if o.wait != "" {
		d, err := configfile.ParseDuration(o.wait)
		if err != nil || d <= 0 {
			return usageError{fmt.Errorf("--wait: %q is no time to come: want one like 5m", o.wait)}
		}
		patience = d
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), orderTimeout)
	defer cancel()
	client := newClient(cfg)
	var answer control.Answer
	err = client.call(ctx, http.MethodPost, control.PathCommand, c, &answer)
	if errors.Is(err, errNotRunning) {
		if err := control.Leave(cfg.CommandsDir(), c); err != nil {
			return fmt.Errorf("%w, and the order cannot be left for it: %w", errNotRunning, err)
		}
		_, _ = fmt.Fprintln(cmd.OutOrStdout(), "The watchdog is not running. The order is kept and will be carried out when it starts.")
		if patience > 0 {
			return fmt.Errorf("%w, so nobody carries out the order now", errNotRunning)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := o.print(cmd.OutOrStdout(), answer); err != nil || patience == 0 {
		return err
	}
	ctx, cancelWait := context.WithTimeout(cmd.Context(), patience)
	defer cancelWait()
	end, err := follow(ctx, client, answer.Command, c.Mode)
	if err == nil && !o.asJSON {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), end)
	}
	return err
}

func (o *order) print(w io.Writer, answer control.Answer) error {
	if o.asJSON {
		return printJSON(w, answer)
	}
	for _, n := range answer.Notes {
		_, _ = fmt.Fprintln(w, n.Text)
	}
	for _, b := range answer.Blocked {
		_, _ = fmt.Fprintln(w, "Not done: "+b)
	}
	_, err := fmt.Fprintln(w, answer.Summary)
	return err
}

func switchCommand() *cobra.Command {
	var o order
	var pin bool
	cmd := &cobra.Command{
		Use:   "switch {primary|fallback} --reason TEXT",
		Short: "Move the collector to the other config, or back, by your order",
		Long: `Moves the collector to the fallback or back to the primary. Your order skips
the rules, the hold and the budget. Without --pin or --for the watchdog carries
on from there by its own rules; with them it stays where you put it until the
time is over or you say resume.

It returns when the order is taken. With --wait it follows the order to its end:
exit 0 when the collector was seen running as ordered, 1 when that failed, was
called off, or is not over in time.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			to, err := mode.Parse(given[0])
			if err != nil {
				return usageError{err}
			}
			kind := decide.CommandSwitch
			if pin || o.length != "" {
				kind = decide.CommandPin
			}
			return o.give(cmd, decide.Command{Kind: kind, Mode: to})
		},
	}
	o.flags(cmd)
	o.lengthFlag(cmd, "stay there for so `LONG`, like 2h")
	cmd.Flags().StringVar(&o.wait, "wait", "", "follow the order until it was seen to work or failed, for so `LONG` at most (--wait alone: 5m, else --wait=LONG)")
	cmd.Flags().Lookup("wait").NoOptDefVal = "5m"
	cmd.Flags().BoolVar(&pin, "pin", false, "stay there until resume, or until --for is over")
	return cmd
}

func pauseCommand() *cobra.Command {
	var o order
	cmd := &cobra.Command{
		Use:   "pause [--for LONG] --reason TEXT",
		Short: "Watch and tell, but do nothing",
		Long: `Keeps the watchdog from acting. It goes on watching and says what it would have
done. A pause always ends: after --for, after pause.default without it, or with
resume.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.give(cmd, decide.Command{Kind: decide.CommandPause})
		},
	}
	o.flags(cmd)
	o.lengthFlag(cmd, "pause for so `LONG`, like 2h (default: pause.default of the config)")
	return cmd
}

func simpleOrder(kind decide.CommandKind, use, short, long string) *cobra.Command {
	var o order
	cmd := &cobra.Command{
		Use: use + " --reason TEXT", Short: short, Long: long, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.give(cmd, decide.Command{Kind: kind}) },
	}
	o.flags(cmd)
	return cmd
}

func resumeCommand() *cobra.Command {
	return simpleOrder(decide.CommandResume, "resume", "End a pause, a pin or a dry run", "")
}

func ackCommand() *cobra.Command {
	return simpleOrder(decide.CommandAck, "ack", "Let the watchdog act again after it handed over to people",
		"Ends handed_over, and forgets the hold and the flaps. Say it when the cause is mended.")
}

func dryRunCommand() *cobra.Command {
	return simpleOrder(decide.CommandDryRun, "dry-run", "Decide, count and tell, but never act, until resume", "")
}

func noteCommand() *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use:   "note TEXT",
		Short: "Write a line into the journal",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if by == "" {
				by = person()
			}
			var answer map[string]string
			return newClient(cfg).call(cmd.Context(), http.MethodPost, control.PathNote, map[string]string{"By": by, "Text": given[0]}, &answer)
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "who writes it (default: you)")
	return cmd
}
