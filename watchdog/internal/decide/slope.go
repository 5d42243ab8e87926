package decide

import (
	"slices"
	"time"

	"spillway/shared/healthapi"
)

// keptLevels bounds the remembered levels, and with them the size of the state.
const keptLevels = 60

// level is the backlog now.
func (t *turn) level(b healthapi.Backlog) Level { return Level{At: t.now, Bytes: b.Bytes} }

// room is how many bytes the spool can still take, by its limit and by the disk.
func room(b healthapi.Backlog) int64 {
	left := b.DiskFreeBytes
	if b.LimitBytes > 0 && (b.LimitBytes-b.Bytes < left || b.DiskFreeBytes <= 0) {
		left = b.LimitBytes - b.Bytes
	}
	return max(left, 0)
}

// remember adds a level and drops those older than window. Levels that come
// more often than needed are left out.
func remember(levels []Level, l Level, window time.Duration) []Level {
	if n := len(levels); n > 0 && l.At.Sub(levels[n-1].At) < window/keptLevels {
		return levels
	}
	levels = append(levels, l)
	keep := max(0, len(levels)-keptLevels-1)
	for keep < len(levels)-1 && l.At.Sub(levels[keep].At) > window {
		keep++
	}
	return levels[keep:]
}

// slope is the median of the slopes between all pairs of levels within window,
// in bytes a second (Theil and Sen): a spool fills and drains like a saw, and
// the median looks through its teeth. It is false while the levels cover less
// than two thirds of the window or are fewer than four.
func slope(levels []Level, window time.Duration) (float64, bool) {
	if len(levels) == 0 {
		return 0, false
	}
	last := levels[len(levels)-1]
	from := slices.IndexFunc(levels, func(l Level) bool { return last.At.Sub(l.At) <= window })
	levels = levels[from:]
	if len(levels) < 4 || last.At.Sub(levels[0].At) < window*2/3 {
		return 0, false
	}
	slopes := make([]float64, 0, len(levels)*(len(levels)-1)/2)
	for i, a := range levels {
		for _, b := range levels[i+1:] {
			if dt := b.At.Sub(a.At).Seconds(); dt > 0 {
				slopes = append(slopes, float64(b.Bytes-a.Bytes)/dt)
			}
		}
	}
	if len(slopes) == 0 {
		return 0, false
	}
	slices.Sort(slopes)
	return slopes[len(slopes)/2], true
}
