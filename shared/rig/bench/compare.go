package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/kinesis"
	"spillway/shared/rig/load"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
)

// compact lets the stand-in forget what records hold: it shares the memory.
var compact = rig.Options{Kinesis: kinesis.Options{Compact: func([]byte) []byte { return nil }}}

// contestant is one server in one condition.
type contestant struct {
	name    string
	addr    string
	pid     int
	before  func(ctx context.Context) error // each measurement
	results map[int][]result                // by number of connections
}

// result is one measurement.
type result struct {
	load.Result
	cpu time.Duration // of the server, an answer
}

// compare measures the contestants in turn, round by round.
func compare(ctx context.Context, s settings, p *pair.Pair) error {
	process, addr, err := startBare(p.Dir())
	if err != nil {
		return err
	}
	defer process.Kill()
	if _, err := proc.HTTP(ctx, "http://"+addr, nil); err != nil {
		return err
	}
	none := func(context.Context) error { return nil }
	all := []*contestant{
		{name: "bare net/http", addr: addr, pid: process.PID(), before: none},
		{name: "collector, Kinesis away", addr: p.Addr(), pid: p.Collector.Process().PID(), before: func(context.Context) error {
			if len(p.Rig.Kinesis.Faults()) > 0 {
				return nil
			}
			return p.CutKinesis()
		}},
		{name: "collector, delivering", addr: p.Addr(), pid: p.Collector.Process().PID(), before: func(ctx context.Context) error {
			if err := p.MendKinesis(); err != nil {
				return err
			}
			return drained(ctx, p)
		}},
	}
	connections := []int{64, 256}
	for _, c := range all {
		c.results = map[int][]result{}
	}
	for round := range s.rounds + 1 {
		for _, conns := range connections {
			for i := range all {
				c := all[(i+round)%len(all)]
				if err := c.before(ctx); err != nil {
					return err
				}
				length := s.seconds
				if round == 0 {
					length = time.Second // to warm up; not counted
				}
				r, err := c.measure(ctx, conns, length)
				if err != nil {
					return err
				}
				if round > 0 {
					c.results[conns] = append(c.results[conns], r)
				}
			}
		}
	}
	show(all, connections)
	return nil
}

// measure loads the contestant once.
func (c *contestant) measure(ctx context.Context, conns int, length time.Duration) (result, error) {
	before, err := cpuTime(c.pid)
	if err != nil {
		return result{}, err
	}
	r := load.Run(ctx, c.addr, conns, length, request(c.addr))
	if ctx.Err() != nil {
		return result{}, ctx.Err()
	}
	if r.Other > 0 || r.Errors > 0 || r.Requests == 0 {
		return result{}, fmt.Errorf("%s: %d answers 200, %d others, %d broken connections (%v)", c.name, r.Requests, r.Other, r.Errors, r.FirstError)
	}
	after, err := cpuTime(c.pid)
	return result{Result: r, cpu: (after - before) / time.Duration(r.Requests)}, err
}

// drained waits until the collector has delivered its backlog.
func drained(ctx context.Context, p *pair.Pair) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	_, err := p.WaitHealth(ctx, func(r *healthapi.Report) error {
		if r.Backlog.Events > 0 {
			return fmt.Errorf("%d events still wait", r.Backlog.Events)
		}
		return nil
	})
	return err
}

// show prints medians over the rounds, and the ratio to the bare server in each.
func show(all []*contestant, connections []int) {
	fmt.Println("| connections | server | answers 200 a second | p50 | p99 | CPU an answer | ratio to bare | in each round |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, conns := range connections {
		bare := all[0].results[conns]
		for _, c := range all {
			results := c.results[conns]
			ratios := make([]float64, len(results))
			texts := make([]string, len(results))
			for i, r := range results {
				ratios[i] = r.PerSecond() / bare[i].PerSecond()
				texts[i] = fmt.Sprintf("%.2f", ratios[i])
			}
			fmt.Printf("| %d | %s | %.0f | %s | %s | %.0f µs | %.2f | %s |\n", conns, c.name,
				median(results, func(r result) float64 { return r.PerSecond() }),
				millis(median(results, func(r result) float64 { return r.P50.Seconds() })),
				millis(median(results, func(r result) float64 { return r.P99.Seconds() })),
				median(results, func(r result) float64 { return float64(r.cpu.Microseconds()) }),
				median(ratios, func(f float64) float64 { return f }), strings.Join(texts, " "))
		}
	}
}

func millis(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1000) }

func median[T any](list []T, of func(T) float64) float64 {
	values := make([]float64, len(list))
	for i, v := range list {
		values[i] = of(v)
	}
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}
