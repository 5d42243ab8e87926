package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"spillway/collector/internal/config"
	"spillway/shared/buildinfo"
)

func checkConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check-config FILE...",
		Short: "Say what is wrong with config files, as `run` would",
		Args:  usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			for _, file := range files {
				if _, err := config.Load(config.Paths{Primary: file}); err != nil {
					return usageError{err}
				}
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", file)
			}
			return nil
		},
	}
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print and convert configs",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(fromHOCONCommand(), &cobra.Command{
		Use:   "print [FILE]",
		Short: "Print the whole config with all defaults, secrets redacted",
		Args:  usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			var paths config.Paths
			if len(files) == 1 {
				paths.Primary = files[0]
			}
			set, err := config.Load(paths)
			if err != nil {
				return usageError{err}
			}
			text, err := set.Primary.Print()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
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
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "spillway-collector", buildinfo.Get())
			return err
		},
	}
}
