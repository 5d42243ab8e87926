package protocol

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"spillway/collector/internal/payload"
	"spillway/shared/configfile"
)

func size(n int) configfile.Size { return configfile.Size(n) }

func core(t testing.TB, change func(*Config)) *Core {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg, Options{Collector: "c", ProcessorName: "spillway", ProcessorVersion: "0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"paths: ":                                 func(c *Config) { c.Paths = map[string]string{"/one": "/a/b"} },
		`paths: "a/b"`:                            func(c *Config) { c.Paths = map[string]string{"/c/d": "a/b"} },
		"max_record_bytes: 10B":                   func(c *Config) { c.MaxRecordBytes = 10 },
		"max_record_bytes: 11MiB":                 func(c *Config) { c.MaxRecordBytes = 11 << 20 },
		"max_payload_bytes: 1KiB":                 func(c *Config) { c.MaxPayloadBytes = 1024 },
		`trusted_proxies: "10.0.0.0/33"`:          func(c *Config) { c.TrustedProxies = []string{"10.0.0.0/33"} },
		"cookie.name: ":                           func(c *Config) { c.Cookie.Name = "a b" },
		"cookie.client_name: ":                    func(c *Config) { c.Cookie.ClientName = "sp" },
		"cookie.expiration: 0s":                   func(c *Config) { c.Cookie.Expiration = 0 },
		"cookie.domains: ":                        func(c *Config) { c.Cookie.Domains = []string{"a;b"} },
		"cookie.fallback_domain: ":                func(c *Config) { c.Cookie.FallbackDomain = "example.com,example2.com" }, // TX-17
		"cookie.same_site: ":                      func(c *Config) { c.Cookie.SameSite = "none" },
		"do_not_track.name: ":                     func(c *Config) { c.DoNotTrack.Enabled = true },
		"do_not_track.value: ":                    func(c *Config) { c.DoNotTrack = DoNotTrack{true, "n", "("} },
		"cookie_bounce: ":                         func(c *Config) { c.CookieBounce = CookieBounce{Enabled: true} },
		"cookie_bounce.forwarded_protocol_header": func(c *Config) { c.CookieBounce.ForwardedProtocolHeader = "a b" },
		"root_response.status: 99":                func(c *Config) { c.RootResponse = RootResponse{Enabled: true, Status: 99} },
		"root_response.headers: ": func(c *Config) {
			c.RootResponse = RootResponse{Enabled: true, Status: 200, Headers: map[string]string{"A": "b\r\nc"}}
		},
		"cors.max_age: ": func(c *Config) { c.CORS.MaxAge = -1 },
		"hsts.max_age: ": func(c *Config) { c.HSTS.MaxAge = -1 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains("\n"+err.Error(), "\n"+want) {
			t.Errorf("got %v, want an error with a line that begins with %q", err, want)
		}
		if _, err := New(cfg, Options{}); err == nil {
			t.Errorf("%s: New took it", want)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
}

func TestCore_Plan_canBeUsedAgain(t *testing.T) {
	c := core(t, nil)
	var plan Plan
	for i, req := range []*Request{
		{Method: "POST", Path: "/a/b", Query: "x=1", Body: []byte("first"), Headers: []Header{{"User-Agent", "one"}, {"Content-Type", "Text/Plain"}}},
		{Method: "GET", Path: "/i", Query: "", Headers: nil},
		{Method: "POST", Path: "/a/b", Body: []byte("third"), Headers: []Header{{"Cookie", "a=b"}}},
	} {
		req.At = time.UnixMilli(int64(i))
		var fresh Plan
		c.Plan(c.Route(req), req, &plan)
		c.Plan(c.Route(req), req, &fresh)
		got, err := payload.Decode(plan.Records[0].Data)
		if err != nil {
			t.Fatal(err)
		}
		want, err := payload.Decode(fresh.Records[0].Data)
		if err != nil {
			t.Fatal(err)
		}
		got.NetworkUserID, want.NetworkUserID = payload.Text{}, payload.Text{}
		if string(got.AppendThrift(nil)) != string(want.AppendThrift(nil)) || len(plan.Records) != 1 {
			t.Errorf("request %d: a used plan gives %+v, a new one %+v", i, got, want)
		}
	}
}

func TestCore_Refuse_letsScriptsSeeIt(t *testing.T) {
	req := &Request{Method: "POST", Path: "/a/b", Headers: []Header{{"Origin", "https://shop.example"}}}
	got := core(t, nil).Refuse(req, http.StatusServiceUnavailable, "no room", 2300*time.Millisecond)
	want := []Header{
		{"Access-Control-Allow-Origin", "https://shop.example"}, {"Access-Control-Allow-Credentials", "true"},
		{"Retry-After", "3"}, {"Content-Type", "text/plain; charset=UTF-8"},
	}
	if got.Status != 503 || string(got.Body) != "no room" || !slices.Equal(got.Headers, want) {
		t.Errorf("got %d %q %q", got.Status, got.Body, got.Headers)
	}
}

func TestCore_Answer_sinkHealth(t *testing.T) {
	healthy := true
	c, err := New(DefaultConfig(), Options{SinkHealthy: func() bool { return healthy }})
	if err != nil {
		t.Fatal(err)
	}
	req := &Request{Method: "GET", Path: "/sink-health"}
	for _, want := range []struct {
		healthy bool
		status  int
		body    string
	}{{true, 200, "ok"}, {false, 503, "Service Unavailable"}} {
		healthy = want.healthy
		if got := c.Answer(c.Route(req), req); got.Status != want.status || string(got.Body) != want.body {
			t.Errorf("healthy %v: got %d %q", healthy, got.Status, got.Body)
		}
	}
}

func TestQueryValue(t *testing.T) {
	for _, tc := range []struct {
		query, value string
		ok           bool
	}{
		{"nuid=a", "a", true},
		{"a=b&nuid=c&nuid=d", "c", true},
		{"nuid", "", true},
		{"n%75id=a+b%20c", "a b c", true},
		{"nuid=%zz", "", false},
		{"nuids=a&xnuid=b", "", false},
		{"a=nuid", "", false},
		{"%zz=1&nuid=a", "a", true},
		{"", "", false},
	} {
		value, ok := queryValue(tc.query, "nuid")
		if ok != tc.ok || ok && value != tc.value {
			t.Errorf("queryValue(%q) = %q, %v; want %q, %v", tc.query, value, ok, tc.value, tc.ok)
		}
	}
}

// hostile runs a request made of hostile parts and checks what must hold
// whatever they are.
func hostile(t *testing.T, c *Core, req *Request) {
	t.Helper()
	var plan Plan
	route := c.Route(req)
	resp := Response{}
	if route.Event() {
		c.Plan(route, req, &plan)
		resp = plan.Response
		for _, r := range append(plan.Records, plan.Oversize...) {
			if r.Lane == "good" {
				if _, err := payload.Decode(r.Data); err != nil {
					t.Fatalf("recorded something that is no payload: %v", err)
				}
			}
			if r.Key == "" || len(r.Key) > 256 {
				t.Fatalf("partition key is %q", r.Key)
			}
		}
		if resp.Status == http.StatusOK && len(plan.Records) == 0 {
			t.Fatal("answered 200 and recorded nothing")
		}
	} else {
		resp = c.Answer(route, req)
	}
	for _, h := range resp.Headers {
		if strings.ContainsFunc(h.Value, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) {
			t.Fatalf("header %s is %q", h.Name, h.Value)
		}
		if h.Name == "Set-Cookie" && strings.Count(h.Value, ";") != 5 {
			t.Fatalf("a cookie has other attributes than ours: %q", h.Value)
		}
	}
}

func FuzzQuery(f *testing.F) {
	for _, q := range []string{"e=pv&nuid=a%3Bb", "u=https%3A%2F%2Fx.y%2F%0d%0a", "u=//x\\y", "%zz", "n3pc", "u=javascript:1", "nuid=\xff"} {
		f.Add(q)
	}
	c := core(f, func(cfg *Config) { cfg.Redirects.Enabled = true })
	only := core(f, func(cfg *Config) { cfg.Redirects = Redirects{Enabled: true, Domains: []string{"good.example"}} })
	bounce := core(f, func(cfg *Config) {
		cfg.CookieBounce.Enabled, cfg.CookieBounce.ForwardedProtocolHeader = true, "X-Forwarded-Proto"
	})
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/i", "/r/tp2", "/a/b"} {
			req := &Request{Method: "GET", Path: path, Query: query, Host: query, At: time.UnixMilli(0)}
			hostile(t, c, req)
			if !strings.Contains(query, "n3pc") { // a bounce records nothing, but answers 302
				req.Headers = []Header{{"X-Forwarded-Proto", "https"}}
				hostile(t, bounce, req)
			}
			if target, ok := only.redirectTarget(query); ok && !strings.Contains(strings.ToLower(target), "//good.example") &&
				!strings.Contains(strings.ToLower(target), "@good.example") {
				t.Fatalf("%q redirects to %q", query, target)
			}
		}
	})
}

func FuzzCookie(f *testing.F) {
	for _, s := range []string{"sp=a", "sp=a; b=c", `{"a": "b"};sp=x`, ";;", "sp=\"a;b\"", "sp=a\x00", "sp=,", "=;= ="} {
		f.Add(s)
	}
	c := core(f, nil)
	f.Fuzz(func(t *testing.T, value string) {
		hostile(t, c, &Request{Method: "GET", Path: "/i", Headers: []Header{{"Cookie", value}}, At: time.UnixMilli(0)})
		cleaned := string(appendCleanCookies(nil, value))
		if again := string(appendCleanCookies(nil, cleaned)); again != cleaned {
			t.Fatalf("%q is cleaned to %q and then to %q", value, cleaned, again)
		}
		for part := range strings.SplitSeq(cleaned, ";") {
			if cleaned != "" && (part == "" || !cleanPart(part) || strings.Contains(part, " ")) {
				t.Fatalf("%q is cleaned to %q", value, cleaned)
			}
		}
	})
}

func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{"203.0.113.9, 10.0.0.1", "[::1]:1", "unknown", "::ffff:1.2.3.4", "fe80::1%eth0", "1.2.3.4:99999", ",", "[", "\xff"} {
		f.Add(s)
	}
	c := core(f, func(cfg *Config) { cfg.TrustedProxies = []string{"all"}; cfg.UseIPAsPartitionKey = true })
	f.Fuzz(func(t *testing.T, value string) {
		hostile(t, c, &Request{Method: "GET", Path: "/i", Headers: []Header{{"X-Forwarded-For", value}}, RemoteAddr: value, At: time.UnixMilli(0)})
		got := clientAddress(netip.MustParseAddr("192.0.2.2"), value)
		if got == unknown {
			return
		}
		if addr, err := netip.ParseAddr(strings.Trim(got, "[]")); err != nil || renderAddr(addr) != got {
			t.Fatalf("%q is the address %q: %v", value, got, err)
		}
	})
}
