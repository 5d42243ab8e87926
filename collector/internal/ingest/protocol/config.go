package protocol

import (
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

	// Cookie is the cookie that carries the network user id.
	Cookie Cookie `yaml:"cookie"`
	// DoNotTrack is the cookie by which a person refuses to be recorded.
	DoNotTrack DoNotTrack `yaml:"do_not_track"`
	// CookieBounce finds out whether a browser takes third-party cookies.
	CookieBounce CookieBounce `yaml:"cookie_bounce"`
	// Redirects are click redirects, /r/tp2?u=target.
	Redirects Redirects `yaml:"redirects"`
	// RootResponse is the answer to GET /.
	RootResponse RootResponse `yaml:"root_response"`
	// CrossDomain is the answer to GET /crossdomain.xml.
	CrossDomain CrossDomain `yaml:"crossdomain"`
	// CORS is about scripts on pages of other origins.
	CORS CORS `yaml:"cors"`
	// HSTS tells browsers to use HTTPS only.
	HSTS HSTS `yaml:"hsts"`
}

// Cookie is the cookie that carries the network user id.
type Cookie struct {
	// Enabled sets and reads it. Default true.
	Enabled bool `yaml:"enabled"`
	// Name is its name. Default sp.
	Name string `yaml:"name"`
	// Expiration is how long a browser keeps it. Default 8760h, 365 days.
	Expiration time.Duration `yaml:"expiration"`
	// Domains are tried in order: the first that is, or is a parent of, a host
	// in the Origin header becomes the cookie's Domain. Default none.
	Domains []string `yaml:"domains"`
	// FallbackDomain is the Domain where none of Domains fits. Empty, the
	// default, is a cookie without Domain.
	FallbackDomain string `yaml:"fallback_domain"`
	// Secure keeps it to HTTPS. Default true; same_site None forces it.
	Secure bool `yaml:"secure"`
	// HTTPOnly hides it from scripts. Default true.
	HTTPOnly bool `yaml:"http_only"`
	// SameSite is None, Lax or Strict; empty leaves the attribute out. Default None.
	SameSite string `yaml:"same_site"`
	// ClientName is the name of a second cookie with the same value that scripts
	// can read. Empty, the default, is no second cookie.
	ClientName string `yaml:"client_name"`
}

// DoNotTrack is the cookie by which a person refuses to be recorded.
type DoNotTrack struct {
	// Enabled looks for it. Default false.
	Enabled bool `yaml:"enabled"`
	// Name is its name.
	Name string `yaml:"name"`
	// Value is a regular expression that the whole value must match.
	Value string `yaml:"value"`
}

// CookieBounce finds out whether a browser takes third-party cookies, by one
// redirect of the first pixel.
type CookieBounce struct {
	// Enabled redirects a pixel request without any id once. Default false.
	Enabled bool `yaml:"enabled"`
	// Name is the parameter that marks the second request. Default n3pc.
	Name string `yaml:"name"`
	// FallbackUserID is the id of browsers that take no cookie. Default
	// 00000000-0000-4000-A000-000000000000.
	FallbackUserID string `yaml:"fallback_user_id"`
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
	// Enabled gives the answer below. Default false: 404.
	Enabled bool `yaml:"enabled"`
	// Status is the HTTP status. Default 302.
	Status int `yaml:"status"`
	// Headers are sent as they are. Default none.
	Headers map[string]string `yaml:"headers"`
	// Body is sent as it is, as HTML where headers name no type. Default empty.
	Body string `yaml:"body"`
}

// CrossDomain is the policy file that Flash players ask for.
type CrossDomain struct {
	// Enabled serves it. Default false: 404.
	Enabled bool `yaml:"enabled"`
	// Domains are those that may read answers. Default ["*"].
	Domains []string `yaml:"domains"`
	// Secure allows only players that came over HTTPS. Default true.
	Secure bool `yaml:"secure"`
}

// CORS is about scripts on pages of other origins.
type CORS struct {
	// MaxAge is how long a browser may remember the answer to a preflight
	// request. Default 1h.
	MaxAge time.Duration `yaml:"max_age"`
}

// HSTS tells browsers to use HTTPS only.
type HSTS struct {
	// Enabled sends it with every answer. Default false.
	Enabled bool `yaml:"enabled"`
	// MaxAge is how long a browser keeps to it. Default 8760h, 365 days.
	MaxAge time.Duration `yaml:"max_age"`
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
