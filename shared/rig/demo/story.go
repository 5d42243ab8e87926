package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/tracker"
)

// story is one outage being told.
type story struct {
	*timeline
	pair    *pair.Pair
	tracker *tracker.Tracker
	rate    float64
	told    uint64      // the number of the journal's entry that led to the present phase
	blows   []time.Time // when something was cut, mended or killed: what may leave duplicates

	mu     sync.Mutex
	quoted uint64 // guarded by mu; the number of the journal's entry that was told last
}

// phase is a part of the story: what must happen, and by when.
type phase struct {
	name  string
	limit time.Duration
	tell  func(*story, context.Context) error
}

// pace gives people time to read along.
const pace = `recover: {for: 12s, min_hold: 25s}
rules: {last_write_age: {threshold: 8s, for: 4s}}
`

// The story. Each phase waits for what it is about, so none depends on how fast
// this machine is.
var phases = []phase{
	{"events flow into Kinesis", 30 * time.Second, (*story).steady},
	{"Kinesis is cut and a backlog grows", 30 * time.Second, (*story).cut},
	{"the collector is killed and comes back with its backlog", 30 * time.Second, (*story).kill},
	{"the watchdog diverts to S3", 90 * time.Second, (*story).divert},
	{"the backlog drains to S3", 60 * time.Second, (*story).drain},
	{"Kinesis returns and the collector's probes are good", 60 * time.Second, (*story).mend},
	{"the watchdog fails back", 90 * time.Second, (*story).failBack},
	{"events flow into Kinesis again", 30 * time.Second, (*story).steadyAgain},
}

// demo tells the story, then looks up every event that was answered 200.
func demo(ctx context.Context, t *timeline, programs pair.Programs, rate float64) error {
	p, err := pair.Start(ctx, pair.Options{Programs: programs, Watchdog: pace})
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	t.say(collector, "takes events at %s, delivers to Kinesis (a stand-in with %d shards)", p.URL(), rig.Shards)
	t.say(watchdog, "looks at the collector twice a second; thresholds that are minutes on a real box are seconds here")
	tr, err := tracker.New(tracker.Config{URL: p.URL(), Connections: 8, EventsPerSecond: rate, PixelShare: 0.1, Resend: true})
	if err != nil {
		return err
	}
	s := &story{timeline: t, pair: p, tracker: tr, rate: rate}
	return s.run(ctx)
}

func (s *story) run(ctx context.Context) error {
	following, stopFollowing := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() { defer close(followed); s.follow(following) }()
	defer func() { stopFollowing(); <-followed; s.show("") }()

	sending, stopSending := context.WithCancel(ctx)
	sent := make(chan error, 1)
	go func() { sent <- s.tracker.Run(sending) }()

	var missing error
	for _, p := range phases {
		if err := within(ctx, p.limit, func(ctx context.Context) error { return p.tell(s, ctx) }); err != nil {
			missing = fmt.Errorf("this did not happen: %s: %w\n%s", p.name, err, s.pair.Tail(20))
			break
		}
	}
	stopSending()
	if err := <-sent; err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(missing, s.account(ctx))
}

func (s *story) steady(ctx context.Context) error {
	s.say(client, "send %.0f numbered events a second, and note which of them are answered 200", s.rate)
	if err := s.pair.Rig.Kinesis.Wait(ctx, rig.GoodStream, int(6*s.rate)); err != nil {
		return err
	}
	s.say(kinesis, "takes them: %d records so far", s.pair.Rig.Kinesis.Count(rig.GoodStream))
	// The fallback is tried while it is not needed; without that proof nobody diverts.
	_, err := s.pair.WaitHealth(ctx, func(r *healthapi.Report) error {
		if !r.Fallback.Ready {
			return fmt.Errorf("the fallback is not ready: %+v", r.Fallback)
		}
		return nil
	})
	return err
}

func (s *story) cut(ctx context.Context) error {
	s.blow()
	if err := s.pair.CutKinesis(); err != nil {
		return err
	}
	s.bad(kinesis, "IS CUT: connections are refused")
	r, err := s.backlog(ctx, int64(4*s.rate))
	if err != nil {
		return err
	}
	s.say(collector, "is %s: %d events wait on disk; trackers are still answered 200", r.State, r.Backlog.Events)
	return nil
}

func (s *story) kill(ctx context.Context) error {
	before, err := s.pair.Health(ctx)
	if err != nil {
		return err
	}
	s.blow()
	s.bad(collector, "IS KILLED by SIGKILL, while %d events are nowhere but on its disk", before.Backlog.Events)
	after, err := s.pair.KillCollector(ctx)
	if err != nil {
		return err
	}
	s.say(collector, "is back %.1f s after the kill (its supervisor started it again)", time.Since(s.blows[len(s.blows)-1]).Seconds())
	if after.Backlog.Events < before.Backlog.Events {
		return fmt.Errorf("it had %d events and came back with %d", before.Backlog.Events, after.Backlog.Events)
	}
	s.say(collector, "found %d events on its disk and goes on", after.Backlog.Events)
	return nil
}

func (s *story) divert(ctx context.Context) error {
	if err := s.goes(ctx, "fallback"); err != nil {
		return err
	}
	r, err := s.runs(ctx, "fallback")
	if err != nil {
		return err
	}
	s.say(collector, "was restarted and delivers to %s", r.Sink.Target)
	return nil
}

func (s *story) drain(ctx context.Context) error {
	if err := s.pair.Rig.S3.Wait(ctx, rig.Bucket, pair.Prefix+"/good/", 1); err != nil {
		return err
	}
	r, err := s.pair.WaitHealth(ctx, func(r *healthapi.Report) error {
		if r.Backlog.Events > int64(4*s.rate) {
			return fmt.Errorf("%d events still wait", r.Backlog.Events)
		}
		return nil
	})
	if err != nil {
		return err
	}
	objects := len(s.pair.Rig.S3.Objects(rig.Bucket, pair.Prefix+"/good/"))
	s.say(collector, "has drained its backlog to S3: %d objects; %d new events wait for the next one", objects, r.Backlog.Events)
	if err := s.pair.Rig.S3.Wait(ctx, rig.Bucket, pair.Prefix+"/good/", objects+20); err != nil {
		return err
	}
	s.say(collector, "goes on writing to S3, an object a second, while Kinesis is away")
	return nil
}

func (s *story) mend(ctx context.Context) error {
	s.blow()
	if err := s.pair.MendKinesis(); err != nil {
		return err
	}
	s.line(kinesis, green, "IS BACK")
	r, err := s.pair.WaitHealth(ctx, func(r *healthapi.Report) error {
		if r.Kinesis.Probe.OKSince == nil {
			return fmt.Errorf("no good probe yet: %+v", r.Kinesis.Probe)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.say(collector, "probes Kinesis with a few real events: they are taken (level %d of 3)", r.Kinesis.Probe.Level)
	return nil
}

func (s *story) failBack(ctx context.Context) error {
	if err := s.goes(ctx, "probation", "primary"); err != nil {
		return err
	}
	if _, err := s.runs(ctx, "primary"); err != nil {
		return err
	}
	s.say(collector, "delivers to Kinesis again")
	return nil
}

func (s *story) steadyAgain(ctx context.Context) error {
	if err := s.pair.Rig.Kinesis.Wait(ctx, rig.GoodStream, s.pair.Rig.Kinesis.Count(rig.GoodStream)+int(6*s.rate)); err != nil {
		return err
	}
	s.say(kinesis, "takes new events; %d records in all", s.pair.Rig.Kinesis.Count(rig.GoodStream))
	return nil
}

// goes waits until the watchdog's journal says that the mode goes to one of the phases.
func (s *story) goes(ctx context.Context, to ...string) error {
	e, err := s.pair.WaitJournal(ctx, s.told, func(e pair.Entry) bool {
		for _, phase := range to {
			if e.Event == "mode" && e.To == phase {
				return true
			}
		}
		return false
	})
	s.told = e.Seq
	s.catchUp()
	return err
}

// runs waits until the collector runs in the mode.
func (s *story) runs(ctx context.Context, mode string) (*healthapi.Report, error) {
	return s.pair.WaitHealth(ctx, func(r *healthapi.Report) error {
		if r.Mode != mode {
			return fmt.Errorf("the collector runs %s", r.Mode)
		}
		return nil
	})
}

// backlog waits until so many events wait.
func (s *story) backlog(ctx context.Context, events int64) (*healthapi.Report, error) {
	return s.pair.WaitHealth(ctx, func(r *healthapi.Report) error {
		if r.Backlog.Events < events {
			return fmt.Errorf("only %d events wait", r.Backlog.Events)
		}
		return nil
	})
}

func (s *story) blow() { s.blows = append(s.blows, time.Now()) }

// settled brings everything that is still under way to its place.
func (s *story) settled(ctx context.Context) error {
	if err := errors.Join(s.pair.MendKinesis(), s.pair.MendS3()); err != nil {
		return err
	}
	if err := s.tracker.Settle(ctx); err != nil {
		return err
	}
	_, err := s.pair.WaitHealth(ctx, func(r *healthapi.Report) error {
		if r.Backlog.Events > 0 {
			return fmt.Errorf("%d events still wait", r.Backlog.Events)
		}
		return nil
	})
	return err
}
