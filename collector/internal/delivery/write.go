package delivery

import (
	"context"
	"fmt"
	"time"

	"spillway/collector/internal/sink"
)

// grace is how long after its time-out a Write may take to return.
const grace = 2 * time.Second

// outlet is one sink in use, with the writes under way there. The loop owns it.
type outlet struct {
	sink    sink.Sink
	limits  sink.Limits
	primary bool

	ctx        context.Context
	cancel     context.CancelFunc // ends the writes begun since the last switch
	inFlight   int                // writes not yet returned, abandoned ones too
	abandoned  int                // of these, how many are past their end
	generation int                // rises with every switch
	stale      int                // of inFlight, how many were begun before the last switch
	cancelOld  context.CancelFunc // ends the stale ones
	waiting    []*departure       // told when stale has come to 0
}

// departure is a switch that waits for old writes to end.
type departure struct {
	outlets int // that still have some
	done    chan struct{}
}

func newOutlet(s sink.Sink, primary bool) *outlet {
	o := &outlet{sink: s, primary: primary, limits: s.Limits(), cancelOld: func() {}}
	o.renew()
	// A limit that is not stated is the smallest usual one.
	if o.limits.MaxRecords <= 0 {
		o.limits.MaxRecords = 500
	}
	if o.limits.MaxBytes <= 0 {
		o.limits.MaxBytes = 5 << 20
	}
	o.limits.InFlight = max(o.limits.InFlight, 1)
	return o
}

// renew lets later writes have a context of their own.
func (o *outlet) renew() { o.ctx, o.cancel = context.WithCancel(context.Background()) }

// retire gives the writes under way switchGrace to end, and says whether there
// are any.
func (o *outlet) retire() bool {
	o.cancelOld()
	o.cancelOld = o.cancel
	time.AfterFunc(switchGrace, o.cancelOld)
	o.renew()
	o.generation++
	o.stale = o.inFlight
	return o.stale > 0
}

// abort ends every write under way at once.
func (o *outlet) abort() {
	o.cancelOld()
	o.cancel()
}

// attempt is one write: what was sent where, and then what became of it.
type attempt struct {
	outlet    *outlet
	items     []*item
	parcel    *parcel // the parcel sent again as it was; nil for a new batch
	probe     bool
	startedAt time.Time
	timeout   time.Duration

	generation int // of the outlet, when it began

	outcomes  []sink.Outcome
	endedAt   time.Time
	abandoned bool // its Write has not returned: another report follows when it does
	returned  bool // this is that report: the slot is free again, and nothing else
}

// send makes the attempt in goroutines of its own and reports to results, unless
// nobody is there any more.
func (a *attempt) send(results chan<- *attempt, gone <-chan struct{}) {
	report := func(a *attempt) {
		select {
		case results <- a:
		case <-gone:
		}
	}
	records := make([]sink.Record, len(a.items))
	for i, it := range a.items {
		records[i] = it.Record
	}
	ctx, cancel := context.WithTimeout(a.outlet.ctx, a.timeout)
	answered := make(chan []sink.Outcome, 1)
	go func() { answered <- a.outlet.sink.Write(ctx, records) }()
	go func() {
		defer cancel()
		var late *time.Timer
		select {
		case a.outcomes = <-answered:
		case <-ctx.Done():
			late = time.NewTimer(grace)
			defer late.Stop()
			select {
			case a.outcomes = <-answered:
			case <-late.C:
				a.abandoned = true
			}
		}
		a.endedAt = time.Now()
		a.check()
		abandoned, generation := a.abandoned, a.generation // once reported, a is the loop's
		report(a)
		if abandoned {
			// The sink broke its promise to return. Its slot stays taken, so that
			// such writes cannot pile up; its records do not wait for it.
			<-answered
			report(&attempt{outlet: a.outlet, generation: generation, returned: true})
		}
	}()
}

// check makes sure that there is one outcome for each record: what nobody stated
// is not written.
func (a *attempt) check() {
	info := a.outlet.sink.Info()
	name := info.Type + " " + info.Target
	switch {
	case a.abandoned:
		a.outcomes = sink.Fail(len(a.items), sink.Transient, &sink.Error{
			Cause: sink.CauseNetwork, Message: fmt.Sprintf("write to %s: no answer within %s", name, a.timeout+grace),
		})
	case len(a.outcomes) != len(a.items):
		a.outcomes = sink.Fail(len(a.items), sink.Transient, &sink.Error{
			Cause: sink.CauseServer, Message: fmt.Sprintf("write to %s: %d outcomes for %d records", name, len(a.outcomes), len(a.items)),
		})
	}
	for i, o := range a.outcomes {
		if o.Class != sink.Written && o.Err == nil {
			a.outcomes[i].Err = &sink.Error{Cause: sink.CauseServer, Message: fmt.Sprintf("write to %s: %s, no reason given", name, o.Class)}
		}
	}
}

// verdict is the outcomes of an attempt, sorted.
type verdict struct {
	written, throttled, failed, condemned []*item
	reasons                               map[*item]*sink.Error // of the condemned
	fault                                 *sink.Error           // the first of a failed record
	throttle                              *sink.Error           // the first of a throttled one
}

// whole says whether the destination took nothing and gave no answer about any
// single record.
func (v verdict) whole() bool {
	return len(v.failed) > 0 && len(v.written)+len(v.throttled)+len(v.condemned) == 0
}

func (a *attempt) verdict() verdict {
	var v verdict
	for i, it := range a.items {
		o := a.outcomes[i]
		switch o.Class {
		case sink.Written:
			v.written = append(v.written, it)
		case sink.Throttled:
			v.throttled = append(v.throttled, it)
			if v.throttle == nil {
				v.throttle = o.Err
			}
		case sink.Permanent:
			v.condemned = append(v.condemned, it)
			if v.reasons == nil {
				v.reasons = map[*item]*sink.Error{}
			}
			v.reasons[it] = o.Err
		default:
			v.failed = append(v.failed, it)
			if v.fault == nil {
				v.fault = o.Err
			}
		}
	}
	return v
}
