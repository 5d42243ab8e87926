package decide_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

// weather draws observations of a world that makes no sense at times. It knows
// the state, so that results often fit the step in progress.
type weather struct {
	clock    decide.Clock
	boot     int
	file     mode.File
	last     *decide.Action
	accepted uint64
	mood     int // how bad things are, changes rarely
	runs     mode.Mode
	epoch    int64
}

// anyPolicy draws a policy for the laws to hold under.
func anyPolicy(t *rapid.T) decide.Policy {
	p := decide.DefaultPolicy()
	if rapid.Bool().Draw(t, "cluster") {
		p.Scope = decide.ScopeCluster
	}
	if rapid.Bool().Draw(t, "live") {
		p.Restart.Ladder = []decide.Rung{decide.RungLive, decide.RungRestart, decide.RungRollBack}
	}
	p.DryRun = seldom.Draw(t, "dry run") >= 90
	p.Rules.Drain = rapid.SampledFrom([]float64{0.5, 1, 1e9}).Draw(t, "drain")
	return p
}

func newWeather() *weather {
	return &weather{
		clock: decide.Clock{BootID: "k1", SinceBoot: time.Hour, Wall: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
		file:  mode.File{Schema: 1, Mode: mode.Primary}, runs: mode.Primary,
	}
}

var seldom = rapid.IntRange(0, 99)

func (w *weather) draw(t *rapid.T) decide.Observation {
	chance := func(percent int, what string) bool { return seldom.Draw(t, what) >= 100-percent } // shrinks to quiet
	dt := 5 * time.Second
	if chance(3, "stall") {
		dt = time.Duration(rapid.IntRange(0, 3600).Draw(t, "dt")) * time.Second
	}
	w.clock.SinceBoot += dt
	w.clock.Wall = w.clock.Wall.Add(dt)
	if chance(5, "mood changes") {
		w.mood = rapid.IntRange(0, 4).Draw(t, "mood")
	}
	o := decide.Observation{Clock: w.clock, FirstOfRun: chance(2, "restarted"), Reach: decide.ReachOK}
	if w.mood == 3 || chance(5, "silent") {
		o.Reach = rapid.SampledFrom(decide.Reaches()).Draw(t, "reach")
	}
	if w.mood == 4 {
		o.Reach = decide.ReachTimeout
	}
	if chance(2, "collector restarts") {
		w.boot++
		w.runs = w.file.Mode
	}
	if o.Reach == decide.ReachOK {
		o.Report = w.report(t, chance)
	} else {
		o.Public = rapid.SampledFrom([]decide.Public{"", decide.PublicOK, decide.PublicFailed}).Draw(t, "public")
		o.Process = decide.Process{
			Known: chance(80, "known"), Alive: chance(60, "alive"), SameStart: chance(90, "same"),
			State: rapid.SampledFrom([]string{"S", "R", "T", "Z", "D"}).Draw(t, "state"), CPUKnown: true, CPUMoved: chance(30, "cpu"),
		}
		o.Process.Dying = o.Process.Alive && o.Process.SameStart && o.Process.State == "Z"
		o.Supervisor.State = rapid.SampledFrom([]decide.SupervisorState{"", decide.SupervisorActive, decide.SupervisorActivating, decide.SupervisorAutoRestart, decide.SupervisorStopped, decide.SupervisorFailed}).Draw(t, "supervisor")
		if chance(10, "limit") {
			o.Supervisor.Result = decide.ResultStartLimit
		}
	}
	if chance(2, "pressure") {
		o.CPUPressure = 90
	}
	if chance(80, "coordinator there") {
		o.Cluster = &decide.Cluster{
			Connected: chance(90, "connected"), Admitted: chance(50, "admitted"), Paused: chance(3, "cluster paused"),
			Mode:  rapid.SampledFrom([]mode.Mode{"", mode.Primary, mode.Fallback}).Draw(t, "cluster mode"),
			Epoch: int64(rapid.IntRange(int(w.epoch)-1, int(w.epoch)+1).Draw(t, "epoch")),
		}
		w.epoch = max(w.epoch, o.Cluster.Epoch)
	}
	if chance(1, "rival") {
		o.Rival = "watchdog other"
	}
	if chance(1, "no state") {
		o.StateError = "disk full"
	}
	w.people(t, &o, chance)
	w.executor(t, &o, chance)
	o.ModeFile = decide.ModeFile{File: w.file, Mine: w.file.By == self}
	if chance(1, "file broken") {
		o.ModeFile = decide.ModeFile{File: mode.File{Schema: 1, Mode: mode.Primary}, Err: "it is empty"}
	}
	return o
}

func (w *weather) report(t *rapid.T, chance func(int, string) bool) *healthapi.Report {
	w.accepted += 10
	r := &healthapi.Report{
		BootID: fmt.Sprint("boot-", w.boot), Mode: string(w.runs), State: healthapi.StateOK,
		Intake:   healthapi.Intake{Accepting: true, AcceptedTotal: w.accepted},
		Backlog:  healthapi.Backlog{Events: 10, Bytes: 1000, LimitBytes: 1e6, DiskFreeBytes: 1e9, OldestAgeSeconds: new(0.5)},
		Kinesis:  healthapi.Kinesis{LastWriteAgeSeconds: new(0.5)},
		Fallback: healthapi.Fallback{Configured: true, Valid: true, Ready: !chance(3, "not ready"), LastCheckAt: new(w.clock.Wall)},
		Parts:    map[string]healthapi.Part{"delivery": {Alive: true}},
	}
	switch w.mood {
	case 1:
		r.Kinesis.LastWriteAgeSeconds, r.Backlog.OldestAgeSeconds = new(900.0), new(900.0)
		r.Sink.LastWriteAgeSeconds = new(900.0)
	case 2:
		r.State, r.Intake.Accepting, r.Backlog.Bytes = healthapi.StateRefusing, false, 1e6
	}
	if r.Mode == string(mode.Fallback) && w.mood != 1 {
		r.Kinesis.Probe = healthapi.Probe{OKForSeconds: new(float64(rapid.IntRange(0, 900).Draw(t, "ok for"))), LastOKAt: new(w.clock.Wall)}
	}
	if chance(2, "nonsense") {
		r.Backlog.Events = int64(rapid.IntRange(-5, 5).Draw(t, "events"))
	}
	if chance(3, "stalled") {
		r.Parts["delivery"] = healthapi.Part{BeatAgeSeconds: 120}
	}
	if chance(2, "disk hangs") {
		r.State, r.Intake.Accepting, r.Intake.Reason = healthapi.StateRefusing, false, healthapi.ReasonDiskHangs
	}
	if chance(1, "stopping") {
		r.State = healthapi.StateStopping
	}
	return r
}

func (w *weather) people(t *rapid.T, o *decide.Observation, chance func(int, string) bool) {
	if chance(3, "command") {
		o.Commands = append(o.Commands, decide.Command{
			ID: fmt.Sprint(w.accepted), By: rapid.SampledFrom([]string{"person alice", ""}).Draw(t, "by"), Reason: "r",
			Kind: rapid.SampledFrom([]decide.CommandKind{
				decide.CommandSwitch, decide.CommandPin, decide.CommandPause, decide.CommandResume, decide.CommandResume, decide.CommandAck, decide.CommandAck, decide.CommandDryRun,
			}).Draw(t, "kind"),
			Mode: rapid.SampledFrom([]mode.Mode{mode.Primary, mode.Fallback}).Draw(t, "to"),
			For:  time.Duration(rapid.IntRange(0, 600).Draw(t, "for")) * time.Second,
		})
	}
	if chance(1, "edit") {
		w.file = mode.File{
			Schema: 1, Rev: w.file.Rev + 1, By: "person bob", Reason: "by hand", Pinned: chance(30, "pinned"),
			Mode: rapid.SampledFrom([]mode.Mode{mode.Primary, mode.Fallback}).Draw(t, "edited"),
		}
	}
}

func (w *weather) executor(t *rapid.T, o *decide.Observation, chance func(int, string) bool) {
	a := w.last
	if a == nil || chance(20, "no result yet") {
		return
	}
	r := decide.Result{ActionID: a.ID, Step: a.Step, Rung: a.Rung, Outcome: decide.StepOK}
	switch {
	case chance(10, "fails"):
		r.Outcome, r.Text = decide.StepFailed, "no"
	case chance(3, "conflicts"):
		r.Outcome, r.Text = decide.StepConflict, "theirs"
	case chance(3, "stale"):
		r.ActionID = "old"
	}
	if r.Outcome == decide.StepOK && r.ActionID == a.ID {
		switch a.Step {
		case decide.ModeWritten:
			by := a.By
			if by == "" {
				by = self
			}
			w.file = mode.File{Schema: 1, Mode: a.Target, Rev: w.file.Rev + 1, By: by, Reason: a.Reason, Pinned: a.Pinned}
			r.File = w.file
		case decide.Switch:
			w.boot++
			w.runs = w.file.Mode
		}
	}
	o.Result, w.last = &r, nil
}

// took lets the executor of the weather see what was decided.
func (w *weather) took(d decide.Decision) {
	switch d.Verb {
	case decide.Start, decide.Continue:
		if d.Action.Step != decide.Done && d.Action.Step != decide.Verify {
			w.last = d.Action
		}
	case decide.Abort:
		w.last = nil
	}
}

func asJSON(t rapid.TB, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func wantNoLaw(t rapid.TB, p decide.Policy, before, after decide.State, d decide.Decision, e decide.Explain) {
	if after.Budget.Tokens < 0 || after.Budget.Tokens > p.Budget.Tokens || len(after.Budget.Spent) > p.Budget.PerHour {
		t.Fatalf("budget %+v", after.Budget)
	}
	if (d.Verb == decide.Start || d.Verb == decide.Continue) && d.Action.Step == decide.Switch {
		if d.Action.Rung == "" {
			t.Fatalf("a switch by no means: %+v", d.Action)
		}
		if writes := d.Action.Kind == decide.Divert || d.Action.Kind == decide.Return; writes && d.Action.Rung != decide.RungLive && after.Mode.File != d.Action.Target {
			t.Fatalf("%s to %s while the mode file says %s", d.Action.Rung, d.Action.Target, after.Mode.File)
		}
	}
	if a := after.Action; a != nil && a.RolledBack && a.By != "" {
		t.Fatalf("rolled back in the name of %s", a.By)
	}
	if d.Verb == decide.Start {
		a := d.Action
		if before.Action != nil {
			t.Fatalf("%s began while %s was in progress", a.ID, before.Action.ID)
		}
		if a.By == "" && a.Kind != decide.Repin {
			forbids := []decide.Phase{decide.Paused, decide.Standby, decide.HandedOver, decide.DryRun}
			if a.Kind == decide.Divert || a.Kind == decide.Return {
				forbids = append(forbids, decide.Pinned)
			}
			for _, phase := range forbids {
				if _, ok := after.Authority.Orders[phase]; ok && after.Authority.Orders[phase].At < after.Now {
					t.Fatalf("%s began while %s: %s", a.Kind, phase, a.Reason)
				}
			}
			if len(after.Budget.Spent) == 0 || after.Budget.Spent[len(after.Budget.Spent)-1] != after.Now {
				t.Fatalf("%s was not paid for", a.Kind)
			}
		}
		if a.Reason == "" {
			t.Fatalf("no reason: %+v", a)
		}
	}
	for region, phase := range map[decide.Region]decide.Phase{
		decide.RegionMode: after.Mode.Phase, decide.RegionLiveness: after.Liveness.Phase, decide.RegionAuthority: after.Authority.Phase,
	} {
		if !slices.Contains(decide.Phases(region), phase) {
			t.Fatalf("%s is in phase %q", region, phase)
		}
	}
	moving := after.Mode.Phase == decide.Diverting || after.Mode.Phase == decide.Returning
	if moving && after.Action == nil {
		t.Fatalf("%s without an action", after.Mode.Phase)
	}
	if after.Liveness.Phase == decide.Restarting && after.Action == nil {
		t.Fatal("restarting without an action")
	}
	for _, r := range e.Rules {
		if r.Status != decide.Firing || after.Action != nil || d.Verb != decide.None {
			continue
		}
		answered := len(e.BlockedBy) > 0
		sink := r.Class == decide.SinkSick && (after.Mode.Phase == decide.Primary || after.Mode.Phase == decide.Probation) && before.Mode.Since == after.Mode.Since
		process := r.Class == decide.ProcessSick && after.Liveness.Phase == decide.Suspect && before.Liveness.Phase == decide.Suspect
		if (sink || process) && !answered {
			t.Fatalf("%s fires and nothing says why nothing is done; %s; took %v", r.Name, e.Summary, e.Taken)
		}
	}
	for _, b := range e.BlockedBy {
		if b.Text == "" || b.Guard == "" {
			t.Fatalf("block without a sentence: %+v", b)
		}
	}
}

func TestProperty_lawsHoldInAnyWeather(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, w := anyPolicy(t), newWeather()
		s := decide.NewState(p)
		var log []decide.Observation
		var decisions []string
		for range rapid.IntRange(30, 150).Draw(t, "turns") {
			o := w.draw(t)
			log = append(log, o)
			frozen := asJSON(t, s)
			next, d, e := decide.Next(p, s, o)
			if asJSON(t, s) != frozen {
				t.Fatal("Next changed the state it was given")
			}
			wantNoLaw(t, p, s, next, d, e)
			w.took(d)
			decisions = append(decisions, asJSON(t, d)+asJSON(t, e))
			s = next
		}

		// The journal replayed, through a state that went through a file each time.
		again := decide.NewState(p)
		for i, o := range log {
			var back decide.State
			if err := json.Unmarshal([]byte(asJSON(t, again)), &back); err != nil {
				t.Fatal(err)
			}
			var seen decide.Observation
			if err := json.Unmarshal([]byte(asJSON(t, o)), &seen); err != nil {
				t.Fatal(err)
			}
			var d decide.Decision
			var e decide.Explain
			again, d, e = decide.Next(p, back, seen)
			if diff := cmp.Diff(decisions[i], asJSON(t, d)+asJSON(t, e)); diff != "" {
				t.Fatalf("turn %d decided otherwise when replayed:\n%s", i, diff)
			}
		}
		if a, b := asJSON(t, s), asJSON(t, again); a != b {
			t.Fatalf("the replay ends elsewhere:\n%s", cmp.Diff(a, b))
		}
		if size := len(asJSON(t, s)); size > 32<<10 {
			t.Fatalf("the state has grown to %d bytes", size)
		}
	})
}

var actionID = regexp.MustCompile(`\d{8}T\d{6}-`)

func TestProperty_stepsOfTheWallClockChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, w := anyPolicy(t), newWeather()
		s, stepped := decide.NewState(p), decide.NewState(p)
		offset := time.Duration(0)
		for range rapid.IntRange(30, 150).Draw(t, "turns") {
			if seldom.Draw(t, "step") < 5 {
				offset = time.Duration(rapid.IntRange(-7200, 7200).Draw(t, "by")) * time.Second
			}
			o := w.draw(t)
			moved := o
			moved.Clock.Wall = o.Clock.Wall.Add(offset)
			if o.Result != nil && stepped.Action != nil && s.Action != nil && o.Result.ActionID == s.Action.ID {
				r := *o.Result
				r.ActionID = stepped.Action.ID
				moved.Result = &r
			}
			var d, dm decide.Decision
			var e, em decide.Explain
			s, d, e = decide.Next(p, s, o)
			stepped, dm, em = decide.Next(p, stepped, moved)
			w.took(d)
			plain := func(d decide.Decision, e decide.Explain) string {
				return actionID.ReplaceAllString(asJSON(t, d)+asJSON(t, e.BlockedBy)+e.Summary+e.Next, "")
			}
			if diff := cmp.Diff(plain(d, e), plain(dm, em)); diff != "" {
				t.Fatalf("a wall clock off by %s decides otherwise:\n%s", offset, diff)
			}
		}
	})
}
