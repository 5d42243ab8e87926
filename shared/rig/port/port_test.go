package port_test

import (
	"net"
	"testing"

	"spillway/shared/rig/port"
)

func TestFree_neverReturnsAPortTwice(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		p, err := port.Free()
		if err != nil {
			t.Fatal(err)
		}
		if seen[p] || p >= 32768 {
			t.Errorf("port %d again, or from the range of outgoing connections", p)
		}
		seen[p] = true
		l, err := net.Listen("tcp4", port.Addr(p))
		if err != nil {
			t.Errorf("port %d is not free: %v", p, err)
			continue
		}
		l.Close()
	}
}
