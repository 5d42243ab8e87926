package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"spillway/shared/rig"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/tracker"
)

// account stops the traffic, waits until nothing is under way, and looks up
// every event that was answered 200.
func (s *story) account(ctx context.Context) error {
	s.say(client, "stop, and send again what was not answered")
	if err := within(ctx, time.Minute, s.settled); err != nil {
		return fmt.Errorf("not everything was delivered: %w", err)
	}
	s.say(own, "looking up every event that was answered 200, in Kinesis and in S3")
	report, err := s.pair.Audit(s.tracker.Ledger())
	if err != nil {
		return err
	}
	again, blown, unexplained, err := s.duplicates()
	if err != nil {
		return err
	}
	s.show("")
	c := report.Counts
	var b strings.Builder
	row := func(name string, n int, note string) { fmt.Fprintf(&b, "  %-34s %8d  %s\n", name, n, note) }
	b.WriteString("\n")
	row("events sent", c.Events, "")
	row("answered 200", c.Acked, "the promise: each of these must be somewhere")
	row("answers 503", c.Statuses[503], "the tracker kept the event and sent it again")
	row("connections refused", c.Unreachable, "while the collector started; sent again")
	row("found in Kinesis", report.InKinesis, "")
	row("found in S3", report.InS3, "")
	row("duplicates", report.Duplicates(), fmt.Sprintf("%d sent again by a tracker that heard no answer,", again))
	fmt.Fprintf(&b, "  %-34s %8s  %d delivered again around a cut, kill or restart, %d unexplained\n", "", "", blown, unexplained)
	colour := green
	if len(report.Lost) > 0 {
		colour = red
	}
	b.WriteString(s.paint(colour, fmt.Sprintf("  %-34s %8d", "LOST", len(report.Lost))) + "\n\n")
	s.block(b.String())
	if n := len(report.Lost); n > 0 {
		return fmt.Errorf("%d events were answered 200 and are nowhere, as %s", n, report.Lost[0])
	}
	s.line(own, green, fmt.Sprintf("nothing was lost: %d of %d events answered 200 were found", c.Acked, c.Acked))
	return nil
}

// closeTo is how near to a blow a copy must have been written to be explained by
// it: a request that was under way then took effect, and its answer was lost.
const closeTo = 5 * time.Second

// duplicates counts the copies beyond one of each event, by what explains them.
func (s *story) duplicates() (again, blown, unexplained int, err error) {
	blows := slices.Clone(s.blows)
	for _, r := range s.pair.Collector.Restarts() {
		blows = append(blows, r.Exit.At)
	}
	copies := map[string][]time.Time{}
	for data, at := range s.arrived(&err) {
		for _, id := range tracker.IDs(data) {
			copies[id] = append(copies[id], at)
		}
	}
	if err != nil {
		return 0, 0, 0, err
	}
	unclear := map[string]bool{}
	for _, id := range s.tracker.Ledger().Unclear() {
		unclear[id] = true
	}
	for id, times := range copies {
		slices.SortFunc(times, time.Time.Compare)
		for range times[1:] {
			switch {
			case unclear[id]:
				again++
			case slices.ContainsFunc(blows, func(b time.Time) bool { return b.Sub(times[0]).Abs() < closeTo }):
				blown++
			default:
				unexplained++
			}
		}
	}
	return again, blown, unexplained, nil
}

// arrived yields everything that arrived, with its time.
func (s *story) arrived(err *error) iter.Seq2[[]byte, time.Time] {
	return func(yield func([]byte, time.Time) bool) {
		for r := range s.pair.Rig.Kinesis.All(rig.GoodStream) {
			if !yield(r.Data, r.At) {
				return
			}
		}
		store := s.pair.Rig.S3
		for _, o := range store.Objects(rig.Bucket, pair.Prefix+"/good/") {
			content, e := store.Content(o.Bucket, o.Key)
			if e != nil {
				*err = e
				return
			}
			if !yield(content, o.ModifiedAt) {
				return
			}
		}
	}
}
