package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"spillway/shared/buildinfo"
	"spillway/shared/configfile"
	"spillway/watchdog/internal/app"
)

func checkConfigCommand() *cobra.Command {
	var offline bool
	cmd := &cobra.Command{
		Use:   "check-config [FILE]",
		Short: "Say what is wrong with the config, and try what it will need",
		Long: `Checks the config and its timing, then tries, without lasting effect, what the
watchdog will have to do: write its state and the mode file, reach the collector,
signal and restart it. Run it as the user that the watchdog runs as. Exits 2 when
the config is wrong, 1 when something would not work.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			if len(files) == 1 {
				if err := cmd.Flags().Set("config", files[0]); err != nil {
					return err
				}
			}
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			_, _ = fmt.Fprintln(out, "config: ok")
			if offline {
				return nil
			}
			quiet := logrus.New()
			quiet.SetOutput(io.Discard)
			findings, err := app.Check(cmd.Context(), cfg, logrus.NewEntry(quiet))
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(out, 0, 8, 1, ' ', 0)
			failed := 0
			for _, f := range findings {
				if f.Verdict == app.Failed {
					failed++
				}
				_, _ = fmt.Fprintf(t, "%s:\t%s\t%s\n", f.What, f.Verdict, f.Text)
			}
			if err := t.Flush(); err != nil {
				return err
			}
			if failed > 0 {
				return errors.New("the watchdog could not do all of its work here")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "only read the config, try nothing")
	return cmd
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the config",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "print",
		Short: "Print the whole config with all defaults, secrets redacted",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			return configfile.Print(cmd.OutOrStdout(), cfg)
		},
	})
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "spillway-watchdog", buildinfo.Get())
			return err
		},
	}
}
