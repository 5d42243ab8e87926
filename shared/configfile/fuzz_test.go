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
