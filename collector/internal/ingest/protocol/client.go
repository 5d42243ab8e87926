package protocol

import (
	"net/netip"
	"strconv"
	"strings"
)

// unknown is the address of somebody whose address is not known, or not wanted.
const unknown = "unknown"

// peerAddr returns the address of the peer, which is not valid where the peer
// has none, as on a unix socket.
func peerAddr(remote string) netip.Addr {
	if ap, err := netip.ParseAddrPort(remote); err == nil {
		return ap.Addr().WithZone("").Unmap()
	}
	addr, _ := netip.ParseAddr(remote)
	return addr.WithZone("").Unmap()
}

// trusts says whether what a peer says of others is believed. A peer without
// address is on this machine.
func (c *Core) trusts(peer netip.Addr) bool {
	if !peer.IsValid() {
		return true
	}
	for _, network := range c.trusted {
		if network.Contains(peer) {
			return true
		}
	}
	return false
}

// clientAddress returns the address that a payload names: the first in
// X-Forwarded-For where there is one and it is believed, else the peer's.
func clientAddress(peer netip.Addr, forwardedFor string) string {
	first, _, _ := strings.Cut(forwardedFor, ",")
	if first = strings.TrimSpace(first); first != "" {
		if strings.EqualFold(first, unknown) {
			return unknown
		}
		if addr, ok := forwardedAddr(first); ok {
			return renderAddr(addr)
		}
	}
	return renderAddr(peer)
}

// forwardedAddr reads one element of X-Forwarded-For. Proxies write addresses
// bare, in brackets, with a port or with a zone.
func forwardedAddr(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().WithZone("").Unmap(), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.Addr{}, false
		}
	}
	addr, err := netip.ParseAddr(s)
	return addr.WithZone("").Unmap(), err == nil
}

// renderAddr writes an address as payloads have it: IPv6 in brackets.
func renderAddr(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return unknown
	case addr.Is4():
		return addr.String()
	}
	return "[" + addr.String() + "]"
}

// hostname returns a host without its port.
func hostname(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, _, _ = strings.Cut(inner, "]")
		return inner
	}
	host, _, _ = strings.Cut(host, ":")
	return host
}

// contentType writes a media type as payloads have it: in lower case, one space
// between parameters, the character set without quotes. Snowplow Enrich knows
// the types of tracker events in exactly this form.
func contentType(value string) string {
	switch value = strings.TrimSpace(value); value {
	case "application/json", "application/json; charset=utf-8", "text/plain": // nothing to do, and nearly always one of these
		return value
	case "application/json; charset=UTF-8", "application/json;charset=UTF-8", "application/json;charset=utf-8":
		return "application/json; charset=utf-8"
	}
	var out strings.Builder
	for part := range strings.SplitSeq(value, ";") {
		part = asciiLower(strings.TrimSpace(part))
		if part == "" {
			continue
		}
		if charset, ok := strings.CutPrefix(part, `charset="`); ok {
			part = "charset=" + strings.TrimSuffix(charset, `"`)
		}
		if out.Len() > 0 {
			out.WriteString("; ")
		}
		out.WriteString(part)
	}
	return out.String()
}

// asciiLower changes A to Z only: bytes that are not UTF-8 stay as they are.
func asciiLower(s string) string {
	for i := range len(s) {
		if c := s[i]; 'A' <= c && c <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if c := b[i]; 'A' <= c && c <= 'Z' {
					b[i] = c + 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
