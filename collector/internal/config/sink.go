package config

import (
	"path/filepath"
	"strings"

	"spillway/collector/internal/sink/file"
	"spillway/collector/internal/sink/kinesis"
	"spillway/collector/internal/sink/s3"
	"spillway/shared/configfile"
)

// The destinations a config can name.
const (
	Kinesis = "kinesis"
	S3      = "s3"
	File    = "file"
)

// Sink says where records go. Only the section that Type names is looked at.
type Sink struct {
	// Type is kinesis, s3 or file. Default file, which needs nothing else.
	Type string `yaml:"type"`
	// Kinesis is for type: kinesis.
	Kinesis kinesis.Config `yaml:"kinesis"`
	// S3 is for type: s3.
	S3 s3.Config `yaml:"s3"`
	// File is for type: file.
	File file.Config `yaml:"file"`
}

func defaultSink() Sink {
	return Sink{Type: File, Kinesis: kinesis.DefaultConfig(), S3: s3.DefaultConfig(), File: file.DefaultConfig()}
}

// validate checks the section in use.
func (c *Config) validateSink() error {
	switch c.Sink.Type {
	case Kinesis:
		// A partition key of up to 256 bytes counts towards the sink's limit.
		if most := c.Sink.Kinesis.MaxRecordBytes - 256; c.HTTP.MaxRecordBytes > most {
			return configfile.Invalid("kinesis.max_record_bytes",
				"%s leaves no room for payloads of http.max_record_bytes: %s and their key; raise the one to what the stream takes or lower the other", c.Sink.Kinesis.MaxRecordBytes, c.HTTP.MaxRecordBytes)
		}
		return configfile.Under("kinesis", c.Sink.Kinesis.Validate())
	case S3:
		return configfile.Under("s3", c.Sink.S3.Validate())
	case File:
		return configfile.Under("file", c.Files().Validate())
	}
	return configfile.Invalid("type", "%q is no destination: want one of %s", c.Sink.Type, strings.Join([]string{Kinesis, S3, File}, ", "))
}

// Files is the file sink's config with its directory filled in: "out" in the
// data directory when none is named.
func (c *Config) Files() file.Config {
	files := c.Sink.File
	if files.Dir == "" {
		files.Dir = filepath.Join(c.DataDir, "out")
		if dir, err := filepath.Abs(files.Dir); err == nil {
			files.Dir = dir
		}
	}
	return files
}
