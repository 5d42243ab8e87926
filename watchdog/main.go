// Command spillway-watchdog watches one spillway-collector, moves it to its
// fallback when Kinesis takes nothing, restarts it when its process is sick, and
// brings it back.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"spillway/shared/buildinfo"
	"spillway/shared/httpserver"
	"spillway/watchdog/internal/config"
	"spillway/watchdog/internal/state"
)

// Exit codes. status --check has its own, those of monitoring plugins.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // bad flags or config
	exitState  = 3 // another watchdog is at work
)

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

// execute runs one command line and returns the exit code.
func execute(args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "spillway-watchdog",
		Short:         "Watches a spillway-collector and keeps its events flowing",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       buildinfo.Get().Version,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q, see --help", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().String("config", os.Getenv("SPILLWAY_WATCHDOG_CONFIG"),
		"config `FILE`; without it, SPILLWAY_WATCHDOG_CONFIG or the defaults")
	root.AddCommand(runCommand(), statusCommand(), whyCommand(), historyCommand(), rulesCommand(),
		switchCommand(), pauseCommand(), resumeCommand(), ackCommand(), dryRunCommand(), noteCommand(),
		checkConfigCommand(), configCommand(), versionCommand())
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	if said, ok := errors.AsType[checkResult](err); ok {
		return int(said) // status --check has said it on stdout
	}
	_, _ = fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), err)
	return exitCode(err)
}

// usageError is a mistake in flags or config.
type usageError struct{ error }

// Unwrap returns the mistake itself.
func (e usageError) Unwrap() error { return e.error }

func exitCode(err error) int {
	if _, ok := errors.AsType[*httpserver.ListenError](err); ok {
		return httpserver.ExitCode
	}
	if errors.Is(err, state.ErrLocked) {
		return exitState
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// args makes a wrong number of arguments a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, list []string) error {
		if err := check(cmd, list); err != nil {
			return usageError{err}
		}
		return nil
	}
}

var noArgs = args(func(_ *cobra.Command, list []string) error {
	if len(list) > 0 {
		return fmt.Errorf("unexpected argument %q", list[0])
	}
	return nil
})

// loadConfig reads the config that the command line names.
func loadConfig(cmd *cobra.Command) (config.Config, error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return config.Config{}, err
	}
	c, err := config.Load(path)
	if err != nil {
		return c, usageError{err}
	}
	return c, nil
}
