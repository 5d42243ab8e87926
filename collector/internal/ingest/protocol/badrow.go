package protocol

import (
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"spillway/collector/internal/payload"
)

const (
	violationSchema = "iglu:com.snowplowanalytics.snowplow.badrows/size_violation/jsonschema/1-0-0"

	// The schema of bad rows allows no more.
	maxExpectation = 256
	maxVersion     = 32

	// excerptShare is the part of the limit that a bad row shows of a payload.
	// In the worst case a character takes six bytes, so the row itself still
	// fits under the limit.
	excerptShare = 10
)

// sizeViolation returns the bad row that tells a pipeline of a payload that was
// too large: one line of JSON.
func (c *Core) sizeViolation(p *payload.Payload, at time.Time, maximum, actual int, reason string) []byte {
	b := make([]byte, 0, 1024+maximum/excerptShare)
	b = append(b, `{"schema":"`+violationSchema+`","data":{"processor":{"artifact":`...)
	b = payload.AppendJSONString(b, c.opts.ProcessorName)
	b = append(b, `,"version":`...)
	b = payload.AppendJSONString(b, c.opts.ProcessorVersion)
	b = append(b, `},"failure":{"timestamp":"`...)
	b = at.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
	b = append(b, `","maximumAllowedSizeBytes":`...)
	b = strconv.AppendInt(b, int64(maximum), 10)
	b = append(b, `,"actualSizeBytes":`...)
	b = strconv.AppendInt(b, int64(actual), 10)
	b = append(b, `,"expectation":`...)
	b = payload.AppendJSONString(b, cutRunes("oversized collector payload: "+reason, maxExpectation))
	b = append(b, `},"payload":`...)
	b = payload.AppendJSONString(b, p.Excerpt(maximum/excerptShare))
	return append(b, "}}"...)
}

func cutRunes(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most])
}

var versionForm = regexp.MustCompile(`^\d+\.\d+\.\d+`)

// badRowVersion returns a version in the form that the schema of bad rows asks
// for: three numbers, and then anything.
func badRowVersion(v string) string {
	if !versionForm.MatchString(v) {
		v = "0.0.0-" + v
	}
	return cutRunes(v, maxVersion)
}
