package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"spillway/collector/internal/app"
	"spillway/collector/internal/config"
)

func runCommand() *cobra.Command {
	var paths config.Paths
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Take events until SIGTERM",
		Long: `Takes events until SIGTERM or SIGINT.

Without --config it runs with defaults: port 8080, events go to files under
./spillway-data. SIGUSR1 flushes, SIGHUP reads config and mode file again,
SIGUSR2 writes the health report to the log.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), paths) },
	}
	configFlags(cmd, &paths)
	return cmd
}

// configFlags adds the flags that name the config files.
func configFlags(cmd *cobra.Command, paths *config.Paths) {
	cmd.Flags().StringVar(&paths.Primary, "config", "", "config `FILE`")
	cmd.Flags().StringVar(&paths.Fallback, "fallback-config", "", "config `FILE` for the fallback; may say extends: and hold only what differs")
	cmd.Flags().StringVar(&paths.Mode, "mode-file", "", "mode `FILE` (default mode.json in the data directory)")
}

func run(ctx context.Context, paths config.Paths) error {
	// Handlers come first: from here on SIGUSR1 cannot kill the process, and the
	// report may say that signals are safe.
	orders := make(chan os.Signal, 8)
	signal.Notify(orders, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP)
	defer signal.Stop(orders)
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer release()
	// A second TERM or INT ends the process at once: the spool has everything.
	context.AfterFunc(ctx, release)

	set, err := config.Load(paths)
	if err != nil {
		return usageError{err}
	}
	a, err := app.New(ctx, set)
	if err != nil {
		return err
	}
	go func() {
		for {
			select {
			case sig := <-orders:
				go obey(ctx, a, sig) // a reload may wait for a disk; the next signal must not
			case <-ctx.Done():
				return
			}
		}
	}()
	return a.Run(ctx)
}

func obey(ctx context.Context, a *app.App, sig os.Signal) {
	switch sig {
	case syscall.SIGUSR1:
		a.Flush()
	case syscall.SIGUSR2:
		a.LogReport()
	case syscall.SIGHUP:
		a.Reload(ctx)
	}
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", args[0])}
	}
	return nil
}
