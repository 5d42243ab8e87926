package convert

import (
	"regexp"

	"spillway/collector/internal/hocon"
)

// rule converts the setting at a key, with everything below it.
type rule func(c *conversion, key string, v *hocon.Value)

// to writes the setting under another key.
func to(path string, as as) rule {
	return func(c *conversion, key string, v *hocon.Value) {
		if text, ok := as(c, key, v); ok {
			c.out.set(path, text, "")
		}
	}
}

// gone says why there is no such setting, or what there is instead.
func gone(why string) rule {
	return func(c *conversion, key string, v *hocon.Value) { c.note(key, v.Line, "%s", why) }
}

// silent is for what is dealt with elsewhere, or needs no word.
func silent(*conversion, string, *hocon.Value) {}

const (
	statsd  = "metrics are Prometheus's, at /metrics of admin.listen. What counts: spillway_collector_ingest_requests_total, and all of the spool and the sink"
	warmup  = "there is nothing to warm up"
	server  = "a setting of the JVM's HTTP server or runtime. See http for limits and time-outs"
	payload = "a payload of any size up to max_body_bytes is cut up; over this setting the reference collector answers 200 and keeps a tenth. To have that, set http.max_payload_bytes"
)

// rules are the settings of the reference collector, and what becomes of each.
var rules map[string]rule

func init() {
	rules = map[string]rule{
		"interface": silent, // see listen
		"port":      silent,
		"license":   gone("this collector is under the Apache License 2.0"),
		"paths":     to("http.paths", asMap),
		"p3p":       gone("no browser looks at P3P, and the 3.x line sends none either"),

		"crossDomain.enabled": to("http.crossdomain.enabled", asBool),
		"crossDomain.domains": to("http.crossdomain.domains", asList),
		"crossDomain.secure":  to("http.crossdomain.secure", asBool),

		"cookie.enabled":          to("http.cookie.enabled", asBool),
		"cookie.name":             to("http.cookie.name", asText),
		"cookie.expiration":       to("http.cookie.expiration", asDuration),
		"cookie.domains":          to("http.cookie.domains", asList),
		"cookie.fallbackDomain":   to("http.cookie.fallback_domain", asText),
		"cookie.secure":           to("http.cookie.secure", asBool),
		"cookie.httpOnly":         to("http.cookie.http_only", asBool),
		"cookie.sameSite":         to("http.cookie.same_site", asText),
		"cookie.clientCookieName": to("http.cookie.client_name", asText),

		"doNotTrackCookie.enabled": to("http.do_not_track.enabled", asBool),
		"doNotTrackCookie.name":    to("http.do_not_track.name", asText),
		"doNotTrackCookie.value":   to("http.do_not_track.value", asRegexp),

		"cookieBounce.enabled":                 to("http.cookie_bounce.enabled", asBool),
		"cookieBounce.name":                    to("http.cookie_bounce.name", asText),
		"cookieBounce.fallbackNetworkUserId":   to("http.cookie_bounce.fallback_user_id", asText),
		"cookieBounce.forwardedProtocolHeader": to("http.cookie_bounce.forwarded_protocol_header", asText),

		"enableDefaultRedirect": to("http.redirects.enabled", asBool),
		"redirectDomains":       to("http.redirects.domains", asList),
		"redirectMacro":         gone("the macro is one of the 2.x line only; targets are passed on as they are"),

		"rootResponse.enabled":    to("http.root_response.enabled", asBool),
		"rootResponse.statusCode": to("http.root_response.status", asNumber),
		"rootResponse.headers":    to("http.root_response.headers", asMap),
		"rootResponse.body":       to("http.root_response.body", asText),

		"cors.accessControlMaxAge": to("http.cors.max_age", asDuration),
		"cors.accessControlMaxAgeSeconds": to("http.cors.max_age", func(c *conversion, key string, v *hocon.Value) (string, bool) {
			seconds, ok := asNumber(c, key, &hocon.Value{Line: v.Line, Kind: v.Kind, Text: v.Text})
			return seconds + "s", ok
		}),

		"streams": (*conversion).streams,

		"telemetry":           gone("this collector tells nobody about itself"),
		"monitoring":          gone(statsd),
		"prometheusMetrics":   gone(statsd),
		"ssl.enable":          ssl,
		"ssl.port":            silent, // see listen
		"ssl.redirect":        gone("a redirect from HTTP to HTTPS is left to the load balancer, as in the 3.x line"),
		"hsts.enable":         to("http.hsts.enabled", asBool),
		"hsts.maxAge":         to("http.hsts.max_age", asDuration),
		"compression":         gone("records are not compressed: each is one payload, which every version of Enrich reads"),
		"experimental.warmup": gone(warmup),
		"warmup":              gone(warmup),

		"networking.maxConnections":        to("http.max_connections", asNumber),
		"networking.idleTimeout":           to("http.idle_timeout", asDuration),
		"networking.responseHeaderTimeout": to("http.request_timeout", asDuration),
		"networking.bodyReadTimeout":       gone("http.request_timeout bounds the whole request, its body included"),
		"networking.maxRequestLineLength":  to("http.max_request_line_bytes", asNumber),
		"networking.maxHeadersLength":      to("http.max_header_bytes", asNumber),
		"networking.maxPayloadSize":        gone(payload),
		"networking.dropPayloadSize":       gone("bodies up to http.max_body_bytes, 10MiB, are read. Trackers repeat for ever what is answered 413, ahead of all else, so a lower limit is not taken over"),

		"preTerminationPeriod":    to("stop.grace", asDuration),
		"terminationDeadline":     to("stop.timeout", asDuration),
		"preTerminationUnhealthy": gone("/readyz of admin.listen is 503 from SIGTERM on; /health, for which this was, goes on to answer 200"),

		"akka": gone(server), "pekko": gone(server), "blaze": gone(server), "networking.http": gone(server),
	}
}

// asRegexp refuses what our regular expressions do not know: a person who must
// not be tracked would be.
func asRegexp(c *conversion, key string, v *hocon.Value) (string, bool) {
	if _, err := regexp.Compile(v.Text); err != nil {
		c.fail(key, v.Line, "%q is no regular expression in the syntax of RE2 (https://golang.org/s/re2syntax): %v", v.Text, err)
		return "", false
	}
	return asText(c, key, v)
}

func ssl(c *conversion, key string, v *hocon.Value) {
	if text, ok := asBool(c, key, v); ok && text != "false" {
		c.note(key, v.Line, "certificates are PEM files, not a key store: name them in http.tls.cert_file and http.tls.key_file. Until then this config speaks HTTP on the port above")
	}
}
