package decide_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

const self = "watchdog box"

// sim is a box in virtual time: a collector with a spool and two sinks, a
// supervisor that starts it, an executor that does steps, and the watchdog's
// mind. Tests break parts of it and look at what the mind makes of that.
type sim struct {
	t testing.TB
	p decide.Policy
	s decide.State

	// clocks
	boot   time.Duration
	wall   time.Time
	bootID string
	poll   time.Duration

	// the collector
	up, hung       bool
	starts         int // of the process, gives the boot id
	startingFor    time.Duration
	runs           mode.Mode
	seq            uint64
	kinesis, s3    bool // take events
	s3Ready        bool
	configured     bool
	rate           float64 // events a second
	events         float64
	limitBytes     int64
	sinceWrite     time.Duration
	sinceS3        time.Duration
	probeOK        time.Duration
	probeBroken    bool // the prober itself is stuck
	lastOK         time.Time
	accepted       float64
	stalledPart    time.Duration
	tweak          func(*healthapi.Report)
	crashInMode    mode.Mode // cannot start in this mode
	ignoresLive    bool
	restartTakes   time.Duration
	restartsItself bool // its supervisor starts it again when it is gone

	// the world around it
	reach      decide.Reach
	public     decide.Public
	process    *decide.Process
	supervisor decide.Supervisor
	pressure   float64
	cluster    *decide.Cluster
	stateError string
	rival      string
	firstOfRun bool

	file     mode.File
	fileErr  string
	writeErr string
	commands []decide.Command

	// the executor
	rungs    map[decide.Rung]decide.Outcome // that do not work
	conflict decide.Step                    // where somebody else is faster
	mute     bool                           // does nothing and says nothing
	result   *decide.Result
	done     []string // steps done, as "kind/step/rung"

	// what came of it
	decision decide.Decision
	explain  decide.Explain
	taken    map[string]int
	notes    []decide.Note
	started  []decide.Action
	would    []decide.Action
	log      []decide.Observation
	keepLog  bool
}

func newSim(t testing.TB) *sim {
	p := decide.DefaultPolicy()
	s := &sim{
		t: t, p: p, s: decide.NewState(p),
		boot: time.Hour, wall: time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC), bootID: "kernel-1", poll: p.Poll.Interval,
		up: true, starts: 1, runs: mode.Primary, kinesis: true, s3: true, s3Ready: true, configured: true,
		rate: 100, limitBytes: 1 << 30, restartTakes: 3 * time.Second, restartsItself: true,
		file:  mode.File{Schema: 1, Mode: mode.Primary},
		rungs: map[decide.Rung]decide.Outcome{}, taken: map[string]int{},
		firstOfRun: true,
	}
	return s
}

// settled is a sim that has run for long enough to act.
func settled(t testing.TB) *sim {
	s := newSim(t)
	s.run(2 * time.Minute)
	return s
}

const eventBytes = 1000

// live moves the collector on by d.
func (s *sim) live(d time.Duration) {
	if s.startingFor > 0 {
		s.startingFor -= d
		if s.startingFor <= 0 && s.crashInMode != s.file.Mode {
			s.up, s.hung, s.runs, s.stalledPart = true, false, s.file.Mode, 0
			s.starts++
			s.seq, s.accepted, s.probeOK = 0, 0, 0
		} else if s.startingFor <= 0 && s.restartsItself {
			s.startingFor = s.restartTakes
		}
	}
	sec := d.Seconds()
	s.sinceWrite += d
	s.sinceS3 += d
	if s.kinesis {
		s.lastOK = s.wall
	}
	if !s.up || s.hung {
		return
	}
	if int64(s.events)*eventBytes < s.limitBytes {
		s.events += s.rate * sec
		s.accepted += s.rate * sec
	}
	out := 0.0
	if s.runs == mode.Primary && s.kinesis || s.runs == mode.Fallback && s.s3 {
		out = min(s.events, s.rate*5*sec)
	}
	s.events -= out
	if out > 0 && s.runs == mode.Primary {
		s.sinceWrite = 0
	}
	if out > 0 && s.runs == mode.Fallback {
		s.sinceS3 = 0
	}
	switch {
	case s.runs == mode.Primary || !s.kinesis:
		s.probeOK = 0
	case !s.probeBroken:
		s.probeOK += d
		s.sinceWrite = 0
	}
}

func (s *sim) report() *healthapi.Report {
	s.seq++
	r := &healthapi.Report{
		Schema: 1, Seq: s.seq, Instance: "box", PID: 100 + s.starts, BootID: fmt.Sprintf("boot-%d", s.starts),
		Mode: string(s.runs), State: healthapi.StateOK, SignalsReady: true,
		Intake: healthapi.Intake{Accepting: true, AcceptingPixels: true, EventsPerSecond: s.rate, AcceptedTotal: uint64(s.accepted)},
		Backlog: healthapi.Backlog{
			Events: int64(s.events), Bytes: int64(s.events) * eventBytes,
			LimitBytes: s.limitBytes, DiskFreeBytes: 1 << 40,
		},
		Kinesis:  healthapi.Kinesis{Stream: "good", LastWriteAgeSeconds: new(s.sinceWrite.Seconds())},
		Fallback: healthapi.Fallback{Configured: s.configured, Valid: true, Ready: s.s3Ready, LastCheckAt: new(s.wall)},
		Sink:     healthapi.Sink{Type: "kinesis", Target: "good", LastWriteAgeSeconds: new(s.sinceWrite.Seconds())},
		Parts:    map[string]healthapi.Part{"delivery": {Alive: true, BeatAgeSeconds: s.stalledPart.Seconds()}},
	}
	if !s.s3Ready {
		r.Fallback.LastError = "access denied"
	}
	if s.events >= 1 && s.rate > 0 {
		r.Backlog.OldestAgeSeconds = new(s.events / s.rate)
	}
	if s.events >= 1 && (s.runs == mode.Primary && s.kinesis || s.runs == mode.Fallback && s.s3) {
		r.Drain.ETASeconds = new(s.events / (4 * max(s.rate, 1)))
	}
	if r.Backlog.Bytes >= s.limitBytes {
		r.State, r.Intake.Accepting, r.Intake.Reason = healthapi.StateRefusing, false, "the spool is full"
	}
	if s.runs == mode.Fallback {
		r.Sink = healthapi.Sink{Type: "s3", Target: "s3://bucket", LastWriteAgeSeconds: new(s.sinceS3.Seconds())}
		if s.probeOK > 0 {
			r.Kinesis.Probe = healthapi.Probe{Level: 1, LastOKAt: new(s.lastOK), OKForSeconds: new(s.probeOK.Seconds())}
			if s.probeBroken {
				r.Kinesis.Probe.LastOKAt = new(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			}
		}
	}
	if s.tweak != nil {
		s.tweak(r)
	}
	return r
}

// observe makes the observation of now.
func (s *sim) observe() decide.Observation {
	o := decide.Observation{
		Clock:      decide.Clock{BootID: s.bootID, SinceBoot: s.boot, Wall: s.wall},
		FirstOfRun: s.firstOfRun, Reach: decide.ReachOK, Latency: 3 * time.Millisecond,
		Supervisor: s.supervisor, CPUPressure: s.pressure, Commands: s.commands, Result: s.result,
		StateError: s.stateError, Rival: s.rival,
		ModeFile: decide.ModeFile{File: s.file, Err: s.fileErr, Mine: s.file.By == self},
	}
	if s.cluster != nil {
		o.Cluster = new(*s.cluster)
	}
	s.firstOfRun, s.commands, s.result = false, nil, nil
	switch {
	case s.reach != "" && s.reach != decide.ReachOK:
		o.Reach = s.reach
	case s.hung:
		o.Reach = decide.ReachTimeout
	case !s.up:
		o.Reach = decide.ReachRefused
	}
	if o.Reach == decide.ReachOK {
		o.Report = s.report()
		return o
	}
	if o.Reach == decide.ReachForeign {
		return o
	}
	o.Public = s.public
	switch {
	case s.process != nil:
		o.Process = *s.process
	case !s.up:
		o.Process = decide.Process{Known: true}
	case s.hung:
		o.Process = decide.Process{Known: true, Alive: true, SameStart: true, State: "S", CPUKnown: true}
	}
	if o.Public == decide.PublicNotTried {
		o.Public = decide.PublicFailed
	}
	return o
}

// tick lets the poll interval pass and the mind look.
func (s *sim) tick() {
	s.t.Helper()
	s.live(s.poll)
	s.boot += s.poll
	s.wall = s.wall.Add(s.poll)
	o := s.observe()
	if s.keepLog {
		s.log = append(s.log, o)
	}
	s.see(o)
}

func (s *sim) see(o decide.Observation) {
	s.t.Helper()
	before := s.s
	s.s, s.decision, s.explain = decide.Next(s.p, s.s, o)
	for _, id := range s.explain.Taken {
		s.taken[id]++
	}
	s.notes = append(s.notes, s.decision.Notes...)
	if s.decision.Verb == decide.Start {
		s.started = append(s.started, *s.decision.Action)
	}
	if s.decision.Would != nil {
		s.would = append(s.would, *s.decision.Would)
	}
	s.check(before)
	s.execute()
}

// check asserts what must hold in every turn, whatever is tested.
func (s *sim) check(before decide.State) {
	s.t.Helper()
	d := s.decision
	if s.s.Budget.Tokens < 0 || len(s.s.Budget.Spent) > s.p.Budget.PerHour {
		s.t.Fatalf("budget exceeded: %+v", s.s.Budget)
	}
	if (d.Verb == decide.None) != (d.Action == nil) && d.Verb != decide.Adopt {
		s.t.Fatalf("verb %s with action %+v", d.Verb, d.Action)
	}
	if d.Verb != decide.None && d.Reason == "" {
		s.t.Fatalf("decision without a reason: %+v", d)
	}
	if d.Action != nil && d.Verb != decide.Abort && d.Action.Step == decide.Switch && d.Action.Rung == "" {
		s.t.Fatalf("a switch by no means: %+v", d.Action)
	}
	for _, n := range d.Notes {
		if strings.TrimSpace(n.Text) == "" || n.Key == "" {
			s.t.Fatalf("empty note: %+v", n)
		}
	}
	if d.Verb == decide.Start && before.Action != nil && d.Action.ID == before.Action.ID {
		s.t.Fatalf("action %s began twice", d.Action.ID)
	}
	for _, b := range s.explain.BlockedBy {
		if !strings.Contains(b.Text, " ") || b.Guard == "" || b.Edge == "" {
			s.t.Fatalf("a block that is no sentence: %+v", b)
		}
	}
	if s.explain.Next == "" || s.explain.Summary == "" {
		s.t.Fatalf("explanation with a hole: %+v", s.explain)
	}
	if d.Verb == decide.Start && d.Action.By == "" {
		if d.Action.Reason == "" || d.Action.Ghost {
			s.t.Fatalf("bad action: %+v", d.Action)
		}
		for _, p := range []decide.Phase{decide.Paused, decide.Standby, decide.HandedOver, decide.DryRun} {
			if _, stands := before.Authority.Orders[p]; stands && d.Action.Kind != decide.Repin {
				if _, still := s.s.Authority.Orders[p]; still {
					s.t.Fatalf("%s began while %s: %s", d.Action.Kind, p, d.Reason)
				}
			}
		}
	}
}

// execute does the step that was ordered, at once.
func (s *sim) execute() {
	a := s.decision.Action
	if a == nil || s.decision.Verb != decide.Start && s.decision.Verb != decide.Continue {
		return
	}
	if s.mute && a.Step != decide.Done {
		return
	}
	s.done = append(s.done, strings.TrimRight(fmt.Sprintf("%s/%s/%s", a.Kind, a.Step, a.Rung), "/"))
	r := &decide.Result{ActionID: a.ID, Step: a.Step, Rung: a.Rung, Outcome: decide.StepOK}
	if s.conflict == a.Step {
		s.conflict = ""
		r.Outcome, r.Text = decide.StepConflict, "somebody else's job won"
		s.result = r
		return
	}
	switch a.Step {
	case decide.ModeWritten:
		if s.writeErr != "" {
			r.Outcome, r.Text = decide.StepFailed, s.writeErr
			break
		}
		by := a.By
		if by == "" {
			by = self
		}
		if s.file.Rev != a.BaseRev && (s.file.Mode != a.Target || s.file.By != by) {
			r.Outcome, r.Text = decide.StepConflict, "the mode file has another revision"
			break
		}
		if s.file.Rev == a.BaseRev {
			s.file = mode.File{Schema: 1, Mode: a.Target, Rev: a.BaseRev + 1, By: by, Reason: a.Reason, Pinned: a.Pinned}
		}
		r.File = s.file
	case decide.Switch:
		if outcome, broken := s.rungs[a.Rung]; broken {
			r.Outcome, r.Text = outcome, "it does not work"
			break
		}
		if a.Rung == decide.RungLive {
			if s.up && !s.hung && !s.ignoresLive {
				s.runs = s.file.Mode
			}
			break
		}
		s.restart()
	case decide.Done:
		return
	}
	s.result = r
}

// restart makes the process go and come back.
func (s *sim) restart() { s.up, s.hung, s.startingFor = false, false, s.restartTakes }

// run lets d pass.
func (s *sim) run(d time.Duration) {
	s.t.Helper()
	for ; d > 0; d -= s.poll {
		s.tick()
	}
}

// until runs until cond holds, at most for d.
func (s *sim) until(d time.Duration, what string, cond func() bool) {
	s.t.Helper()
	for left := d; left > 0; left -= s.poll {
		if cond() {
			return
		}
		s.tick()
	}
	if !cond() {
		s.t.Fatalf("not within %s: %s\nsummary: %s\nnext: %s\nblocked: %v\ndone: %v", d, what, s.explain.Summary, s.explain.Next, s.explain.BlockedBy, s.done)
	}
}

func (s *sim) untilMode(d time.Duration, p decide.Phase) {
	s.t.Helper()
	s.until(d, "mode "+string(p), func() bool { return s.s.Mode.Phase == p && s.s.Action == nil })
}

func (s *sim) say(kind decide.CommandKind, m mode.Mode, d time.Duration) {
	s.commands = append(s.commands, decide.Command{ID: fmt.Sprintf("c%d", s.seq), Kind: kind, Mode: m, For: d, By: "person alice", Reason: "because"})
}

// died lets the watchdog die and come back after d, with the state it had saved.
func (s *sim) died(d time.Duration) {
	s.live(d)
	s.boot += d
	s.wall = s.wall.Add(d)
	s.result, s.firstOfRun = nil, true
}

// editFile lets somebody else write the mode file.
func (s *sim) editFile(m mode.Mode, pinned bool) {
	s.file = mode.File{Schema: 1, Mode: m, Rev: s.file.Rev + 1, By: "person bob", Reason: "by hand", Pinned: pinned}
}

// fallenBack is a sim that has diverted because Kinesis is sick.
func fallenBack(t testing.TB) *sim {
	s := settled(t)
	s.kinesis = false
	s.untilMode(15*time.Minute, decide.Fallback)
	return s
}

func (s *sim) wantNoStart() {
	s.t.Helper()
	if len(s.started) > 0 {
		s.t.Fatalf("started %d actions, want none; the first: %s", len(s.started), s.started[0].Reason)
	}
}

func (s *sim) wantStarts(kinds ...decide.Kind) {
	s.t.Helper()
	var got []decide.Kind
	for _, a := range s.started {
		got = append(got, a.Kind)
	}
	if !slices.Equal(got, kinds) {
		s.t.Fatalf("actions %v, want %v", got, kinds)
	}
}

func (s *sim) wantBlocked(guard string) {
	s.t.Helper()
	for _, b := range s.explain.BlockedBy {
		if b.Guard == guard {
			if len(b.Text) < 10 {
				s.t.Fatalf("guard %s says only %q", guard, b.Text)
			}
			return
		}
	}
	s.t.Fatalf("not blocked by %s but by %v; %s", guard, s.explain.BlockedBy, s.explain.Summary)
}

func (s *sim) wantAuthority(p decide.Phase) {
	s.t.Helper()
	if got := s.s.Authority.Phase; got != p {
		s.t.Fatalf("authority %s, want %s (%v)", got, p, s.s.Authority.Orders)
	}
}

func (s *sim) noted(key string, severity decide.Severity) int {
	n := 0
	for _, note := range s.notes {
		if note.Key == key && note.Severity == severity && !note.Resolved {
			n++
		}
	}
	return n
}

func (s *sim) resolved(key string) int {
	n := 0
	for _, note := range s.notes {
		if note.Key == key && note.Resolved {
			n++
		}
	}
	return n
}

func takenIDs(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
