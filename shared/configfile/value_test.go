package configfile_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/shared/configfile"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "5s": 5 * time.Second, " 250ms ": 250 * time.Millisecond, "7d": 168 * time.Hour, "1.5d": 36 * time.Hour,
		"1d12h": 36 * time.Hour, "-1d1h": -25 * time.Hour, "365d": 365 * 24 * time.Hour, "1h30m": 90 * time.Minute,
	} {
		got, err := configfile.ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "1h1d", "1d-1h", "1d+1h", "--1d", "1dd", "nand", "infd", "-nand", "106752d", "106751d24h", "5 s", "1d 2h", "5 days", "never"} {
		if got, err := configfile.ParseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "5m": 5 * time.Minute, "2h": 2 * time.Hour, "24h": 24 * time.Hour, "7d": 168 * time.Hour, "1h30m": 90 * time.Minute,
		"10s": 10 * time.Second, "1h0m5s": time.Hour + 5*time.Second, "-2d": -48 * time.Hour, "20m": 20 * time.Minute, "10h": 10 * time.Hour,
	} {
		if got := configfile.FormatDuration(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestFormatDuration_readsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]time.Duration{1, time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "unit")
		d := unit * time.Duration(rapid.Int64Range(math.MinInt64/int64(unit)+1, math.MaxInt64/int64(unit)).Draw(t, "n"))
		got, err := configfile.ParseDuration(configfile.FormatDuration(d))
		if err != nil || got != d {
			t.Fatalf("%v as %q: got %v, %v", d, configfile.FormatDuration(d), got, err)
		}
	})
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]configfile.Size{
		"0": 0, "17": 17, "17B": 17, "64MiB": 64 << 20, "64 MiB": 64 << 20, "1.5KiB": 1536, "2kB": 2000, "3GB": 3e9, "1TB": 1e12, "9223372036854775807": math.MaxInt64,
	} {
		got, err := configfile.ParseSize(text)
		if err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "-1KiB", "1mib", "1KB", "1e30", "inf", "nan", "8388608TiB", "9223372036854775808"} {
		if got, err := configfile.ParseSize(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

func TestUnder_putsThePathBeforeEveryKey(t *testing.T) {
	inner := errors.Join(
		configfile.Invalid("max_bytes", "too small"),
		configfile.Invalid("", "odd"),
		configfile.Invalid("[2].name", "is empty"),
		errors.New("linger: is negative"),
		errors.New("rules[3].for: is zero"),
		errors.New("Plain words: with a colon"),
	)
	got := configfile.Under("a.b", configfile.Under("c", inner))
	want := "a.b.c.max_bytes: too small\na.b.c: odd\na.b.c[2].name: is empty\na.b.c.linger: is negative\na.b.c.rules[3].for: is zero\na.b.c: Plain words: with a colon"
	if got == nil || got.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", got, want)
	}
	if configfile.Under("a", nil) != nil {
		t.Error("nil must stay nil")
	}
}
