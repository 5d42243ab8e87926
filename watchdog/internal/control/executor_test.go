package control

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
	"spillway/watchdog/internal/remedy/live"
	"spillway/watchdog/internal/remedy/signal"
)

func executor(c *collectortest.Collector) *Executor {
	return &Executor{
		Admin: c.Admin, Restarter: signal.Restarter{}, Live: live.New(c.Admin), Signals: remedy.Direct{},
		ModePath: c.Options.ModeFile, Name: "watchdog test", Patience: time.Second,
	}
}

func report(t *testing.T, c *collectortest.Collector) *healthapi.Report {
	t.Helper()
	return c.Await("it answers", func(*healthapi.Report) bool { return true })
}

func TestExecutor_knowsEveryStepAndRungThatCanBeOrdered(t *testing.T) {
	c := collectortest.Start(t, true, collectortest.Options{})
	for _, s := range decide.Steps() {
		a := decide.Action{ID: "a1", Step: s.Step, Rung: decide.RungLive, Target: mode.Fallback, Reason: "x"}
		if r := executor(c).Do(t.Context(), a, process.Identity{}); s.Ordered && r.Outcome != decide.StepOK {
			t.Errorf("%s: got %+v", s.Step, r)
		}
	}
	if r := executor(c).Do(t.Context(), decide.Action{Step: "dance"}, process.Identity{}); r.Outcome != decide.StepFailed {
		t.Errorf("an unknown step: got %+v", r)
	}
}

func TestExecutor_aHungCollectorCostsItsRestartNoTime(t *testing.T) {
	c := collectortest.Start(t, true, collectortest.Options{})
	before := report(t, c)
	if err := c.Process().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := executor(c).Do(ctx, decide.Action{Kind: decide.RestartSame, Step: decide.Switch, Rung: decide.RungRestart, Target: mode.Primary, BaseBootID: before.BootID}, remedy.ProcessOf(before))
	if r.Outcome != decide.StepOK {
		t.Errorf("got %+v", r)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestExecutor_writesTheModeFileOnce(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	e := executor(c)
	a := decide.Action{ID: "a1", Step: decide.ModeWritten, Target: mode.Fallback, Reason: "a test"}
	for what, rev := range map[string]int64{"first": 1, "again, as after a crash": 1} {
		r := e.Do(t.Context(), a, process.Identity{})
		if r.Outcome != decide.StepOK || r.File.Rev != rev || r.File.Mode != mode.Fallback || r.File.By != "watchdog test" {
			t.Errorf("%s: got %+v", what, r)
		}
	}
}

func TestExecutor_neverOverwritesWhatAPersonWrote(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	c.SetMode(mode.File{Mode: mode.Primary, By: "person alice", Reason: "no"})
	r := executor(c).Do(t.Context(), decide.Action{ID: "a1", Step: decide.ModeWritten, Target: mode.Fallback, Reason: "a test"}, process.Identity{})
	if r.Outcome != decide.StepConflict || !strings.Contains(r.Text, "person alice") || r.File.By != "person alice" {
		t.Errorf("got %+v", r)
	}
	if file, err := mode.Read(c.Options.ModeFile); err != nil || file.By != "person alice" {
		t.Errorf("the file says %+v, %v", file, err)
	}
}

func TestExecutor_writesThePinInThePersonsName(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	r := executor(c).Do(t.Context(), decide.Action{ID: "a1", Step: decide.ModeWritten, Target: mode.Fallback, Pinned: true, By: "person bob", Reason: "drill"}, process.Identity{})
	if r.Outcome != decide.StepOK || !r.File.Pinned || r.File.By != "person bob" || r.File.Reason != "drill" {
		t.Errorf("got %+v", r)
	}
}

func TestExecutor_saysWhyTheModeFileCannotBeWritten(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	e := executor(c)
	e.ModePath = "/proc/no/mode.json"
	r := e.Do(t.Context(), decide.Action{ID: "a1", Step: decide.ModeWritten, Target: mode.Fallback, Reason: "x"}, process.Identity{})
	if r.Outcome != decide.StepFailed || r.Text == "" {
		t.Errorf("got %+v", r)
	}
}

func TestExecutor_switchesByEveryRung(t *testing.T) {
	for _, rung := range []decide.Rung{decide.RungLive, decide.RungRestart, decide.RungTerm, decide.RungKill, decide.RungRollBack} {
		t.Run(string(rung), func(t *testing.T) {
			c := collectortest.Start(t, true, collectortest.Options{})
			before := report(t, c)
			c.SetMode(mode.File{Mode: mode.Fallback, By: "watchdog test", Reason: "x"})
			a := decide.Action{ID: "a1", Kind: decide.Divert, Step: decide.Switch, Rung: rung, Target: mode.Fallback, BaseBootID: before.BootID, Reason: "x"}
			r := executor(c).Do(t.Context(), a, remedy.ProcessOf(before))
			if r.Outcome != decide.StepOK || r.Text == "" || r.ActionID != "a1" || r.Rung != rung {
				t.Fatalf("got %+v", r)
			}
			after := c.Await("it runs the fallback", func(r *healthapi.Report) bool { return r.Mode == "fallback" })
			if sameBoot := after.BootID == before.BootID; sameBoot != (rung == decide.RungLive) {
				t.Errorf("same process: %v", sameBoot)
			}
		})
	}
}

func TestExecutor_sendsNothingWhenItIsDoneAlready(t *testing.T) {
	c := collectortest.Start(t, true, collectortest.Options{})
	before := report(t, c)
	c.SetMode(mode.File{Mode: mode.Fallback, By: "watchdog test", Reason: "x"})
	a := decide.Action{ID: "a1", Kind: decide.Divert, Step: decide.Switch, Rung: decide.RungRestart, Target: mode.Fallback, BaseBootID: before.BootID, Reason: "x"}
	e := executor(c)
	if r := e.Do(t.Context(), a, remedy.ProcessOf(before)); r.Outcome != decide.StepOK {
		t.Fatalf("got %+v", r)
	}
	c.Await("it runs the fallback", func(r *healthapi.Report) bool { return r.Mode == "fallback" })
	r := e.Do(t.Context(), a, remedy.ProcessOf(before)) // as a watchdog does that died before it heard of it
	if r.Outcome != decide.StepOK || !strings.Contains(r.Text, "restarted already") {
		t.Errorf("got %+v", r)
	}
	if n := c.Starts(); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

func TestExecutor_aRungThatCannotBeUsedFails(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	for _, a := range []decide.Action{
		{Step: decide.Switch, Rung: "prayer"},
		{Step: decide.Switch, Rung: ""},
		{Step: decide.Switch, Rung: decide.RungLive, Kind: decide.RestartSame},
	} {
		if r := executor(c).Do(t.Context(), a, process.Identity{}); r.Outcome != decide.StepFailed || !strings.Contains(r.Text, "cannot be used here") {
			t.Errorf("%s: got %+v", a.Rung, r)
		}
	}
}

// A signal starts nothing: the supervisor is waited for.
func TestExecutor_aStartThatIsNotInItsPowerIsLeftToTheSupervisor(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	for _, rung := range []decide.Rung{decide.RungStart, decide.RungRollBack} {
		e := executor(c)
		e.Admin = silent{c.Admin}
		r := e.Do(t.Context(), decide.Action{Kind: decide.Divert, Step: decide.Switch, Rung: rung, Target: mode.Fallback}, process.Identity{})
		if r.Outcome != decide.StepSkipped || !strings.Contains(r.Text, "supervisor has to") {
			t.Errorf("%s: got %+v", rung, r)
		}
	}
	if c.Starts() != 1 {
		t.Errorf("%d starts", c.Starts())
	}
}

func TestExecutor_startsNothingBesideADyingProcess(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{DiesSlowly: true})
	id := c.Identity()
	if err := c.Process().Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	collectortest.Await(t, "it is dying", func() bool { stat, err := id.Check(); return err == nil && stat.Dying })
	e := executor(c)
	e.Admin = silent{c.Admin}
	e.Restarter = starter{t: t}
	r := e.Do(t.Context(), decide.Action{Kind: decide.RestartSame, Step: decide.Switch, Rung: decide.RungStart, Target: mode.Primary}, id)
	if r.Outcome != decide.StepFailed || !strings.Contains(r.Text, "is dying") {
		t.Errorf("got %+v", r)
	}
}

// starter must not be asked to start anything.
type starter struct {
	signal.Restarter
	t *testing.T
}

func (s starter) Start(context.Context, remedy.Order) (string, error) {
	s.t.Error("a collector was started")
	return "", nil
}

// silent is a collector that does not answer.
type silent struct{ remedy.Admin }

func (silent) Report(context.Context) (*healthapi.Report, error) {
	return nil, syscall.ECONNREFUSED
}

func TestExecutor_rollsNothingBackInAProcessThatRunsTheModeAlready(t *testing.T) {
	c := collectortest.Start(t, true, collectortest.Options{})
	before := report(t, c)
	for what, a := range map[string]decide.Action{
		"the process of before": {BaseBootID: before.BootID},
		"one that was started":  {BaseBootID: "another"},
		"one never seen before": {},
	} {
		a.ID, a.Kind, a.Step, a.Rung, a.Target = "a1", decide.Divert, decide.Switch, decide.RungRollBack, mode.Primary
		r := executor(c).Do(t.Context(), a, remedy.ProcessOf(before))
		if r.Outcome != decide.StepOK || c.Starts() != 1 {
			t.Errorf("%s: got %+v and %d starts", what, r, c.Starts())
		}
	}
	if now := report(t, c); now.BootID != before.BootID {
		t.Error("a healthy process was ended")
	}
}

// canceled is a supervisor that a person gave another order.
type canceled struct{ signal.Restarter }

func (canceled) Switch(context.Context, remedy.Order) (string, error) {
	return "", errors.Join(errors.New("the job was canceled"), remedy.ErrCanceled)
}

func (canceled) Check(context.Context, process.Identity) error { return nil }

func TestExecutor_aPersonsOrderToTheSupervisorIsAConflict(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	e := executor(c)
	e.Restarter = canceled{}
	if r := e.Do(t.Context(), decide.Action{Step: decide.Switch, Rung: decide.RungRestart}, process.Identity{}); r.Outcome != decide.StepConflict {
		t.Errorf("got %+v", r)
	}
}

func TestExecutor_flushIsSkippedWithAReasonWhenNobodyAnswers(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	e := executor(c)
	if _, err := remedy.Kill(t.Context(), remedy.Direct{}, c.Identity()); err != nil {
		t.Fatal(err)
	}
	r := e.Do(t.Context(), decide.Action{Step: decide.Flush}, process.Identity{})
	if r.Outcome != decide.StepSkipped || !strings.HasPrefix(r.Text, "no flush: ") {
		t.Errorf("got %+v", r)
	}
}
