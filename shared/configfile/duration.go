package configfile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration reads a duration as it stands in a config file: what
// time.ParseDuration takes, and days before it ("7d", "1d12h"; a day is 24
// hours). A number without a unit is refused, but for 0.
func ParseDuration(s string) (time.Duration, error) {
	text := strings.TrimSpace(s)
	rest, sign := text, time.Duration(1)
	if after, ok := strings.CutPrefix(text, "-"); ok {
		rest, sign = after, -1
	}
	before, after, hasDays := strings.Cut(rest, "d")
	if !hasDays {
		if d, err := time.ParseDuration(text); err == nil {
			return d, nil
		}
		return 0, notDuration(s)
	}
	days, err := strconv.ParseFloat(before, 64)
	if err != nil || days < 0 || !(days*float64(day) < math.MaxInt64) {
		return 0, notDuration(s)
	}
	total := time.Duration(days * float64(day))
	if after != "" {
		d, err := time.ParseDuration(after)
		if err != nil || d < 0 || strings.HasPrefix(after, "+") || total > math.MaxInt64-d {
			return 0, notDuration(s)
		}
		total += d
	}
	return sign * total, nil
}

func notDuration(s string) error {
	return fmt.Errorf("%q is not a duration: want a number with a unit, like 250ms, 5s, 10m, 2h or 7d", s)
}

// FormatDuration writes d in the form ParseDuration reads, without the zero
// parts that time.Duration.String adds: 5m, not 5m0s.
func FormatDuration(d time.Duration) string {
	if d != 0 && d%day == 0 && d/day != 1 && d/day != -1 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
