// Package port finds free TCP ports that can be given up and taken again: they
// lie below the range from which the kernel takes ports for outgoing
// connections, so that no connection happens to sit on one in between.
package port

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports handed out; Linux takes those of outgoing connections from 32768 on.
const first, last = 15000, 29999

var (
	mu    sync.Mutex
	given = map[int]bool{} // guarded by mu
)

// Free returns a port of 127.0.0.1 on which nobody listens. It never returns the
// same port twice in one process; another process may still take it before the
// caller does. It is safe for concurrent use.
func Free() (int, error) {
	mu.Lock()
	defer mu.Unlock()
	for range 1000 {
		p := first + rand.IntN(last-first+1)
		if given[p] {
			continue
		}
		l, err := net.Listen("tcp4", Addr(p))
		if err != nil {
			continue
		}
		given[p] = true
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("try port %d: %w", p, err)
		}
		return p, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", first, last)
}

// Addr returns 127.0.0.1:port.
func Addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
