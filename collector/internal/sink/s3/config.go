package s3

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"spillway/collector/internal/sink/awsclient"
	"spillway/shared/configfile"
)

// Checksums says when an object is sent with a CRC32, which the service verifies
// and keeps.
type Checksums string

// The choices.
const (
	ChecksumsAlways       Checksums = "always"
	ChecksumsWhenRequired Checksums = "when_required" // never of our own accord
)

// Config of a sink that writes objects to S3. One serves both lanes.
type Config struct {
	// Bucket is the name of the bucket, or the ARN of an access point. No default.
	Bucket string `yaml:"bucket"`
	// Prefix stands before the names of all objects. Default and empty: none.
	Prefix string `yaml:"prefix"`

	// How the service is reached. request_timeout is 1m by default.
	AWS awsclient.Config `yaml:",inline"`

	// PathStyle puts the bucket into the path instead of the host name, as most
	// services other than AWS want it. Default false.
	PathStyle bool `yaml:"path_style"`
	// StorageClass of the objects. Default and empty: the bucket's, STANDARD.
	StorageClass string `yaml:"storage_class"`
	// Checksums is always or when_required. Default always; services other than AWS
	// may refuse objects with checksums they do not know.
	Checksums Checksums `yaml:"checksums"`

	// MaxRecords is how many records one object holds at most. Default 100000.
	MaxRecords int `yaml:"max_records"`
	// MaxBytes is how many bytes of data and keys one object holds at most, before
	// compression. Default 16MiB.
	MaxBytes configfile.Size `yaml:"max_bytes"`
	// Linger is how long an object may wait to fill. Default 30s: the records are
	// safe in the spool meanwhile, and each object costs a request. Zero: not at all.
	Linger time.Duration `yaml:"linger"`
	// InFlight is how many objects are written at a time. Default 2. Each holds its
	// records and their compressed form in memory.
	InFlight int `yaml:"in_flight"`
}

// DefaultConfig returns the defaults given at each field.
func DefaultConfig() Config {
	return Config{
		AWS:        awsclient.Config{RequestTimeout: time.Minute},
		Checksums:  ChecksumsAlways,
		MaxRecords: 100_000,
		MaxBytes:   16 * configfile.MiB,
		Linger:     30 * time.Second,
		InFlight:   2,
	}
}

var bucketName = regexp.MustCompile(`^([a-z0-9][a-z0-9._-]{1,61}[a-z0-9]|arn:[^\s/]+[:/]accesspoint[:/][a-z0-9.-]+)$`)

// Validate says what is wrong with the config, naming each YAML key.
func (c Config) Validate() error {
	errs := []error{c.AWS.Validate()}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Bucket == "" {
		wrong("bucket: it is missing")
	} else if !bucketName.MatchString(c.Bucket) {
		wrong("bucket: %q is not the name of a bucket (without s3:// and prefix) or the ARN of an access point", c.Bucket)
	}
	if len(c.Prefix) > 512 {
		wrong("prefix: it is longer than 512 bytes")
	}
	if c.Checksums != ChecksumsAlways && c.Checksums != ChecksumsWhenRequired {
		wrong("checksums: %q is neither always nor when_required", c.Checksums)
	}
	if c.MaxRecords < 1 || c.MaxRecords > 10_000_000 {
		wrong("max_records: %d is not between 1 and 10000000", c.MaxRecords)
	}
	if c.MaxBytes < configfile.KiB || c.MaxBytes > configfile.GiB {
		wrong("max_bytes: %v is not between 1KiB and 1GiB", c.MaxBytes)
	}
	if c.Linger < 0 || c.Linger > time.Hour {
		wrong("linger: %v is not between 0 and 1h", c.Linger)
	}
	if c.InFlight < 1 || c.InFlight > 64 {
		wrong("in_flight: %d is not between 1 and 64", c.InFlight)
	}
	return errors.Join(errs...)
}
