package logsetup_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go/logging"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/sirupsen/logrus"

	"spillway/shared/logsetup"
)

var _ retryablehttp.LeveledLogger = logsetup.Leveled{}

func newLog(t *testing.T, c logsetup.Config) (*logrus.Entry, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	log, err := logsetup.New(c, &out)
	if err != nil {
		t.Fatal(err)
	}
	return log, &out
}

func config(level, format string) logsetup.Config {
	return logsetup.Config{Level: level, Format: format, Fields: map[string]string{"env": "prod"}}
}

func TestNew_writesOneLineWhateverIsInIt(t *testing.T) {
	for _, format := range []string{"text", "json", "journal"} {
		t.Run(format, func(t *testing.T) {
			log, out := newLog(t, config("info", format))
			logsetup.Component(log, "spool").WithError(errors.New("a\nlevel=error b")).
				WithFields(logrus.Fields{"path": "x\r\ny\x1b[31m", "took": 1500 * time.Millisecond}).Warn("said \"hi\"\nand left\x1b[2J")
			line := strings.TrimSuffix(out.String(), "\n")
			if strings.ContainsAny(line, "\n\r\x1b") {
				t.Errorf("raw control characters in %q", line)
			}
			for _, want := range []string{"component", "spool", "env", "prod", "1.5s", "warn"} {
				if !strings.Contains(line, want) {
					t.Errorf("%q is not in %q", want, line)
				}
			}
			if strings.HasPrefix(line, "<4>") != (format == "journal") {
				t.Errorf("priority of journal: %q", line)
			}
			if format == "json" {
				var object map[string]any
				if err := json.Unmarshal([]byte(line), &object); err != nil {
					t.Error(err)
				}
				if at, _ := object["time"].(string); !strings.HasSuffix(at, "Z") {
					t.Errorf("time %q is not UTC", at)
				}
			}
		})
	}
}

func TestSetLevel_appliesToEveryEntry(t *testing.T) {
	log, out := newLog(t, config("info", "text"))
	part := logsetup.Component(log, "spool")
	part.Debug("before")
	if err := logsetup.SetLevel(log, "debug"); err != nil {
		t.Fatal(err)
	}
	part.Debug("after")
	if strings.Contains(out.String(), "before") || !strings.Contains(out.String(), "after") {
		t.Errorf("got %q", out)
	}
	if got := logsetup.Level(part); got != "debug" {
		t.Errorf("level is %q", got)
	}
	if err := logsetup.SetLevel(log, "loud"); err == nil || logsetup.Level(log) != "debug" {
		t.Errorf("an unknown level must be refused and change nothing: %v", err)
	}
}

func TestConfig_Validate(t *testing.T) {
	if err := logsetup.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := logsetup.Config{Level: "loud", Format: "xml", Fields: map[string]string{"msg": "a", "a b": "c"}}.Validate()
	want := `level: "loud" is not a level: want error, warn, info, debug or trace
format: "xml" is not a format: want text, json or journal
fields: "a b" is not the name of a field: want a word without spaces, quotes and =
fields.msg: this field is set by the program: choose another name`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	if _, err := logsetup.New(logsetup.Config{}, &bytes.Buffer{}); err == nil {
		t.Error("New must refuse an invalid config")
	}
}

func TestHTTPErrors_sortsNoiseFromTrouble(t *testing.T) {
	for line, want := range map[string]string{
		"http: TLS handshake error from 1.2.3.4:5: EOF":               "level=debug",
		"http: Accept error: too many open files; retrying in 5ms":    "level=warning",
		"http: panic serving 1.2.3.4:5: boom\ngoroutine 1 [running]:": `level=error msg="http: panic serving 1.2.3.4:5: boom" env=prod stack="goroutine 1 [running]:"`,
	} {
		log, out := newLog(t, config("debug", "text"))
		logsetup.HTTPErrors(log).Print(line)
		if !strings.Contains(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%q: got %q, want %q", line, out, want)
		}
	}
}

func TestLeveled_hidesAllOfAURLButItsHost(t *testing.T) {
	log, out := newLog(t, config("debug", "text"))
	l := logsetup.Leveled{Log: log}
	u, err := url.Parse("https://hooks.example.org/secret/path?secret=1")
	if err != nil {
		t.Fatal(err)
	}
	l.Error("request failed", "url", u, "error", &url.Error{Op: "Post", URL: u.String(), Err: errors.New("refused")})
	l.Debug("retrying request", "request", "POST "+u.String()+" (status: 500)", "timeout", time.Second, "remaining", 3)
	l.Warn("odd", "request", "POST https://x\x7fy/secret", "dangling")
	l.Info("done")
	got := out.String()
	if strings.Contains(got, "secret") || strings.Count(got, "https://hooks.example.org") != 2 || !strings.Contains(got, "Post: refused") {
		t.Errorf("got %s", got)
	}
	if strings.Count(got, "level=debug") != 4 {
		t.Errorf("all lines must be at debug: %s", got)
	}
}

func TestAWS_warnsOfTheSameThingOnce(t *testing.T) {
	log, out := newLog(t, config("debug", "text"))
	l := logsetup.AWS(log)
	l.Logf(logging.Warn, "no checksum in %s", "a")
	l.Logf(logging.Warn, "no checksum in %s", "a")
	l.Logf(logging.Debug, "request")
	l.Logf(logging.Warn, "no checksum in %s", "b")
	if got := strings.Count(out.String(), "level=warning"); got != 2 {
		t.Errorf("%d warnings, want 2: %s", got, out)
	}
	if got := strings.Count(out.String(), "level=debug"); got != 2 {
		t.Errorf("%d lines at debug, want 2: %s", got, out)
	}
}
