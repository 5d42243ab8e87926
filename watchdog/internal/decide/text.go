package decide

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"spillway/shared/configfile"
)

// length writes a duration as people say it: 5m12s, 340ms.
func length(d time.Duration) string {
	switch {
	case d >= 10*time.Second || d <= -10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Second || d <= -time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	return configfile.FormatDuration(d)
}

func signed(d time.Duration) string {
	if d > 0 {
		return "+" + length(d)
	}
	return length(d)
}

// count writes a number with separators: 182,334.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// percent writes a share; a tiny one as such: 18.6 %, < 0.1 %.
func percent(n float64) string {
	if n > 0 && n < 0.1 {
		return "< 0.1 %"
	}
	return fmt.Sprintf("%.3g %%", n)
}

// size writes bytes in the unit that leaves a short number: 174.9 MiB.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	if u == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}

func seconds(f float64) time.Duration {
	const most = float64(10 * 365 * 24 * time.Hour)
	return time.Duration(min(max(f*float64(time.Second), -most), most))
}

// plural writes "1 start", "2 starts".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// somebody names who did something, when it is known.
func somebody(by string) string {
	if by == "" {
		return "somebody"
	}
	return by
}
