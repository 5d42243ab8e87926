// Package chaos puts a bad network between two programs: a TCP proxy that can
// be cut, slowed, made to lose what passes through it, and mended, while
// connections are open. It is for the middle of a connection; faults that
// belong to a service stand in package fault.
package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"spillway/shared/rig/port"
)

// Proxy forwards TCP connections to an upstream. It is safe for concurrent use.
type Proxy struct {
	server   *toxiproxy.ApiServer
	addr     string
	upstream string

	mu    sync.Mutex
	proxy *toxiproxy.Proxy // guarded by mu; a new one after each Mend
}

// Direction says whose bytes a fault strikes.
type Direction string

// The directions.
const (
	Requests Direction = "upstream"   // from the client to the upstream
	Answers  Direction = "downstream" // from the upstream to the client
)

// Start starts a proxy on a free port of 127.0.0.1 that forwards to upstream, a
// host:port.
func Start(upstream string) (*Proxy, error) {
	free, err := port.Free()
	if err != nil {
		return nil, fmt.Errorf("start proxy to %s: %w", upstream, err)
	}
	p := &Proxy{
		server:   toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop()),
		addr:     port.Addr(free),
		upstream: upstream,
	}
	if err := p.Mend(); err != nil {
		return nil, err
	}
	return p, nil
}

// Addr returns host:port of the proxy; it never changes.
func (p *Proxy) Addr() string { return p.addr }

// URL returns http://host:port of the proxy.
func (p *Proxy) URL() string { return "http://" + p.addr }

// Mend ends every fault. Connections that are open are cut, since what passed
// through them may be damaged.
func (p *Proxy) Mend() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proxy != nil {
		p.proxy.Stop()
	}
	p.proxy = toxiproxy.NewProxy(p.server, "chaos", p.addr, p.upstream)
	if err := p.proxy.Start(); err != nil {
		return fmt.Errorf("start proxy to %s: %w", p.upstream, err)
	}
	return nil
}

// Cut closes every connection and refuses new ones until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proxy.Stop()
}

// Close stops the proxy and cuts its connections.
func (p *Proxy) Close() { p.Cut() }

// Latency delays what passes in the direction by d, give or take jitter. What is
// being delayed when the proxy is mended or closed keeps its goroutines until
// its time has come.
func (p *Proxy) Latency(dir Direction, d, jitter time.Duration) error {
	return p.add(dir, "latency", map[string]any{"latency": d.Milliseconds(), "jitter": jitter.Milliseconds()})
}

// Bandwidth lets at most so many KB a second pass in the direction.
func (p *Proxy) Bandwidth(dir Direction, kBPerSecond int64) error {
	return p.add(dir, "bandwidth", map[string]any{"rate": kBPerSecond})
}

// ResetPeer answers the first bytes that pass in the direction with a reset of
// the connection, after the given time. Connections that are open when it is set
// are closed without a reset.
func (p *Proxy) ResetPeer(dir Direction, after time.Duration) error {
	return p.add(dir, "reset_peer", map[string]any{"timeout": after.Milliseconds()})
}

// LimitData closes each connection when so many bytes passed in the direction.
func (p *Proxy) LimitData(dir Direction, bytes int64) error {
	return p.add(dir, "limit_data", map[string]any{"bytes": bytes})
}

// Blackhole swallows everything in the direction and keeps connections open.
func (p *Proxy) Blackhole(dir Direction) error {
	return p.add(dir, "timeout", map[string]any{"timeout": 0})
}

func (p *Proxy) add(dir Direction, kind string, attributes map[string]any) error {
	text, err := json.Marshal(map[string]any{"type": kind, "stream": dir, "attributes": attributes})
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, err = p.proxy.Toxics.AddToxicJson(bytes.NewReader(text))
	}
	if err != nil {
		return fmt.Errorf("add %s: %w", kind, err)
	}
	return nil
}
