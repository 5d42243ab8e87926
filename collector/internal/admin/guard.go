package admin

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"spillway/shared/httpserver"
)

// Config says where the admin listener stands and who may change things there.
type Config struct {
	// Listen is the address: host:port, unix:/path for a socket (0660), or
	// systemd:name for a socket that systemd opened. Default 127.0.0.1:9091.
	Listen string `yaml:"listen"`
	// TokenFile holds the bearer token that changes and profiles want when the
	// address is neither loopback nor a unix socket; without it they are refused
	// there. On loopback and unix sockets it is asked for only when it is set.
	// Read at start and on SIGHUP. Default none.
	TokenFile string `yaml:"token_file"`
}

// DefaultConfig listens on loopback without a token.
func DefaultConfig() Config { return Config{Listen: "127.0.0.1:9091"} }

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	if err := httpserver.CheckAddr(c.Listen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// guard asks for the token where it is needed.
type guard struct {
	file    string
	private bool // loopback or unix socket: whoever gets here is on the box
	token   atomic.Pointer[string]
}

func newGuard(cfg Config, private bool) (*guard, error) {
	g := &guard{file: cfg.TokenFile, private: private}
	return g, g.reload()
}

func (g *guard) reload() error {
	if g.file == "" {
		return nil
	}
	data, err := os.ReadFile(g.file)
	if err != nil {
		return fmt.Errorf("read admin.token_file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return fmt.Errorf("admin.token_file %s is empty: put a token in it", g.file)
	}
	g.token.Store(&token)
	return nil
}

var (
	errNoToken  = errors.New("this listener is not on loopback: set admin.token_file to allow changes and profiles")
	errBadToken = errors.New("want the bearer token of admin.token_file")
)

func (g *guard) wrap(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := g.token.Load()
		if token == nil {
			if !g.private {
				fail(w, http.StatusForbidden, errNoToken)
				return
			}
			next(w, r)
			return
		}
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(*token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="spillway"`)
			fail(w, http.StatusUnauthorized, errBadToken)
			return
		}
		next(w, r)
	})
}
