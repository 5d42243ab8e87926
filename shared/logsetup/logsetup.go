// Package logsetup builds the program's one logger from its config and lends it
// to libraries that bring their own idea of a logger (bridge.go).
//
// A line of the log is a line of text whatever is in it: newlines and control
// characters of messages and values are escaped, so that a tracker cannot write
// lines of its own. Times are UTC. Durations are shown as "1.5s" in every format.
package logsetup

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sirupsen/logrus"

	"spillway/shared/configfile"
)

// Config says what is logged and how.
type Config struct {
	// Level is the least important level that is written: error, warn, info, debug
	// or trace. Default info. It can be changed while the program runs.
	Level string `yaml:"level"`

	// Format is text (key=value, in colour on a terminal), json (one object a line)
	// or journal (text for systemd's journal: the journal's own time, and the level
	// as its priority, so that `journalctl -p warning` works). Default text.
	Format string `yaml:"format"`

	// Fields are put on every line, the name of the environment for example.
	// Default none.
	Fields map[string]string `yaml:"fields"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{Level: "info", Format: "text"} }

var (
	levels = map[string]logrus.Level{
		"error": logrus.ErrorLevel, "warn": logrus.WarnLevel, "info": logrus.InfoLevel,
		"debug": logrus.DebugLevel, "trace": logrus.TraceLevel,
	}
	formats  = []string{"text", "json", "journal"}
	reserved = []string{"time", "level", "msg", "component", "error"}
)

// Validate names the key that cannot be used.
func (c Config) Validate() error {
	var errs []error
	if _, ok := levels[c.Level]; !ok {
		errs = append(errs, configfile.Invalid("level", "%q is not a level: want error, warn, info, debug or trace", c.Level))
	}
	if !slices.Contains(formats, c.Format) {
		errs = append(errs, configfile.Invalid("format", "%q is not a format: want text, json or journal", c.Format))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Fields)) {
		if slices.Contains(reserved, name) {
			errs = append(errs, configfile.Invalid("fields."+name, "this field is set by the program: choose another name"))
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '=' || r == '"' || !unicode.IsPrint(r) }) {
			errs = append(errs, configfile.Invalid("fields", "%q is not the name of a field: want a word without spaces, quotes and =", name))
		}
	}
	return errors.Join(errs...)
}

// New returns an entry, carrying the configured fields, of a logger that writes
// to out (os.Stderr in a program). Hand parts of the program an entry of their
// own by [Component].
func New(c Config, out io.Writer) (*logrus.Entry, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("set up log: %w", err)
	}
	logger := logrus.New()
	logger.SetOutput(out)
	logger.SetLevel(levels[c.Level])
	logger.SetFormatter(formatter(c.Format))
	fields := logrus.Fields{}
	for name, value := range c.Fields {
		fields[name] = value
	}
	return logger.WithFields(fields), nil
}

// Component returns log for one part of the program.
func Component(log *logrus.Entry, name string) *logrus.Entry {
	return log.WithField("component", name)
}

// SetLevel changes the level of log and of every entry of the same logger, at
// once. It is safe for concurrent use with logging.
func SetLevel(log *logrus.Entry, level string) error {
	l, ok := levels[level]
	if !ok {
		return fmt.Errorf("%q is not a level: want error, warn, info, debug or trace", level)
	}
	log.Logger.SetLevel(l)
	return nil
}

// Level returns the level of log as SetLevel takes it.
func Level(log *logrus.Entry) string {
	for name, l := range levels {
		if l == log.Logger.GetLevel() {
			return name
		}
	}
	return log.Logger.GetLevel().String()
}

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

func formatter(format string) logrus.Formatter {
	_, noColor := os.LookupEnv("NO_COLOR")
	switch format {
	case "json":
		return clean{&logrus.JSONFormatter{TimestampFormat: timeFormat, DisableHTMLEscape: true}}
	case "journal":
		return journal{clean{&logrus.TextFormatter{DisableTimestamp: true, DisableColors: true}}}
	default:
		return clean{&logrus.TextFormatter{TimestampFormat: timeFormat, FullTimestamp: true, QuoteEmptyFields: true, DisableColors: noColor}}
	}
}

// clean makes an entry fit for one line before next formats it. The entry is the
// logger's own copy, so it may be changed.
type clean struct{ next logrus.Formatter }

func (c clean) Format(e *logrus.Entry) ([]byte, error) {
	e.Time = e.Time.UTC()
	e.Message = oneLine(e.Message)
	for name, value := range e.Data {
		if d, ok := value.(time.Duration); ok {
			e.Data[name] = d.String()
		}
	}
	return c.next.Format(e)
}

// oneLine escapes what would end the line or move the cursor of a terminal.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// journal puts the priority that systemd's journal reads before each line.
type journal struct{ next logrus.Formatter }

func (j journal) Format(e *logrus.Entry) ([]byte, error) {
	line, err := j.next.Format(e)
	if err != nil {
		return nil, err
	}
	priority := 7
	switch e.Level {
	case logrus.PanicLevel, logrus.FatalLevel:
		priority = 2
	case logrus.ErrorLevel:
		priority = 3
	case logrus.WarnLevel:
		priority = 4
	case logrus.InfoLevel:
		priority = 6
	}
	return append(fmt.Appendf(nil, "<%d>", priority), line...), nil
}
