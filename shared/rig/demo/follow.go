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
var (
	quotedEvents = []string{"rule_warn", "rule_fire", "action_start", "action_end", "mode", "blocked"}
	quotedSteps  = []string{"flush", "mode_written", "switch"} // of the results of steps
)

// follow quotes the watchdog's journal as it grows, and keeps the status line
// up to date, until ctx ends.
func (s *story) follow(ctx context.Context) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		s.catchUp()
		if s.terminal {
			s.show(s.now(ctx))
		}
	}
}

// catchUp quotes what is new in the journal.
func (s *story) catchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := s.pair.Journal()
	if err != nil {
		return // the next look is soon
	}
	for _, e := range entries {
		if e.Seq <= s.quoted {
			continue
		}
		s.quoted = e.Seq
		if slices.Contains(quotedEvents, e.Event) || e.Event == "result" && slices.Contains(quotedSteps, e.Step) {
			s.say(watchdog, "“%s”", e.Sentence)
		}
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
