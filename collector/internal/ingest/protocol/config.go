package protocol

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"spillway/shared/configfile"
)

// Config says how the collector speaks. Every default is what the reference
// collector does, where nothing else is said.
type Config struct {
	// Paths maps a path of two segments to the one it stands for, as in
	// /com.acme/track: /com.snowplowanalytics.snowplow/tp2. The payload carries
	// the latter. Default none.
	Paths map[string]string `yaml:"paths"`
	// MaxRecordBytes is the size from which on a payload is too large for one
	// record and is cut up. Default 1000000; a Kinesis stream can be set to take
	// up to 10 MiB.
	MaxRecordBytes configfile.Size `yaml:"max_record_bytes"`
	// MaxPayloadBytes is the size over which a payload is not cut up but becomes
	// one bad row. Default 0: whatever its size, it is cut up. The reference
	// collector does not cut what is larger than 1048576.
	MaxPayloadBytes configfile.Size `yaml:"max_payload_bytes"`
	// UseIPAsPartitionKey puts all events of one address on one shard. Default
	// false: a random key for each request.
	UseIPAsPartitionKey bool `yaml:"use_ip_as_partition_key"`
	// TrustedProxies lists the networks whose X-Forwarded-For and Forwarded
	// headers are believed: addresses, networks like 10.0.0.0/8, "private" for
	// loopback and every range that is not routed on the internet, or "all".
	// Default [private]. An empty list believes nobody.
	TrustedProxies []string `yaml:"trusted_proxies"`

	Cookie       Cookie       `yaml:"cookie"`
	DoNotTrack   DoNotTrack   `yaml:"do_not_track"`
	CookieBounce CookieBounce `yaml:"cookie_bounce"`
	Redirects    Redirects    `yaml:"redirects"`
	RootResponse RootResponse `yaml:"root_response"`
	CrossDomain  CrossDomain  `yaml:"crossdomain"`
	CORS         CORS         `yaml:"cors"`
	HSTS         HSTS         `yaml:"hsts"`
}

// Cookie is the cookie that carries the network user id.
type Cookie struct {
	Enabled bool   `yaml:"enabled"` // default true
	Name    string `yaml:"name"`    // default sp
	// Expiration is how long a browser keeps it. Default 8760h, 365 days.
	Expiration time.Duration `yaml:"expiration"`
	// Domains are tried in order: the first that is, or is a parent of, a host
	// in the Origin header becomes the cookie's Domain. Default none.
	Domains []string `yaml:"domains"`
	// FallbackDomain is the Domain where none of Domains fits. Empty, the
	// default, is a cookie without Domain.
	FallbackDomain string `yaml:"fallback_domain"`
	Secure         bool   `yaml:"secure"`    // default true; same_site None forces it
	HTTPOnly       bool   `yaml:"http_only"` // default true
	SameSite       string `yaml:"same_site"` // None, Lax, Strict or empty; default None
	// ClientName is the name of a second cookie with the same value that scripts
	// can read. Empty, the default, is no second cookie.
	ClientName string `yaml:"client_name"`
}

// DoNotTrack is the cookie by which a person refuses to be recorded.
type DoNotTrack struct {
	Enabled bool   `yaml:"enabled"` // default false
	Name    string `yaml:"name"`
	Value   string `yaml:"value"` // regular expression for the whole value
}

// CookieBounce finds out whether a browser takes third-party cookies, by one
// redirect of the first pixel.
type CookieBounce struct {
	Enabled        bool   `yaml:"enabled"`          // default false
	Name           string `yaml:"name"`             // of the parameter that marks the second request; default n3pc
	FallbackUserID string `yaml:"fallback_user_id"` // of browsers that take no cookie; default 00000000-0000-4000-A000-000000000000
	// ForwardedProtocolHeader names the header in which a proxy says http or
	// https. Empty, the default, redirects to the same scheme.
	ForwardedProtocolHeader string `yaml:"forwarded_protocol_header"`
}

// Redirects are click redirects, /r/tp2?u=target.
type Redirects struct {
	// Enabled opens /r/. Default false: 404. A mapping in paths to /r/tp2 opens
	// that path alone.
	Enabled bool `yaml:"enabled"`
	// Domains are the only hosts to which a redirect may lead, exactly. Default
	// none, which allows all: the collector then redirects anywhere for anybody.
	Domains []string `yaml:"domains"`
}

// RootResponse is the answer to GET /.
type RootResponse struct {
	Enabled bool              `yaml:"enabled"` // default false: 404
	Status  int               `yaml:"status"`  // default 302
	Headers map[string]string `yaml:"headers"`
	Body    string            `yaml:"body"`
}

// CrossDomain is the policy file that Flash players ask for.
type CrossDomain struct {
	Enabled bool     `yaml:"enabled"` // default false: 404
	Domains []string `yaml:"domains"` // default ["*"]
	Secure  bool     `yaml:"secure"`  // default true
}

// CORS is about scripts on pages of other origins.
type CORS struct {
	// MaxAge is how long a browser may remember the answer to a preflight
	// request. Default 1h.
	MaxAge time.Duration `yaml:"max_age"`
}

// HSTS tells browsers to use HTTPS only.
type HSTS struct {
	Enabled bool          `yaml:"enabled"` // default false
	MaxAge  time.Duration `yaml:"max_age"` // default 8760h, 365 days
}

// DefaultConfig returns the configuration in which nothing is said.
func DefaultConfig() Config {
	const year = 365 * 24 * time.Hour
	return Config{
		MaxRecordBytes: 1000000,
		TrustedProxies: []string{trustPrivate},
		Cookie:         Cookie{Enabled: true, Name: "sp", Expiration: year, Secure: true, HTTPOnly: true, SameSite: "None"},
		CookieBounce:   CookieBounce{Name: "n3pc", FallbackUserID: "00000000-0000-4000-A000-000000000000"},
		RootResponse:   RootResponse{Status: 302},
		CrossDomain:    CrossDomain{Domains: []string{"*"}, Secure: true},
		CORS:           CORS{MaxAge: time.Hour},
		HSTS:           HSTS{MaxAge: year},
	}
}

// Validate says what makes no sense, naming the YAML key.
func (c Config) Validate() error {
	for from, to := range c.Paths {
		for _, p := range []string{from, to} {
			if _, _, ok := twoSegments(p); !ok {
				return fmt.Errorf("paths: %q is not a path of two segments like /vendor/version", p)
			}
		}
	}
	if c.MaxRecordBytes < 1024 || c.MaxRecordBytes > 10*configfile.MiB {
		return fmt.Errorf("max_record_bytes: %s is outside 1KiB to 10MiB", c.MaxRecordBytes)
	}
	if c.MaxPayloadBytes != 0 && c.MaxPayloadBytes < c.MaxRecordBytes {
		return fmt.Errorf("max_payload_bytes: %s is less than max_record_bytes, %s", c.MaxPayloadBytes, c.MaxRecordBytes)
	}
	if _, err := parseTrusted(c.TrustedProxies); err != nil {
		return err
	}
	if err := c.Cookie.validate(); err != nil {
		return fmt.Errorf("cookie.%w", err)
	}
	if c.DoNotTrack.Enabled {
		if !isToken(c.DoNotTrack.Name) {
			return fmt.Errorf("do_not_track.name: %q cannot be the name of a cookie", c.DoNotTrack.Name)
		}
		if _, err := regexp.Compile("^(?:" + c.DoNotTrack.Value + ")$"); err != nil {
			return fmt.Errorf("do_not_track.value: %w", err)
		}
	}
	if c.CookieBounce.Enabled && (!isToken(c.CookieBounce.Name) || c.CookieBounce.FallbackUserID == "") {
		return errors.New("cookie_bounce: name and fallback_user_id must not be empty, and name must be a plain word")
	}
	if h := c.CookieBounce.ForwardedProtocolHeader; h != "" && !isToken(h) {
		return fmt.Errorf("cookie_bounce.forwarded_protocol_header: %q cannot be the name of a header", h)
	}
	if err := c.RootResponse.validate(); err != nil {
		return fmt.Errorf("root_response.%w", err)
	}
	if c.CORS.MaxAge < 0 {
		return fmt.Errorf("cors.max_age: %s is negative", c.CORS.MaxAge)
	}
	if c.HSTS.MaxAge < 0 {
		return fmt.Errorf("hsts.max_age: %s is negative", c.HSTS.MaxAge)
	}
	return nil
}

func (c Cookie) validate() error {
	if !c.Enabled {
		return nil
	}
	if !isToken(c.Name) {
		return fmt.Errorf("name: %q cannot be the name of a cookie", c.Name)
	}
	if c.ClientName != "" && !isToken(c.ClientName) {
		return fmt.Errorf("client_name: %q cannot be the name of a cookie", c.ClientName)
	}
	if c.ClientName == c.Name {
		return fmt.Errorf("client_name: %q is the name of the first cookie", c.ClientName)
	}
	if c.Expiration <= 0 {
		return fmt.Errorf("expiration: %s is not a time in the future", c.Expiration)
	}
	for _, d := range c.Domains {
		if !isDomain(d) {
			return fmt.Errorf("domains: %q is not a domain", d)
		}
	}
	if c.FallbackDomain != "" && !isDomain(c.FallbackDomain) {
		return fmt.Errorf("fallback_domain: %q is not a domain; give one only", c.FallbackDomain)
	}
	switch c.SameSite {
	case "", "None", "Lax", "Strict":
		return nil
	}
	return fmt.Errorf("same_site: %q is none of None, Lax, Strict", c.SameSite)
}

func (r RootResponse) validate() error {
	if !r.Enabled {
		return nil
	}
	if r.Status < 200 || r.Status > 599 {
		return fmt.Errorf("status: %d is not a final HTTP status", r.Status)
	}
	for name, value := range r.Headers {
		if !isToken(name) || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return fmt.Errorf("headers: %q: %q cannot be a header", name, value)
		}
	}
	return nil
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
			return nil, fmt.Errorf("trusted_proxies: %q is no address, no network like 10.0.0.0/8, and neither private nor all", s)
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
