package app

import (
	"cmp"
	"fmt"
	"time"

	"spillway/collector/internal/sink"
)

// reportProblems are the sentences of the health report.
func (a *App) reportProblems() []string {
	out := a.problems()
	if why := a.broken(); why != "" {
		out = append(out, why)
	}
	if d := a.dead.Stats(); d.LastError == "" && d.LimitBytes > 0 && d.Bytes > d.LimitBytes/10*8 {
		out = append(out, fmt.Sprintf("dead letters use %d of the %d bytes they may: see `spillway-collector dead-letter ls`, then retry or remove them", d.Bytes, d.LimitBytes))
	}
	for _, name := range sink.Lanes() {
		l := a.lanes[name]
		s, d := l.log.Stats(), l.forwarder.Status()
		if d.Sink.ConsecutiveFailures > 0 && d.Sink.Circuit != "closed" {
			out = append(out, fmt.Sprintf("%s %s takes nothing from the %s lane (%d failures in a row), events wait on disk: %s",
				d.Sink.Type, d.Sink.Target, name, d.Sink.ConsecutiveFailures, d.Sink.LastError))
		}
		if s.WritingFor > hangs {
			out = append(out, fmt.Sprintf("the disk under the spool of the %s lane has not answered a write for %s", name, s.WritingFor.Round(time.Second)))
		}
		if s.CorruptRecords+s.DamagedSegments > 0 {
			out = append(out, fmt.Sprintf("the spool of the %s lane was damaged: %d records and %d whole files could not be read; their bytes are set aside in corrupt/", name, s.CorruptRecords, s.DamagedSegments))
		}
		if s.ForeignFiles > 0 {
			out = append(out, fmt.Sprintf("%d files in the spool directory of the %s lane are not the spool's", s.ForeignFiles, name))
		}
		if d.ParkedRecords > 0 {
			out = append(out, fmt.Sprintf("%d records of the %s lane can neither be delivered nor stored as dead letters: %s", d.ParkedRecords, name, cmp.Or(a.dead.Stats().LastError, "see the log")))
		}
		if d.Probe != "" && l.name == sink.Good {
			out = append(out, d.Probe)
		}
	}
	return out
}

// broken says what of the collector itself does not work, so that requests are
// answered 503 though there is room: the spool or the dead letters cannot be
// written. Empty when both can.
func (a *App) broken() string {
	for _, name := range sink.Lanes() {
		if s := a.lanes[name].log.Stats(); s.Failing {
			return fmt.Sprintf("the spool of the %s lane cannot be written: %s", name, s.LastError)
		}
	}
	if d := a.dead.Stats(); d.LastError != "" {
		return fmt.Sprintf("dead letters cannot be stored (%d of %d bytes used), requests that need one are answered 503: %s", d.Bytes, d.LimitBytes, d.LastError)
	}
	return ""
}
