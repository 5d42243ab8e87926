// Command spillway-collector takes Snowplow tracker events over HTTP, answers
// 200 only when they are safe on disk, delivers them to Kinesis at least once,
// and answers 503 when there is no room, so that trackers keep their events.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"spillway/collector/internal/spool"
	"spillway/shared/buildinfo"
	"spillway/shared/httpserver"
)

// Exit codes, as documented in docs/health.md.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // bad flags or config
	exitSpool  = 3 // the spool is locked by another process or of another format
)

func main() {
	// A panic ends with SIGABRT, not with code 2, which means bad flags or config.
	debug.SetTraceback("crash")
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line and returns the exit code.
func execute(args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "spillway-collector",
		Short:         "Takes tracker events, keeps them on disk until Kinesis has them",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       buildinfo.Get().Version,
		Args:          usage(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(runCommand(), checkConfigCommand(), configCommand(), replayCommand(), spoolCommand(), deadLetterCommand(), versionCommand())
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
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
	if errors.Is(err, spool.ErrLocked) || errors.Is(err, spool.ErrFormat) {
		return exitSpool
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// usage makes what is wrong with arguments a usageError.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}
