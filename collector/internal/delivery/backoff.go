package delivery

import (
	"math/rand/v2"
	"time"
)

// backoff returns how long to wait after the n-th failure in a row, n from 1: a
// random time between low and low doubled n times, at most high. Drawn afresh for
// each wait, so that many collectors do not come back at the same moment.
func backoff(low, high time.Duration, n int) time.Duration {
	ceiling := high
	if n < 32 && low<<n > 0 {
		ceiling = min(high, low<<n)
	}
	if ceiling <= low {
		return ceiling
	}
	return low + rand.N(ceiling-low)
}
