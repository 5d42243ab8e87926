package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"spillway/shared/rig/load"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
)

// backlog fills the spool while Kinesis is away, kills the collector, and
// measures its next start: how long until it takes events again, and how much
// memory it has needed when it can deliver nothing and when it delivers all.
func backlog(ctx context.Context, s settings, p *pair.Pair) error {
	if err := p.CutKinesis(); err != nil {
		return err
	}
	for {
		r, err := p.Health(ctx)
		if err != nil {
			return err
		}
		if r.Backlog.Bytes >= s.bytes {
			fmt.Printf("backlog: %d events, %.2f GiB\n", r.Backlog.Events, float64(r.Backlog.Bytes)/(1<<30))
			break
		}
		if l := load.Run(ctx, p.Addr(), 128, 2*time.Second, request(p.Addr())); l.Other > 0 || ctx.Err() != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("%d requests were not answered 200 while the backlog was made", l.Other))
		}
	}
	p.Collector.Kill()

	begun := time.Now()
	process, err := proc.Start(p.CollectorSpec())
	if err != nil {
		return err
	}
	defer process.Kill()
	if err := accepted(ctx, p.Addr()); err != nil {
		return fmt.Errorf("%w\n%s", err, process.Tail(20))
	}
	fmt.Printf("first event answered 200 after the start: %v\n", time.Since(begun).Round(time.Millisecond))

	load.Run(ctx, p.Addr(), 64, s.seconds, request(p.Addr()))
	if err := showPeak(process.PID(), fmt.Sprintf("under load for %v, Kinesis away", s.seconds)); err != nil {
		return err
	}
	r, err := p.Health(ctx)
	if err != nil {
		return err
	}
	if err := p.MendKinesis(); err != nil {
		return err
	}
	drain := time.Now()
	if err := drained(ctx, p); err != nil {
		return err
	}
	fmt.Printf("drained %d events into the stand-in at %.0f a second\n", r.Backlog.Events, float64(r.Backlog.Events)/time.Since(drain).Seconds())
	return showPeak(process.PID(), "after draining all of it")
}

// accepted returns when an event was answered 200.
func accepted(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			if r := load.Run(ctx, addr, 1, 20*time.Millisecond, request(addr)); r.Requests > 0 {
				return nil
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the collector takes no event: %w", ctx.Err())
		}
	}
}
