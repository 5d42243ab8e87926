package logsetup

import (
	"errors"
	"fmt"
	stdlog "log"
	"net/url"
	"strings"
	"sync"

	"github.com/aws/smithy-go/logging"
	"github.com/sirupsen/logrus"
)

// HTTPErrors returns a logger for http.Server.ErrorLog. What any client on the
// internet can provoke at will goes to debug, a panic of a handler to error with
// its stack in a field, the rest to warn.
func HTTPErrors(log *logrus.Entry) *stdlog.Logger {
	return stdlog.New(httpErrors{log}, "", 0)
}

type httpErrors struct{ log *logrus.Entry }

var backgroundNoise = []string{
	"http: TLS handshake error",
	"http: URL query contains semicolon",
	"http2: ",
}

func (w httpErrors) Write(line []byte) (int, error) {
	message, stack, _ := strings.Cut(strings.TrimRight(string(line), "\n"), "\n")
	for _, prefix := range backgroundNoise {
		if strings.HasPrefix(message, prefix) {
			w.log.Debug(message)
			return len(line), nil
		}
	}
	if strings.HasPrefix(message, "http: panic serving") {
		w.log.WithField("stack", stack).Error(message)
	} else {
		w.log.Warn(message)
	}
	return len(line), nil
}

// Leveled lends the log to go-retryablehttp (its LeveledLogger). Everything it
// says goes to debug: it speaks of single attempts, and whoever made the call
// gets the final error and decides what to say. Of URLs only scheme and host are
// shown, as webhooks carry secrets in the rest.
type Leveled struct{ Log *logrus.Entry }

// Error implements retryablehttp.LeveledLogger.
func (l Leveled) Error(msg string, keysAndValues ...any) { l.debug(msg, keysAndValues) }

// Warn implements retryablehttp.LeveledLogger.
func (l Leveled) Warn(msg string, keysAndValues ...any) { l.debug(msg, keysAndValues) }

// Info implements retryablehttp.LeveledLogger.
func (l Leveled) Info(msg string, keysAndValues ...any) { l.debug(msg, keysAndValues) }

// Debug implements retryablehttp.LeveledLogger.
func (l Leveled) Debug(msg string, keysAndValues ...any) { l.debug(msg, keysAndValues) }

func (l Leveled) debug(msg string, keysAndValues []any) {
	if !l.Log.Logger.IsLevelEnabled(logrus.DebugLevel) {
		return
	}
	fields := logrus.Fields{}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		fields[fmt.Sprint(keysAndValues[i])] = withoutSecrets(keysAndValues[i+1])
	}
	l.Log.WithFields(fields).Debug(msg)
}

// withoutSecrets shortens the URLs in a value that retryablehttp logs: a URL, an
// error of the HTTP client that repeats it, or a text like "GET https://...".
func withoutSecrets(value any) any {
	switch v := value.(type) {
	case *url.URL:
		return origin(v)
	case error:
		if e, ok := errors.AsType[*url.Error](v); ok {
			return e.Op + ": " + e.Err.Error()
		}
	case string:
		words := strings.Fields(v)
		for i, w := range words {
			if u, err := url.Parse(w); err == nil && u.Host != "" {
				words[i] = origin(u)
			} else if strings.Contains(w, "://") {
				words[i] = "<url>"
			}
		}
		return strings.Join(words, " ")
	}
	return value
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// AWS lends the log to the AWS SDK. Its debug messages go to debug; its warnings
// go to warn, and to debug while the same one is repeated, because the SDK warns
// anew with every request.
func AWS(log *logrus.Entry) logging.Logger { return &awsLogger{log: log} }

type awsLogger struct {
	log *logrus.Entry

	mu   sync.Mutex
	last string // guarded by mu: the last warning
}

// Logf implements logging.Logger.
func (l *awsLogger) Logf(class logging.Classification, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if class != logging.Warn {
		l.log.Debug(message)
		return
	}
	l.mu.Lock()
	repeated := message == l.last
	l.last = message
	l.mu.Unlock()
	if repeated {
		l.log.Debug(message)
	} else {
		l.log.Warn(message)
	}
}
