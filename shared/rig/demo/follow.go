package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"spillway/shared/rig"
	"spillway/shared/rig/pair"
)

// The entries of the journal that the timeline quotes; the rest is detail.
var quoted = []string{"rule_warn", "rule_fire", "action_start", "result", "action_end", "mode", "blocked", "notify", "liveness"}

// follow quotes the watchdog's journal as it grows, and keeps the status line
// up to date, until ctx ends.
func (s *story) follow(ctx context.Context) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var last uint64
	for n := 0; ; n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		entries, err := s.pair.Journal()
		if err != nil {
			continue // the next look is soon
		}
		for _, e := range entries {
			if e.Seq > last {
				last = e.Seq
				s.quote(e)
			}
		}
		if s.terminal && n%3 == 0 {
			s.show(s.now(ctx))
		}
	}
}

func (s *story) quote(e pair.Entry) {
	if slices.Contains(quoted, e.Event) {
		s.say(watchdog, "“%s”", e.Sentence)
	}
}

// now is the situation in one line.
func (s *story) now(ctx context.Context) string {
	c := s.tracker.Ledger().Counts()
	mode, backlog := "away", "?"
	if r, err := s.pair.Health(ctx); err == nil {
		mode, backlog = r.Mode, fmt.Sprint(r.Backlog.Events)
	}
	return fmt.Sprintf("  collector %-8s backlog %6s | sent %d, answered 200 %d, 503 %d, refused %d | kinesis %d, s3 %d objects",
		mode, backlog, c.Events, c.Acked, c.Statuses[503], c.Unreachable,
		s.pair.Rig.Kinesis.Count(rig.GoodStream), len(s.pair.Rig.S3.Objects(rig.Bucket, pair.Prefix+"/good/")))
}
