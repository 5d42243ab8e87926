package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"spillway/collector/internal/config"
	"spillway/collector/internal/hocon/convert"
	"spillway/shared/configfile"
)

func fromHOCONCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "from-hocon FILE",
		Short: "Convert a Kinesis config of the reference collector, and say what has no counterpart",
		Args:  usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			text, err := os.ReadFile(files[0])
			if err != nil {
				return usageError{fmt.Errorf("read the config to convert: %w", err)}
			}
			converted, err := convert.Convert(string(text))
			if err != nil {
				return usageError{fmt.Errorf("%s cannot be converted:\n%w", files[0], err)}
			}
			if _, err := cmd.OutOrStdout().Write(converted); err != nil {
				return err
			}
			if _, err := configfile.LoadBytes("the result", converted, config.Default()); err != nil {
				return usageError{fmt.Errorf("the result needs your hand: %w", err)}
			}
			return nil
		},
	}
}
