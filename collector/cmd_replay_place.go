package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/config"
	"spillway/collector/internal/replay"
	"spillway/collector/internal/replay/bucket"
	"spillway/collector/internal/replay/folder"
	"spillway/collector/internal/sink"
	s3sink "spillway/collector/internal/sink/s3"
	"spillway/shared/configfile"
	"spillway/shared/logsetup"
)

// replayPlace says where the objects are and which are meant. It is what the
// sub-commands of `replay` have in common.
type replayPlace struct {
	paths       config.Paths
	from        string
	lane        string
	instances   []string
	since       string
	until       string
	single      bool
	claimExpiry time.Duration
}

func (f *replayPlace) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.paths.Primary, "config", "", "config `FILE` of the collector")
	flags.StringVar(&f.paths.Fallback, "fallback-config", "", "config `FILE` of the collector's fallback, which says how the bucket is reached")
	flags.StringVar(&f.from, "from", "", "`PLACE` of the objects: s3://bucket/prefix or a directory (default where the fallback writes)")
	flags.StringVar(&f.lane, "lane", "", "only this `LANE`: good or bad")
	flags.StringSliceVar(&f.instances, "instance", nil, "only objects of this `COLLECTOR` (may be repeated)")
	flags.StringVar(&f.since, "since", "", "only objects of hours that end after this `TIME`, like 2026-12-01T05:00 (UTC) or 6h (ago)")
	flags.StringVar(&f.until, "until", "", "only objects of hours that begin before this `TIME`")
	flags.BoolVar(&f.single, "single", false, "promise that no other replayer works here; needed where S3 does not support conditional writes")
	flags.DurationVar(&f.claimExpiry, "claim-expiry", time.Minute, "how long another replayer must have been silent before its objects are taken over; the same for all (S3 only)")
}

// place is an opened replayPlace.
type place struct {
	set         config.Set
	log         *logrus.Entry
	store       replay.Store
	bucket      *bucket.Store // nil for a directory
	selection   replay.Selection
	expireAfter time.Duration
	from        string
}

// open reads the configs and opens the place; nothing is written yet.
func (f *replayPlace) open(logTo io.Writer) (*place, error) {
	p := &place{expireAfter: f.claimExpiry}
	var err error
	if p.selection, err = f.selection(time.Now()); err != nil {
		return nil, usageError{err}
	}
	if f.claimExpiry < time.Second {
		return nil, usageError{fmt.Errorf("--claim-expiry: %v is less than 1s", f.claimExpiry)}
	}
	if p.set, err = config.Load(f.paths); err != nil {
		return nil, usageError{err}
	}
	if p.log, err = logsetup.New(p.set.Primary.Log, logTo); err != nil {
		return nil, err
	}
	p.log = logsetup.Component(p.log, "replay")
	if p.from, err = f.source(p.set); err != nil {
		return nil, usageError{err}
	}
	owner := replay.Owner()
	if !strings.HasPrefix(p.from, "s3://") {
		p.store, err = folder.Open(p.from, owner)
		return p, err
	}
	cfg := p.set.Primary.Sink.S3
	if p.set.Fallback != nil {
		cfg = p.set.Fallback.Sink.S3
	}
	if err := at(&cfg, p.from); err != nil {
		return nil, usageError{fmt.Errorf("--from: %w", err)}
	}
	if p.bucket, err = bucket.Open(cfg, bucket.Options{Log: p.log, Owner: owner, ExpireAfter: f.claimExpiry, Single: f.single}); err != nil {
		return nil, err
	}
	p.store = p.bucket
	return p, nil
}

// at points an S3 config to s3://bucket/prefix.
func at(cfg *s3sink.Config, url string) error {
	cfg.Bucket, cfg.Prefix, _ = strings.Cut(strings.TrimPrefix(url, "s3://"), "/")
	return cfg.Validate()
}

// source is where the objects are: as the flag says, or where the fallback writes.
func (f *replayPlace) source(set config.Set) (string, error) {
	if f.from != "" {
		return f.from, nil
	}
	cfg := set.Primary
	if set.Fallback != nil {
		cfg = *set.Fallback
	}
	if f.paths.Primary == "" && f.paths.Fallback == "" || cfg.Sink.Type == config.Kinesis {
		return "", errors.New("--from: say where the objects are, s3://bucket/prefix or a directory, or name the fallback's config")
	}
	return target(cfg), nil
}

// target is where a config's sink writes.
func target(cfg config.Config) string {
	switch cfg.Sink.Type {
	case config.S3:
		return strings.TrimSuffix("s3://"+cfg.Sink.S3.Bucket+"/"+archive.CleanPrefix(cfg.Sink.S3.Prefix), "/")
	case config.File:
		return cfg.Files().Dir
	}
	return cfg.Sink.Type
}

// destination is the config whose sink the records go to.
func (p *place) destination(to string) (config.Config, error) {
	cfg := p.set.Primary
	switch {
	case to == "":
	case to == config.Kinesis || to == config.S3 || to == config.File:
		cfg.Sink.Type = to
	case strings.HasPrefix(to, "s3://"):
		cfg.Sink.Type = config.S3
		if err := at(&cfg.Sink.S3, to); err != nil {
			return cfg, fmt.Errorf("--to: %w", err)
		}
	case strings.ContainsRune(to, '/'):
		dir, err := filepath.Abs(to)
		if err != nil {
			return cfg, fmt.Errorf("--to: %w", err)
		}
		cfg.Sink.Type, cfg.Sink.File.Dir = config.File, dir
	default:
		return cfg, fmt.Errorf("--to: %q is none of kinesis, s3, file, s3://bucket/prefix and a directory with a slash", to)
	}
	if err := cfg.Validate(); err != nil {
		return cfg, fmt.Errorf("--to %s: %w", cfg.Sink.Type, err)
	}
	from := p.from
	if !strings.HasPrefix(from, "s3://") {
		from, _ = filepath.Abs(from)
	}
	if from == target(cfg) {
		return cfg, fmt.Errorf("--to: %s is where the objects come from", from)
	}
	return cfg, nil
}

// ready makes sure that claims can be relied on.
func (p *place) ready(ctx context.Context) error {
	if p.bucket == nil {
		return nil
	}
	return p.bucket.CheckConditions(ctx)
}

func (p *place) close() {
	if p.bucket != nil {
		p.bucket.Close()
	}
}

func deadLetterDir(dataDir string) string { return filepath.Join(dataDir, "dead-letters") }

func (f *replayPlace) selection(now time.Time) (replay.Selection, error) {
	s := replay.Selection{Lane: sink.Lane(f.lane), Instances: f.instances}
	if f.lane != "" && s.Lane != sink.Good && s.Lane != sink.Bad {
		return s, fmt.Errorf("--lane: %q is neither good nor bad", f.lane)
	}
	var err error
	if s.Since, err = when(f.since, now); err != nil {
		return s, fmt.Errorf("--since: %w", err)
	}
	if s.Until, err = when(f.until, now); err != nil {
		return s, fmt.Errorf("--until: %w", err)
	}
	return s, nil
}

// when reads a time, or how long ago it was.
func when(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	if ago, err := configfile.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%q is no time like 2026-12-01T05:00 or 2026-12-01 and no duration like 6h", text)
}

// rates reads --rate and --bandwidth.
func (f *replayFlags) rates(log *logrus.Entry) (*replay.Pace, error) {
	var records, bytes float64
	if f.rate != "" {
		n, err := strconv.ParseFloat(strings.TrimSuffix(f.rate, "/s"), 64)
		if err != nil || !(n > 0) || math.IsInf(n, 0) {
			return nil, fmt.Errorf("--rate: %q is no number of events per second like 2000/s", f.rate)
		}
		records = n
	}
	if f.bandwidth != "" {
		n, err := configfile.ParseSize(strings.TrimSuffix(f.bandwidth, "/s"))
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("--bandwidth: %q is no size per second like 5MiB/s", f.bandwidth)
		}
		bytes = float64(n)
	}
	return replay.NewPace(records, bytes, log), nil
}
