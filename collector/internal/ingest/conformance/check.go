package conformance

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"spillway/collector/internal/ingest/protocol"
	"spillway/collector/internal/payload"
)

var (
	pixel, _ = base64.StdEncoding.DecodeString("R0lGODlhAQABAPAAAP///wAAACH5BAUAAAAALAAAAAABAAEAAAICRAEAOw==")
	uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// skew is how far a cookie's expiry may be from what it should be, since the
// time of a request over a socket is not known exactly.
const skew = 100 * time.Second

// Check returns in what an outcome differs from what must come of the row. at
// is when the request was sent.
func (c *Case) Check(got *Outcome, at time.Time) []string {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	want := &c.Want
	if got.Status != want.Status {
		add("status is %d, want %d", got.Status, want.Status)
	}
	body := want.Body
	if want.Pixel {
		s := string(pixel)
		body = &s
	}
	if body != nil && string(got.Body) != *body {
		add("body is %q, want %q", got.Body, *body)
	}
	for _, part := range want.Contains {
		if !strings.Contains(string(got.Body), part) {
			add("body %q does not contain %q", got.Body, part)
		}
	}
	for name, value := range want.Headers {
		if have := got.Header.Get(name); have != value {
			add("header %s is %q, want %q", name, have, value)
		}
	}
	for _, name := range want.Absent {
		if have, ok := got.Header[http.CanonicalHeaderKey(name)]; ok {
			add("header %s is %q, want none", name, have)
		}
	}
	if want.Cookies != nil {
		wrong = append(wrong, checkCookies(got.Header["Set-Cookie"], *want.Cookies, at)...)
	}
	if got.Stored {
		wrong = append(wrong, c.checkStored(got)...)
	}
	return wrong
}

func checkCookies(lines []string, want []Cookie, at time.Time) (wrong []string) {
	if len(lines) != len(want) {
		return []string{fmt.Sprintf("cookies set are %q, want %d", lines, len(want))}
	}
	for i, line := range lines {
		w := want[i]
		got, err := http.ParseSetCookie(line)
		if err != nil {
			return []string{fmt.Sprintf("cookie %q: %v", line, err)}
		}
		sameSite := map[string]http.SameSite{"": 0, "None": http.SameSiteNoneMode, "Lax": http.SameSiteLaxMode, "Strict": http.SameSiteStrictMode}
		off := got.Expires.Sub(at.Add(w.Expires)).Abs()
		if got.Name != w.Name || !same(got.Value, w.Value) || got.Domain != w.Domain || got.Path != "/" || got.Secure != w.Secure ||
			got.HttpOnly != w.HTTPOnly || got.SameSite != sameSite[w.SameSite] || off > skew || got.MaxAge != 0 {
			wrong = append(wrong, fmt.Sprintf("cookie is %q, want %+v (expiry is off by %s)", line, w, off))
		}
	}
	return wrong
}

func (c *Case) checkStored(got *Outcome) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	want := &c.Want
	for _, n := range []struct {
		what string
		got  int
		want *int
	}{{"good records", len(got.Good), want.Good}, {"bad rows", len(got.Bad), want.Bad}, {"payloads kept", got.Kept, want.Kept}} {
		if n.want != nil && n.got != *n.want {
			add("there are %d %s, want %d", n.got, n.what, *n.want)
		}
	}
	if want.Record == nil && want.Listed == nil && want.Unlisted == nil && want.Key == "" && want.Last == "" {
		return wrong
	}
	if len(got.Good) == 0 {
		return append(wrong, "nothing was recorded")
	}
	return append(wrong, c.checkRecord(&got.Good[0])...)
}

func (c *Case) checkRecord(record *protocol.Record) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	want := &c.Want
	if want.Key != "" && !same(record.Key, want.Key) {
		add("partition key is %q, want %q", record.Key, want.Key)
	}
	p, err := payload.Decode(record.Data)
	if err != nil {
		return append(wrong, err.Error())
	}
	have, err := fields(p.AppendJSON(nil))
	if err != nil {
		return append(wrong, err.Error())
	}
	for name, value := range want.Record {
		got, ok := have[name]
		text, isText := got.(string)
		pattern, wantText := value.(string)
		switch {
		case value == nil && ok:
			add("%s is %v, want none", name, got)
		case value == nil:
		case isText && wantText && same(text, pattern):
		case !reflect.DeepEqual(got, value):
			add("%s is %q, want %q", name, got, value)
		}
	}
	for _, h := range want.Listed {
		if !slices.Contains(p.Headers, h) {
			add("headers %q do not contain %q", p.Headers, h)
		}
	}
	for _, h := range want.Unlisted {
		if slices.ContainsFunc(p.Headers, func(s string) bool { return strings.HasPrefix(s, h) }) {
			add("headers %q contain %q", p.Headers, h)
		}
	}
	if n := len(p.Headers); want.Last != "" && (n == 0 || p.Headers[n-1] != want.Last) {
		add("headers %q do not end in %q", p.Headers, want.Last)
	}
	return wrong
}

func same(got, want string) bool {
	if want == "uuid" {
		return uuidForm.MatchString(got)
	}
	return got == want
}
