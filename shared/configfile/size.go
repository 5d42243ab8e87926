package configfile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. In YAML it is a plain number of bytes or a number
// with a unit: B, KiB, MiB, GiB, TiB (powers of 1024) or kB, MB, GB, TB (powers
// of 1000).
type Size int64

// Binary units.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

var units = []struct {
	name  string
	bytes Size
}{
	{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// ParseSize reads the form that Size has in YAML.
func ParseSize(s string) (Size, error) {
	number, unit := strings.TrimSpace(s), Size(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && n >= 0 && n <= math.MaxInt64/int64(unit) {
		return Size(n) * unit, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f < 0 || math.IsNaN(f) || f*float64(unit) >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size: want a number with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB, like 64MiB", s)
	}
	return Size(f * float64(unit)), nil
}

// String returns the size in the largest binary unit that divides it.
func (s Size) String() string {
	for _, u := range units[:4] {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// UnmarshalText reads a size from a YAML scalar.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := ParseSize(string(text))
	if err != nil {
		return err
	}
	*s = v
	return nil
}

// MarshalText writes the size in the form UnmarshalText reads.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
