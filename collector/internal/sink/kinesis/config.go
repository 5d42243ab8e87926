package kinesis

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/awsclient"
	"spillway/shared/configfile"
)

// What the service takes at most.
const (
	mostRecords     = 500
	mostBytes       = 10 * configfile.MiB
	mostRecordBytes = 10 * configfile.MiB
	mostKeyRunes    = 256
)

// CheckMode is how Check finds out whether records would be taken.
type CheckMode string

// The modes.
const (
	CheckAuto     CheckMode = "auto"     // dry_run at AWS, describe elsewhere
	CheckDryRun   CheckMode = "dry_run"  // a PutRecords that the service only pretends to do
	CheckDescribe CheckMode = "describe" // DescribeStreamSummary; proves the way and the stream, not the permission to write
	CheckOff      CheckMode = "off"      // nothing; Check always succeeds
)

// Config of a sink that writes to Kinesis Data Streams. One serves both lanes.
type Config struct {
	// GoodStream is the name or ARN of the stream for payloads. No default.
	GoodStream string `yaml:"good_stream"`
	// BadStream is the name or ARN of the stream for bad rows. No default.
	BadStream string `yaml:"bad_stream"`

	// How the service is reached. request_timeout is 5s by default.
	AWS awsclient.Config `yaml:",inline"`

	// MaxRecords is how many records one call carries at most. Default and most:
	// 500.
	MaxRecords int `yaml:"max_records"`
	// MaxBytes is how many bytes of data and keys one call carries at most.
	// Default 5MiB; the service takes 10MiB.
	MaxBytes configfile.Size `yaml:"max_bytes"`
	// MaxRecordBytes is the largest record, its key included, that the streams
	// take. A larger one can never be written and goes to the dead letters. Default
	// 1MiB, what a stream takes when it is made; at most 10MiB, for streams whose
	// limit was raised.
	MaxRecordBytes configfile.Size `yaml:"max_record_bytes"`
	// Aggregate puts many small payloads into one record of the stream, in the
	// format of the Kinesis Producer Library. It makes small events much cheaper,
	// and a shard take more than 1,000 of them a second. Every consumer must know
	// the format (the KCL and Firehose do; others need a de-aggregation library), and
	// partition keys no longer choose the shard. Not for streams whose record
	// distribution is AUTO. Default false.
	Aggregate bool `yaml:"aggregate"`
	// Linger is how long a batch may wait to fill. Default 200ms. Zero: not at all.
	Linger time.Duration `yaml:"linger"`
	// InFlight is how many calls there are at a time. Default 8. Each takes up to
	// two and a half times MaxBytes of memory.
	InFlight int `yaml:"in_flight"`
	// Check is how to find out whether records would be taken, without writing one:
	// auto, dry_run, describe or off. Default auto. dry_run needs no more than the
	// permission to write, describe needs kinesis:DescribeStreamSummary.
	Check CheckMode `yaml:"check"`
}

// DefaultConfig returns the defaults given at each field.
func DefaultConfig() Config {
	return Config{
		AWS:            awsclient.Config{RequestTimeout: 5 * time.Second},
		MaxRecords:     mostRecords,
		MaxBytes:       5 * configfile.MiB,
		MaxRecordBytes: configfile.MiB,
		Linger:         200 * time.Millisecond,
		InFlight:       8,
		Check:          CheckAuto,
	}
}

var streamName = regexp.MustCompile(`^([a-zA-Z0-9_.-]{1,128}|arn:[a-z-]+:kinesis:[a-z0-9-]+:\d{12}:stream/[a-zA-Z0-9_.-]{1,128})$`)

// Validate says what is wrong with the config, naming each YAML key.
func (c Config) Validate() error {
	errs := []error{c.AWS.Validate()}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, s := range []struct{ key, name string }{{"good_stream", c.GoodStream}, {"bad_stream", c.BadStream}} {
		if s.name == "" {
			wrong("%s: it is missing", s.key)
		} else if !streamName.MatchString(s.name) {
			wrong("%s: %q is not the name or ARN of a stream", s.key, s.name)
		}
	}
	if c.MaxRecords < 1 || c.MaxRecords > mostRecords {
		wrong("max_records: %d is not between 1 and %d", c.MaxRecords, mostRecords)
	}
	if c.MaxRecordBytes < configfile.KiB || c.MaxRecordBytes > mostRecordBytes {
		wrong("max_record_bytes: %v is not between 1KiB and %v", c.MaxRecordBytes, mostRecordBytes)
	}
	if c.MaxBytes > mostBytes {
		wrong("max_bytes: %v is more than the %v that the service takes", c.MaxBytes, mostBytes)
	}
	if c.MaxBytes < c.MaxRecordBytes {
		wrong("max_bytes: %v is less than max_record_bytes, %v", c.MaxBytes, c.MaxRecordBytes)
	}
	if c.Linger < 0 || c.Linger > time.Minute {
		wrong("linger: %v is not between 0 and 1m", c.Linger)
	}
	if c.InFlight < 1 || c.InFlight > 256 {
		wrong("in_flight: %d is not between 1 and 256", c.InFlight)
	}
	switch c.Check {
	case CheckAuto, CheckDryRun, CheckDescribe, CheckOff:
	default:
		wrong("check: %q is none of auto, dry_run, describe, off", c.Check)
	}
	return errors.Join(errs...)
}

func (c Config) stream(lane sink.Lane) string {
	if lane == sink.Bad {
		return c.BadStream
	}
	return c.GoodStream
}

// checkMode resolves auto: only AWS is known to honour a dry run, and what does
// not would store the record.
func (c Config) checkMode() CheckMode {
	if c.Check != CheckAuto {
		return c.Check
	}
	if c.AWS.Endpoint == "" {
		return CheckDryRun
	}
	if u, err := url.Parse(c.AWS.Endpoint); err == nil {
		for _, domain := range []string{".amazonaws.com", ".amazonaws.com.cn", ".api.aws"} {
			if strings.HasSuffix(u.Hostname(), domain) {
				return CheckDryRun
			}
		}
	}
	return CheckDescribe
}
