package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/admission"
	"spillway/collector/internal/delivery"
	"spillway/collector/internal/health"
	"spillway/collector/internal/sink"
	"spillway/collector/internal/spool"
	"spillway/shared/healthapi"
	"spillway/shared/mode"
)

// stuckAfter is how long a part may go without progress before it counts as
// stuck. Parts beat at least every few seconds, idle ones too.
const stuckAfter = 30 * time.Second

// sources lets each part speak for itself in the health report.
func (a *App) sources() health.Sources {
	return health.Sources{
		Intake: a.intake, Backlog: a.backlog, Kinesis: a.kinesis, Fallback: a.checks.report,
		Sink:  func() healthapi.Sink { return a.lanes[sink.Good].forwarder.Status().Sink },
		Lanes: a.laneReports, Flush: a.flushStatus, Parts: a.parts, Mode: a.modes.state,
		Totals: a.totals, Problems: a.reportProblems, Broken: a.broken,
	}
}

func (a *App) intake() healthapi.Intake {
	s := a.gate.State()
	intake := healthapi.Intake{
		Accepting: s.Accepting, AcceptingPixels: s.AcceptingPixels, Reason: s.Reason,
		AcceptedTotal: a.server.AcceptedTotal(), RefusedTotal: a.server.RefusedTotal(),
	}
	if !s.Since.IsZero() {
		since := s.Since.UTC()
		intake.Since = &since
	}
	return intake
}

func (a *App) backlog() healthapi.Backlog {
	var b healthapi.Backlog
	var oldest time.Time
	for _, name := range sink.Lanes() {
		s := a.lanes[name].log.Stats()
		b.Events += s.Events
		// Percentages and time to full are about the lane that is full first.
		if limit := room(s); name == sink.Good || ratio(s.Bytes, limit) > ratio(b.Bytes, b.LimitBytes) {
			b.Bytes, b.LimitBytes = s.Bytes, limit
		}
		if name == sink.Good {
			b.LimitEvents, b.DiskFreeBytes = s.LimitEvents, s.FreeBytes
		}
		if !s.OldestAt.IsZero() && (oldest.IsZero() || s.OldestAt.Before(oldest)) {
			oldest = s.OldestAt
		}
	}
	if !oldest.IsZero() {
		at, age := oldest.UTC(), max(0, time.Since(oldest).Seconds())
		b.OldestAt, b.OldestAgeSeconds = &at, &age
	}
	return b
}

// room is how many bytes a lane can hold: its limit, or what its volume still has
// to give, whichever is less.
func room(s spool.Stats) int64 {
	most := s.Bytes + max(0, s.FreeBytes-s.MinFreeBytes)
	if s.LimitBytes > 0 {
		most = min(most, s.LimitBytes)
	}
	return most
}

// load is what admission decides on: the lane nearest its limit counts.
func (a *App) load() admission.Load {
	load := admission.Load{FreeBytes: -1, Outage: a.lanes[sink.Good].forwarder.OutageFor()}
	for _, l := range a.lanes {
		s := l.log.Stats()
		load.Events += s.Events
		if ratio(s.Bytes, s.LimitBytes) >= ratio(load.Bytes, load.LimitBytes) {
			load.Bytes, load.LimitBytes = s.Bytes, s.LimitBytes
		}
		if l.name == sink.Good {
			load.FreeBytes = s.FreeBytes
		}
	}
	return load
}

func ratio(part, whole int64) float64 { return float64(part) / float64(max(whole, 1)) }

func (a *App) kinesis() healthapi.Kinesis {
	k := healthapi.Kinesis{}
	if s := a.lanes[sink.Good].forwarder.Status(); s.Primary != nil {
		k = *s.Primary
	}
	k.Stream = a.currentSinks().primary[sink.Good].Info().Target
	return k
}

func (a *App) laneReports() map[string]healthapi.Lane {
	out := map[string]healthapi.Lane{}
	for name, l := range a.lanes {
		stats, status := l.log.Stats(), l.forwarder.Status()
		out[string(name)] = healthapi.Lane{
			BacklogEvents: stats.Events, BacklogBytes: stats.Bytes,
			WrittenTotal: status.WrittenTotal, DeadLettersTotal: status.DeadLettersTotal,
			CorruptTotal: stats.CorruptRecords, Sink: status.Sink,
		}
	}
	return out
}

func (a *App) flushStatus() healthapi.Flush {
	return delivery.CombineFlush(a.lanes[sink.Good].forwarder.FlushStatus(), a.lanes[sink.Bad].forwarder.FlushStatus())
}

func (a *App) totals() health.Totals {
	var t health.Totals
	for _, l := range a.lanes {
		s := l.log.Stats()
		t.AcceptedEvents += s.Appended
		t.LeftEvents += s.Acked
	}
	return t
}

// parts tells whether each part made progress lately.
func (a *App) parts() map[string]healthapi.Part {
	out := map[string]healthapi.Part{}
	for name, l := range a.lanes {
		beat := l.forwarder.Status().BeatAge
		out["delivery."+string(name)] = healthapi.Part{Alive: beat < stuckAfter, BeatAgeSeconds: beat.Seconds()}
	}
	return out
}

// live is nil while every part makes progress.
func (a *App) live() error {
	var errs []error
	for name, part := range a.parts() {
		if !part.Alive {
			errs = append(errs, fmt.Errorf("%s has made no progress for %.0f s", name, part.BeatAgeSeconds))
		}
	}
	return errors.Join(errs...)
}

// ready is nil while POSTs are taken.
func (a *App) ready() error {
	r := a.report.Peek()
	switch {
	case r.State == healthapi.StateStarting, r.State == healthapi.StateStopping:
		return errors.New(string(r.State))
	case !r.Intake.Accepting:
		return fmt.Errorf("refusing: %s", r.Intake.Reason)
	}
	return nil
}

// sinkHealthy answers /sink-health: both destinations in use take records, as far
// as is known.
func (a *App) sinkHealthy() bool {
	for _, l := range a.lanes {
		if l.forwarder.Status().Sink.Circuit != "closed" {
			return false
		}
	}
	return true
}

// fallbackInUse tells whether the fallback is in use and, if so, how it fares.
func (a *App) fallbackInUse() fallbackUse {
	if a.mode() != mode.Fallback {
		return fallbackUse{}
	}
	s := a.lanes[sink.Good].forwarder.Status().Sink
	return fallbackUse{used: true, failing: s.ConsecutiveFailures > 0, wrote: s.LastWriteAt != nil}
}

// logState says a change of state in the log.
func logState(log *logrus.Entry) func(from, to healthapi.State, why string) {
	return func(from, to healthapi.State, why string) {
		entry := log.WithFields(logrus.Fields{"from": from, "to": to})
		if to == healthapi.StateDegraded || to == healthapi.StateRefusing {
			entry.Warn("state changed: " + why)
			return
		}
		entry.Info("state changed: " + why)
	}
}

// logReport writes the report to the log, one field a section.
func logReport(log *logrus.Entry, r healthapi.Report) {
	log.WithFields(logrus.Fields{
		"state": r.State, "mode": r.Mode, "accepting": r.Intake.Accepting, "accepted_total": r.Intake.AcceptedTotal, "refused_total": r.Intake.RefusedTotal,
		"backlog_events": r.Backlog.Events, "backlog_bytes": r.Backlog.Bytes, "disk_free_bytes": r.Backlog.DiskFreeBytes,
		"sink": r.Sink.Type + " " + r.Sink.Target, "circuit": r.Sink.Circuit, "failures": r.Sink.ConsecutiveFailures, "last_error": r.Sink.LastError,
		"flush_requested": r.Flush.Requested, "flush_completed": r.Flush.Completed, "fallback_ready": r.Fallback.Ready,
	}).Info("health report")
}
