package admin

import (
	"fmt"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/sirupsen/logrus"
)

// quiet hands what the HTTP client wants to log to the debug level: the error
// itself is returned, and said by whoever knows whether it is news.
type quiet struct{ log *logrus.Entry }

func (q quiet) say(message string, pairs []any) {
	fields := logrus.Fields{}
	for i := 0; i+1 < len(pairs); i += 2 {
		fields[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	q.log.WithFields(fields).Debug(message)
}

func (q quiet) Error(message string, pairs ...any) { q.say(message, pairs) }
func (q quiet) Warn(message string, pairs ...any)  { q.say(message, pairs) }
func (q quiet) Info(message string, pairs ...any)  { q.say(message, pairs) }
func (q quiet) Debug(message string, pairs ...any) { q.say(message, pairs) }

var _ retryablehttp.LeveledLogger = quiet{}
