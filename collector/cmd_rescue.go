package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"spillway/collector/internal/config"
	"spillway/collector/internal/sink"
	"spillway/shared/logsetup"
)

// rescue is what the commands share that work on the files of a collector which
// does not run.
type rescue struct {
	config  string
	dataDir string
	lane    string
	json    bool

	to      string
	dir     string
	timeout time.Duration
}

func (r *rescue) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.config, "config", "", "config `FILE` of the collector")
	cmd.Flags().StringVar(&r.dataDir, "data-dir", "", "data `DIR`ectory, if it is not where the config says: the disk of a dead box, say")
	cmd.Flags().StringVar(&r.lane, "lane", "", "only this lane: good or bad")
	cmd.Flags().BoolVar(&r.json, "json", false, "answer in JSON")
}

func (r *rescue) sinkFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.to, "to", "", "deliver to `kinesis`, s3 or file instead of where the config says; the config must have its section")
	cmd.Flags().StringVar(&r.dir, "dir", "", "with --to file: the `DIR`ectory for the files")
	cmd.Flags().DurationVar(&r.timeout, "timeout", 0, "give up after this time (default: a destination that is down is waited for)")
}

// load returns the config with what the flags say.
func (r *rescue) load() (config.Config, error) {
	set, err := config.Load(config.Paths{Primary: r.config})
	if err != nil {
		return config.Config{}, usageError{err}
	}
	cfg := set.Primary
	if r.dataDir != "" {
		cfg.DataDir = r.dataDir
	}
	if r.to != "" {
		cfg.Sink.Type = r.to
	}
	if r.dir != "" {
		if cfg.Sink.File.Dir, err = filepath.Abs(r.dir); err != nil {
			return config.Config{}, err
		}
	}
	if err := cfg.Validate(); err != nil {
		return config.Config{}, usageError{err}
	}
	return cfg, nil
}

// loadSink is load for a command that delivers.
func (r *rescue) loadSink() (config.Config, error) {
	cfg, err := r.load()
	if err == nil && cfg.Sink.Type == config.File && cfg.Sink.File.Dir == "" {
		return cfg, usageError{errors.New("say where to: --to kinesis or s3 with a --config that has that section, or --to file --dir DIR")}
	}
	return cfg, err
}

func (r *rescue) lanes() ([]sink.Lane, error) {
	if r.lane == "" {
		return sink.Lanes(), nil
	}
	if lane := sink.Lane(r.lane); slices.Contains(sink.Lanes(), lane) {
		return []sink.Lane{lane}, nil
	}
	return nil, usageError{fmt.Errorf("--lane %s: want good or bad", r.lane)}
}

// log is the log of a command, on stderr.
func (r *rescue) log(cfg config.Config, out io.Writer) (*logrus.Entry, error) {
	return logsetup.New(cfg.Log, out)
}

// until returns a context that ends with TERM, INT or --timeout. A second INT
// ends the process.
func (r *rescue) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, release := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, release)
	if r.timeout <= 0 {
		return ctx, release
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	return ctx, func() { cancel(); release() }
}

// answer writes v as JSON, or as a table.
func (r *rescue) answer(cmd *cobra.Command, v any, table func(w io.Writer)) error {
	if r.json {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}

// row writes one line of a table.
func row(w io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case time.Time:
			texts[i] = "-"
			if !c.IsZero() {
				texts[i] = c.UTC().Format(time.RFC3339)
			}
		default:
			texts[i] = fmt.Sprint(c)
		}
		if texts[i] == "" {
			texts[i] = "-"
		}
	}
	_, _ = fmt.Fprintln(w, strings.Join(texts, "\t"))
}

// size is a number of bytes for people.
func size(n int64) string {
	const units = "KMGT"
	value, unit := float64(n), ""
	for i := 0; value >= 1024 && i < len(units); i++ {
		value, unit = value/1024, units[i:i+1]+"i"
	}
	if unit == "" {
		return fmt.Sprintf("%dB", n)
	}
	return fmt.Sprintf("%.1f%sB", value, unit)
}

// exists says what is wrong with a directory that must be there.
func exists(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return usageError{fmt.Errorf("no data directory of a collector: %w (name it with --data-dir or --config)", err)}
	}
	return nil
}
