package delivery

import (
	"slices"
	"time"

	"spillway/collector/internal/sink"
)

// follow takes a route with nothing known of its sinks yet.
func (l *loop) follow(route Route, now time.Time) {
	out, probing := l.outlet(route.Sink, route.Primary), (*outlet)(nil)
	l.prober.end()
	if route.Probe != nil && !same(route.Probe, route.Sink) {
		probing = l.outlet(route.Probe, true)
		l.prober.begin(l.cfg.Probe, now)
	}
	l.out, l.probing = out, probing
	l.circuit = circuit{cfg: l.cfg}
	l.pacer = pacer{}
	l.window = 1
	l.gatherTill = time.Time{}
	l.fault, l.throttledAt, l.answeredAt = "", time.Time{}, time.Time{}
}

// outlet returns the outlet of a sink, the one in use if there is one: its limit
// of writes at a time holds however it is used.
func (l *loop) outlet(s sink.Sink, primary bool) *outlet {
	known := append([]*outlet{l.out, l.probing}, l.leaving...)
	for _, o := range known {
		if o != nil && same(o.sink, s) {
			o.primary = primary
			l.leaving = slices.DeleteFunc(l.leaving, func(x *outlet) bool { return x == o })
			return o
		}
	}
	return newOutlet(s, primary)
}

// reroute switches to another route while everything runs.
func (l *loop) reroute(s switchover, now time.Time) {
	old := []*outlet{l.out}
	if l.probing != nil {
		old = append(old, l.probing)
	}
	unchanged := same(l.out.sink, s.route.Sink)
	from := l.name()
	if unchanged {
		pacer, circuit, window, fault, prober := l.pacer, l.circuit, l.window, l.fault, l.prober
		probing := l.probing
		l.follow(s.route, now)
		l.pacer, l.circuit, l.window, l.fault = pacer, circuit, window, fault
		if probing != nil && l.probing == probing {
			l.prober = prober // the evidence gathered still holds
		}
	} else {
		l.follow(s.route, now)
		l.account.route(s.route)
		l.held.refresh()
		l.log.Infof("delivering to %s instead of %s; %d records in memory go there too", l.name(), from, l.held.count)
	}
	left := &departure{done: s.done}
	for _, o := range old {
		if o == l.out && unchanged {
			continue
		}
		if o.retire() {
			left.outlets++
			o.waiting = append(o.waiting, left)
		}
		if o != l.out && o != l.probing && o.inFlight > 0 {
			l.leaving = append(l.leaving, o)
		}
	}
	if left.outlets == 0 {
		close(s.done)
	}
}

// forgetLeft drops the old outlets where nothing is under way any more.
func (l *loop) forgetLeft() {
	l.leaving = slices.DeleteFunc(l.leaving, func(o *outlet) bool {
		if o.inFlight == 0 {
			o.abort()
		}
		return o.inFlight == 0
	})
}
