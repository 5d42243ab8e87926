package configfile_test

import (
	"errors"
	"testing"

	"spillway/shared/configfile"
)

// Whatever the bytes, loading ends with a value or with errors that each name
// the file.
func FuzzLoadBytes(f *testing.F) {
	for _, seed := range []string{
		"", "---", "a: b", "sink:\n  linegr: 5s", "extra: {tags: {a: ${PORT}}}", "hosts: [a, {b: [c]}]", "? [a]\n: b", "a: &x [*x]", "<<: {a: b}",
		"token: {file: x}", "listen: |\n  a\n  b", "\tx", "a: 'b", "max_bytes: 1e309", "sink: {max_records: -9223372036854775809}", "!!set {a}", "%YAML 1.3\n---\n", "\xff\xfea",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := configfile.LoadBytes("fuzz.yaml", data, defaults(), withTestEnv())
		if err == nil {
			return
		}
		if e, ok := errors.AsType[*configfile.Error](err); !ok || e.Message == "" || e.File == "" {
			t.Errorf("not an *Error with a message: %v", err)
		}
	})
}

// What is read as a duration or a size is written so that it reads the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"5s", "7d", "1d12h", "-1.5d", "0", "1e3h", "64MiB", "1.5 kB", "NaNd", "+1d", "9223372036854775807", "٣s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := configfile.ParseDuration(text); err == nil {
			if back, err := configfile.ParseDuration(configfile.FormatDuration(d)); err != nil || back != d {
				t.Errorf("%q is %d, written %q, read %d, %v", text, d, configfile.FormatDuration(d), back, err)
			}
		}
		if s, err := configfile.ParseSize(text); err == nil {
			if back, err := configfile.ParseSize(s.String()); s < 0 || err != nil || back != s {
				t.Errorf("%q is %d, written %q, read %d, %v", text, int64(s), s, int64(back), err)
			}
		}
	})
}
