package protocol

import (
	"errors"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"spillway/shared/configfile"
)

// Validate says what makes no sense, naming the YAML keys.
func (c Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) { errs = append(errs, configfile.Invalid(key, format, args...)) }
	for _, from := range slices.Sorted(maps.Keys(c.Paths)) {
		for _, p := range []string{from, c.Paths[from]} {
			if _, _, ok := twoSegments(p); !ok {
				bad("paths", "%q is not a path of two segments like /vendor/version", p)
			}
		}
	}
	if c.MaxRecordBytes < configfile.KiB || c.MaxRecordBytes > 10*configfile.MiB {
		bad("max_record_bytes", "%s is outside 1KiB to 10MiB", c.MaxRecordBytes)
	}
	if c.MaxPayloadBytes != 0 && c.MaxPayloadBytes < c.MaxRecordBytes {
		bad("max_payload_bytes", "%s is less than max_record_bytes, %s", c.MaxPayloadBytes, c.MaxRecordBytes)
	}
	if _, err := parseTrusted(c.TrustedProxies); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, configfile.Under("cookie", c.Cookie.validate()))
	if c.DoNotTrack.Enabled {
		if !isToken(c.DoNotTrack.Name) {
			bad("do_not_track.name", "%q cannot be the name of a cookie", c.DoNotTrack.Name)
		}
		if _, err := wholeValue(c.DoNotTrack.Value); err != nil {
			bad("do_not_track.value", "%v", err)
		}
	}
	if b := c.CookieBounce; b.Enabled && (!isToken(b.Name) || b.FallbackUserID == "") {
		bad("cookie_bounce", "name must be a plain word, and fallback_user_id not empty")
	}
	if h := c.CookieBounce.ForwardedProtocolHeader; h != "" && !isToken(h) {
		bad("cookie_bounce.forwarded_protocol_header", "%q cannot be the name of a header", h)
	}
	errs = append(errs, configfile.Under("root_response", c.RootResponse.validate()))
	if c.CORS.MaxAge < 0 {
		bad("cors.max_age", "%s is negative", configfile.FormatDuration(c.CORS.MaxAge))
	}
	if c.HSTS.MaxAge < 0 {
		bad("hsts.max_age", "%s is negative", configfile.FormatDuration(c.HSTS.MaxAge))
	}
	return errors.Join(errs...)
}

func (c Cookie) validate() error {
	if !c.Enabled {
		return nil
	}
	var errs []error
	bad := func(key, format string, args ...any) { errs = append(errs, configfile.Invalid(key, format, args...)) }
	if !isToken(c.Name) {
		bad("name", "%q cannot be the name of a cookie", c.Name)
	}
	if c.ClientName != "" && !isToken(c.ClientName) {
		bad("client_name", "%q cannot be the name of a cookie", c.ClientName)
	}
	if c.ClientName == c.Name {
		bad("client_name", "%q is the name of the first cookie", c.ClientName)
	}
	if c.Expiration <= 0 {
		bad("expiration", "%s is not more than zero", configfile.FormatDuration(c.Expiration))
	}
	for _, d := range c.Domains {
		if !isDomain(d) {
			bad("domains", "%q is not a domain", d)
		}
	}
	if c.FallbackDomain != "" && !isDomain(c.FallbackDomain) {
		bad("fallback_domain", "%q is not a domain; give one only", c.FallbackDomain)
	}
	if !slices.Contains([]string{"", "None", "Lax", "Strict"}, c.SameSite) {
		bad("same_site", "%q is none of None, Lax, Strict", c.SameSite)
	}
	return errors.Join(errs...)
}

func (r RootResponse) validate() error {
	if !r.Enabled {
		return nil
	}
	if r.Status < 200 || r.Status > 599 {
		return configfile.Invalid("status", "%d is not a final HTTP status", r.Status)
	}
	for name, value := range r.Headers {
		if !isToken(name) || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return configfile.Invalid("headers", "%q: %q cannot be a header", name, value)
		}
	}
	return nil
}

// wholeValue compiles an expression so that it must match a value as a whole.
func wholeValue(expression string) (*regexp.Regexp, error) {
	return regexp.Compile("^(?:" + expression + ")$")
}

const (
	trustAll     = "all"
	trustPrivate = "private"
)

// private holds the networks that are not routed on the internet. The shared
// address space 100.64.0.0/10 is among them: cloud networks use it inside.
var private = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"),
}

func parseTrusted(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		switch s {
		case trustAll:
			out = append(out, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"))
			continue
		case trustPrivate:
			out = append(out, private...)
			continue
		}
		if addr, err := netip.ParseAddr(s); err == nil {
			addr = addr.WithZone("").Unmap()
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, configfile.Invalid("trusted_proxies", "%q is no address, no network like 10.0.0.0/8, and neither private nor all", s)
		}
		out = append(out, network.Masked())
	}
	return out, nil
}

// isToken says whether s may be the name of a header or of a cookie.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// isDomain says whether s may be the Domain of a cookie.
func isDomain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isAlphanumeric(c) && c != '.' && c != '-' {
			return false
		}
	}
	return s != ""
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
