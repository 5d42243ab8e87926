package health

import (
	"time"

	"spillway/shared/healthapi"
)

// window is how far back rates look: long enough to see past a batch, short
// enough that a person sees a change within half a minute.
const window = 30 * time.Second

type sample struct {
	at             time.Time
	bytes          int64
	accepted, left uint64
}

// trend keeps the samples of the last window.
type trend struct{ samples []sample }

func (t *trend) add(s sample) {
	t.samples = append(t.samples, s)
	keep := 0
	// The newest sample at least a window old stays, so that the span is whole.
	for keep+1 < len(t.samples) && s.at.Sub(t.samples[keep+1].at) >= window {
		keep++
	}
	t.samples = append(t.samples[:0], t.samples[keep:]...)
}

type rates struct{ accepted, left, growth float64 }

func (t *trend) rates() rates {
	if len(t.samples) < 2 {
		return rates{}
	}
	first, last := t.samples[0], t.samples[len(t.samples)-1]
	span := last.at.Sub(first.at).Seconds()
	if span <= 0 {
		return rates{}
	}
	return rates{
		accepted: float64(last.accepted-first.accepted) / span,
		left:     float64(last.left-first.left) / span,
		growth:   float64(last.bytes-first.bytes) / span,
	}
}

// secondsToFull is how long the spool has room at the present growth, by its
// own limit or by the free disk, whichever comes first. Nil while it does not grow.
func secondsToFull(b healthapi.Backlog) *float64 {
	if b.GrowthBytesPerSecond <= 0 {
		return nil
	}
	room := b.DiskFreeBytes
	if b.LimitBytes > 0 {
		room = min(room, b.LimitBytes-b.Bytes)
	}
	seconds := max(float64(room), 0) / b.GrowthBytesPerSecond
	return &seconds
}

func drain(b healthapi.Backlog, r rates) healthapi.Drain {
	d := healthapi.Drain{EventsPerSecond: r.left}
	if net := r.left - r.accepted; net > 0 && b.Events > 0 {
		eta := float64(b.Events) / net
		d.ETASeconds = &eta
	}
	return d
}
