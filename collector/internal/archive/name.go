package archive

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"spillway/collector/internal/sink"
)

// sumLength is how many characters of the content's hash stand in a name: two
// different sets of records between the same numbers never share a name.
const sumLength = 8

// Extension ends the name of every object.
const Extension = ".ndjson.gz"

// Name is the name of an object:
//
//	good/date=2026-12-01/hour=01/ip-10-0-0-12/1870-1999-0f3a77c2.ndjson.gz
//
// It follows from the records in it. Where an object stands (bucket and prefix,
// directory) is for its sink to say.
type Name struct {
	Lane     sink.Lane
	Hour     time.Time // in UTC, the hour in which the first record was received
	Instance string    // the collector, see CleanInstance
	First    uint64    // lowest number of a record
	Last     uint64    // highest number of a record
	Sum      string    // begin of the SHA-256 of the content, in hex
}

// String returns the name, with slashes between its parts.
func (n Name) String() string {
	return fmt.Sprintf("%s/date=%s/hour=%s/%s/%d-%d-%s%s", n.Lane, n.Hour.UTC().Format(time.DateOnly), n.Hour.UTC().Format("15"),
		n.Instance, n.First, n.Last, n.Sum, Extension)
}

var pattern = regexp.MustCompile(`^(good|bad)/date=(\d{4}-\d{2}-\d{2})/hour=(\d{2})/([A-Za-z0-9._-]+)/(\d{1,20})-(\d{1,20})-([0-9a-f]{8})\.ndjson\.gz$`)

// ParseName reads what String writes.
func ParseName(s string) (Name, error) {
	m := pattern.FindStringSubmatch(s)
	if m == nil {
		return Name{}, fmt.Errorf("%q is not the name of an archived object", s)
	}
	hour, err := time.Parse("2006-01-02 15", m[2]+" "+m[3])
	if err != nil {
		return Name{}, fmt.Errorf("%q is not the name of an archived object: %w", s, err)
	}
	first, err := strconv.ParseUint(m[5], 10, 64)
	if err != nil {
		return Name{}, fmt.Errorf("%q is not the name of an archived object: %w", s, err)
	}
	last, err := strconv.ParseUint(m[6], 10, 64)
	if err != nil {
		return Name{}, fmt.Errorf("%q is not the name of an archived object: %w", s, err)
	}
	return Name{Lane: sink.Lane(m[1]), Hour: hour, Instance: m[4], First: first, Last: last, Sum: m[7]}, nil
}

// ParseKey reads the name at the end of an object's key and returns the prefix
// before it, without a slash at its end.
func ParseKey(key string) (prefix string, n Name, err error) {
	parts := strings.Split(key, "/")
	at := max(len(parts)-nameParts, 0)
	n, err = ParseName(strings.Join(parts[at:], "/"))
	return strings.Join(parts[:at], "/"), n, err
}

// nameParts is how many parts a name has between its slashes.
const nameParts = 5

// Key joins a prefix, which may be empty, and a name.
func (n Name) Key(prefix string) string { return path.Join(CleanPrefix(prefix), n.String()) }

// CleanPrefix returns a prefix as it stands in keys: without slashes at its ends
// and empty parts between them.
func CleanPrefix(prefix string) string {
	return strings.Trim(path.Clean("/"+prefix), "/")
}

var unclean = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// CleanInstance returns a collector's name as it stands in names of objects:
// anything but letters, digits, dot, underscore and hyphen becomes a hyphen. Two
// collectors of the same name do not overwrite each other, since names follow
// from the content.
func CleanInstance(instance string) string {
	cleaned := unclean.ReplaceAllString(instance, "-")
	if strings.Trim(cleaned, ".-") == "" {
		return "unnamed"
	}
	return cleaned
}
