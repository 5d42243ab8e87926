package decide

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSlope_seesThroughTheTeethOfASaw(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes func(i int) int64
		want  float64
	}{
		"level":      {func(int) int64 { return 1000 }, 0},
		"rising":     {func(i int) int64 { return int64(i) * 500 }, 100},
		"saw":        {func(i int) int64 { return int64(i%6) * 500 }, 0},
		"rising saw": {func(i int) int64 { return int64(i)*500 + int64(i%2)*200 }, 100},
		"one spike":  {func(i int) int64 { return map[bool]int64{true: 1 << 40}[i == 30] }, 0},
		"falling":    {func(i int) int64 { return 1e6 - int64(i)*500 }, -100},
	} {
		var levels []Level
		for i := range 61 {
			levels = remember(levels, Level{At: Moment(i) * Moment(5*time.Second), Bytes: tc.bytes(i)}, 5*time.Minute)
		}
		got, ok := slope(levels, 5*time.Minute)
		if !ok || math.Abs(got-tc.want) > 5 {
			t.Errorf("%s: slope %v (%v), want %v", name, got, ok, tc.want)
		}
	}
}

func TestSlope_isUnknownUntilItCoversItsWindow(t *testing.T) {
	var levels []Level
	for i := range 9 {
		levels = remember(levels, Level{At: Moment(i) * Moment(5*time.Second)}, 5*time.Minute)
		if _, ok := slope(levels, time.Minute); ok != (i >= 8) {
			t.Errorf("after %ds: known %v", i*5, ok)
		}
		if _, ok := slope(levels, 5*time.Minute); ok {
			t.Error("forty seconds do for five minutes")
		}
	}
}

func TestRemember_isBoundedWhateverThePollIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var levels []Level
		now := firstMoment
		for range 500 {
			now = now.Add(time.Duration(rapid.IntRange(1, 60000).Draw(t, "ms")) * time.Millisecond)
			levels = remember(levels, Level{At: now}, 5*time.Minute)
			if len(levels) > keptLevels+2 || now.Sub(levels[0].At) > 7*time.Minute && len(levels) > 1 {
				t.Fatalf("%d levels over %s", len(levels), now.Sub(levels[0].At))
			}
		}
	})
}

func TestText_asPeopleSayIt(t *testing.T) {
	for got, want := range map[string]string{
		length(5*time.Minute + 12*time.Second + 300*time.Millisecond): "5m12s",
		length(340 * time.Millisecond):                                "340ms", length(1510 * time.Millisecond): "1.5s", length(-time.Hour): "-1h",
		signed(time.Minute): "+1m", signed(-time.Minute): "-1m",
		count(0): "0", count(999): "999", count(182334): "182,334", count(-1234567): "-1,234,567",
		size(512): "512 B", size(183423412): "174.9 MiB", size(1 << 50): "1024.0 TiB",
		plural(1, "start"): "1 start", plural(0, "start"): "0 starts",
		length(seconds(math.Inf(1))): "3650d", length(seconds(-math.MaxFloat64)): "-3650d",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
