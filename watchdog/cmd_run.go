package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"spillway/shared/logsetup"
	"spillway/watchdog/internal/app"
	"spillway/watchdog/internal/config"
)

func runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Watch until SIGTERM",
		Long: `Watches one collector until SIGTERM or SIGINT, which leave the collector as it
is. SIGHUP reads the policy again and touches nothing else.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Before anything else: a HUP must not end the program.
			hup := make(chan os.Signal, 1)
			signal.Notify(hup, syscall.SIGHUP)
			defer signal.Stop(hup)
			c, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			return run(cmd, c, hup)
		},
	}
}

func run(cmd *cobra.Command, c config.Config, hup <-chan os.Signal) error {
	ctx, release := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer release()
	log, err := logsetup.New(c.Log, cmd.ErrOrStderr())
	if err != nil {
		return usageError{err}
	}
	a, err := app.New(ctx, app.Options{
		Config: c, Log: log,
		Load: func() (config.Config, error) { return loadConfig(cmd) },
	})
	if err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-hup:
				a.Reload()
			case <-ctx.Done():
				release() // a second TERM or INT ends the program at once
				return
			}
		}
	}()
	return a.Run(ctx)
}
