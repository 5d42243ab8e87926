package decide

import (
	"slices"

	"spillway/shared/mode"
)

// absorbWorld takes note of what changed since the last observation: the result
// of our step, the mode file, the process.
func (t *turn) absorbWorld() {
	t.absorbResult()
	if t.s.Mode.Phase == "" {
		t.firstSight()
	}
	t.absorbModeFile()
	t.conflict = t.contradiction()
	t.absorbStart()
	t.absorbReport()
	t.absorbCluster()
}

// absorbResult accepts the result of the step in progress and of no other: what
// comes late, twice, or for an action that is over, is dropped.
func (t *turn) absorbResult() {
	r, a := t.o.Result, t.s.Action
	if r == nil {
		return
	}
	if a == nil || a.ID != r.ActionID || a.Step != r.Step || a.Rung != r.Rung {
		t.remark("dropped the result of step %s of action %s: it is not what is being done", r.Step, r.ActionID)
		return
	}
	t.result = r
	if r.Step == ModeWritten && (r.Outcome == StepOK || r.Outcome == StepSkipped) && r.File.Mode != "" {
		t.knowFile(r.File)
	}
}

// firstSight begins the mode region with what the mode file says.
func (t *turn) firstSight() {
	m, file := &t.s.Mode, t.o.ModeFile.File
	m.Phase, m.Since = phaseOf(file.Mode), t.now
	if m.Phase == Fallback {
		m.HoldUntil, m.OutageAt = t.now.Add(t.p.Recover.MinHold), t.now
	}
	t.knowFile(file)
	t.filePin(file.Pinned, file.By, file.Reason, file.Mode, 0)
	t.s.Liveness.Since, t.s.Authority.Since = t.now, t.now
	t.s.Budget.RefillAt = t.now
}

// phaseOf is the steady phase of a mode.
func phaseOf(m mode.Mode) Phase {
	if m == mode.Fallback {
		return Fallback
	}
	return Primary
}

// modeOf is the mode that a phase is in or leads to.
func modeOf(p Phase) mode.Mode {
	if p == Fallback || p == Diverting {
		return mode.Fallback
	}
	return mode.Primary
}

func (t *turn) knowFile(f mode.File) {
	m := &t.s.Mode
	if f.Mode != m.File || f.Rev != m.Rev {
		m.FileAt = t.now
	}
	m.Rev, m.File = f.Rev, f.Mode
}

// absorbModeFile tells our own writes from those of others. A file that cannot
// be read changes nothing: the collector keeps what it runs.
func (t *turn) absorbModeFile() {
	seen, m, a := t.o.ModeFile, &t.s.Mode, t.s.Action
	if seen.Err != "" || seen.File.Rev == m.Rev && seen.File.Mode == m.File {
		return
	}
	pinned := t.standing(Pinned)
	if a != nil && !a.Ghost && a.reached(ModeWritten) && seen.File.Mode == a.Target && (seen.Mine || seen.File.By == a.By) {
		t.knowFile(seen.File) // ours, though its result may not be in yet
		return
	}
	if seen.File.Mode == m.File && seen.File.Pinned == pinned {
		t.knowFile(seen.File) // written again, to say the same
		return
	}
	f := seen.File
	t.changed = &f
	t.knowFile(f)
}

// absorbStart finds out whether the collector was started since, and by whom. A
// start that is not ours, whoever made it, begins a time in which nothing is
// concluded; several of them are a crash loop, which we never add to.
func (t *turn) absorbStart() {
	seen, live := &t.s.Seen, &t.s.Liveness
	started := false
	if id := t.o.Supervisor.InvocationID; id != "" {
		started = seen.Invocation != "" && id != seen.Invocation
		seen.Invocation = id
	}
	if r := t.o.Report; r != nil && r.BootID != seen.BootID {
		// A start shows twice, to the supervisor and in the report: it is a new one
		// only if the process before it has answered.
		if seen.BootID != "" && seen.At >= live.StartedAt && !started {
			started = true
			if t.o.Supervisor.InvocationID == "" {
				seen.Invocation = ""
			}
		}
		seen.BootID, seen.Accepted, seen.Refused = r.BootID, 0, 0
	}
	switch t.o.Supervisor.State {
	case SupervisorActivating, SupervisorAutoRestart:
		live.StartedAt = t.now // an attempt counts
	}
	live.Starts = slices.DeleteFunc(live.Starts, func(m Moment) bool { return !t.within(m, t.p.CrashLoop.Window) })
	if !started {
		return
	}
	live.StartedAt = t.now
	if t.switching() {
		return
	}
	t.started = true
	live.Starts = append(live.Starts, t.now)
	if len(live.Starts) > 32 {
		live.Starts = live.Starts[1:]
	}
	for _, def := range catalogue {
		if def.class == ProcessSick {
			delete(t.s.Rules, def.name) // it was about another process
		}
	}
}

// absorbReport remembers of the report what later ones are compared with.
func (t *turn) absorbReport() {
	seen, live := &t.s.Seen, &t.s.Liveness
	if p := t.o.Process; p.Known && p.Alive && p.SameStart && p.CPUKnown && p.CPUMoved {
		seen.MovedAt = t.now
	}
	r := t.o.Report
	if t.o.Reach != ReachOK || r == nil {
		live.OKFrom = 0
		return
	}
	if live.OKFrom == 0 {
		live.OKFrom = t.now
	}
	seen.At, seen.Seq, seen.Mode = t.now, r.Seq, mode.Mode(r.Mode)
	seen.Accepted, seen.Refused = r.Intake.AcceptedTotal, r.Intake.RefusedTotal
}

func (t *turn) absorbCluster() {
	if c := t.o.Cluster; c != nil && c.Connected {
		t.s.Cluster.ContactAt, t.s.Cluster.Mode = t.now, c.Mode
	}
}

// negative tells whether an optional number is there and below zero.
func negative(f *float64) bool { return f != nil && *f < 0 }

// contradiction says why the report cannot be believed; empty when it can.
func (t *turn) contradiction() string {
	r, seen := t.o.Report, t.s.Seen
	if r == nil {
		return ""
	}
	b := r.Backlog
	switch {
	case b.Events < 0 || b.Bytes < 0:
		return "the backlog is negative"
	case negative(b.OldestAgeSeconds) || negative(r.Kinesis.LastWriteAgeSeconds) || negative(r.Sink.LastWriteAgeSeconds):
		return "an age is negative"
	case b.Events == 0 && b.OldestAgeSeconds != nil && *b.OldestAgeSeconds > 60:
		return "nothing waits, yet the oldest event waits for " + length(seconds(*b.OldestAgeSeconds))
	case r.BootID == seen.BootID && (r.Intake.AcceptedTotal < seen.Accepted || r.Intake.RefusedTotal < seen.Refused):
		return "its counters run backwards without a restart"
	}
	return ""
}
