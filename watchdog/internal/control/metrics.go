package control

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

const prefix = "spillway_watchdog_"

// metrics counts what happens and shows what the last tick knew. The gauges are
// read from one snapshot, so that a scrape never sees half of a change.
type metrics struct {
	decisions     *prometheus.CounterVec
	actions       *prometheus.CounterVec
	steps         *prometheus.HistogramVec
	notes         *prometheus.CounterVec
	timeInMode    *prometheus.CounterVec
	clockSteps    prometheus.Counter
	journalErrors prometheus.Counter
	saveErrors    prometheus.Counter
	ticks         prometheus.Counter
}

func newMetrics(r prometheus.Registerer, snapshot func() *Snapshot) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	m := &metrics{
		decisions: vec("decisions_total", "Actions decided; enforced is false in a dry run.", "action", "rule", "enforced"),
		actions:   vec("actions_total", "Actions that ended, by how.", "kind", "result"),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "action_step_duration_seconds", Help: "How long the steps of actions took.",
			Buckets: []float64{.01, .1, .5, 1, 2, 5, 10, 20, 30, 60, 120},
		}, []string{"kind", "step"}),
		notes:         vec("notes_total", "What people were told, by severity.", "severity"),
		timeInMode:    vec("time_in_mode_seconds_total", "Time observed in each mode.", "mode"),
		clockSteps:    counter("clock_step_seconds_total", "How far the wall clock was stepped, in sum, without sign."),
		journalErrors: counter("journal_errors_total", "Journal entries that could not be written."),
		saveErrors:    counter("state_save_errors_total", "Times the state could not be saved; nothing is done then."),
		ticks:         counter("ticks_total", "Rounds of the loop."),
	}
	for _, kind := range []decide.Kind{decide.Divert, decide.Return, decide.RestartSame, decide.Reconcile} {
		for _, end := range []decide.End{decide.EndVerified, decide.EndAborted, decide.EndFailed} {
			m.actions.WithLabelValues(string(kind), string(end))
		}
	}
	for _, md := range []mode.Mode{mode.Primary, mode.Fallback} {
		m.timeInMode.WithLabelValues(string(md))
	}
	if r != nil {
		r.MustRegister(m.decisions, m.actions, m.steps, m.notes, m.timeInMode,
			m.clockSteps, m.journalErrors, m.saveErrors, m.ticks, gauges{snapshot})
	}
	return m
}

func (m *metrics) step(f finished) {
	m.steps.WithLabelValues(string(f.action.Kind), string(f.action.Step)).Observe(f.took.Seconds())
}

func (m *metrics) journaled(err error) {
	if err != nil {
		m.journalErrors.Inc()
	}
}

func (m *metrics) saved(err error) {
	if err != nil {
		m.saveErrors.Inc()
	}
}

func (m *metrics) count(s scene, o decide.Observation) {
	m.ticks.Inc()
	if s.decision.Verb == decide.Start && s.decision.Action != nil {
		a := s.decision.Action
		m.decisions.WithLabelValues(string(a.Kind), a.Rule, strconv.FormatBool(!a.Ghost)).Inc()
	}
	if past := s.after.Last; past != nil && (s.before.Last == nil || s.before.Last.ID != past.ID) {
		m.actions.WithLabelValues(string(past.Kind), string(past.End)).Inc()
	}
	for _, n := range s.decision.Notes {
		m.notes.WithLabelValues(string(n.Severity)).Inc()
	}
	was := s.before.Clock
	if was.BootID != o.Clock.BootID || was.Wall.IsZero() {
		return
	}
	passed := o.Clock.SinceBoot - was.SinceBoot
	// The wall clock read without Go's monotonic reading: its steps are meant.
	stepped := o.Clock.Wall.Round(0).Sub(was.Wall.Round(0)) - passed
	if stepped.Abs() > clockStep {
		m.clockSteps.Add(stepped.Abs().Seconds())
	}
	if o.Report != nil && passed > 0 && passed < 3*o.Expected {
		m.timeInMode.WithLabelValues(o.Report.Mode).Add(passed.Seconds())
	}
}

// gauges shows a snapshot at each scrape.
type gauges struct{ snapshot func() *Snapshot }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

var (
	descMode       = desc("mode", "1 for the mode that the mode file names.", "mode")
	descPhase      = desc("phase", "1 for the phase each region of the state is in.", "region", "phase")
	descAuthority  = desc("authority", "1 for who may act now.", "kind")
	descDrift      = desc("mode_drift", "1 while the collector runs another mode than the mode file names.")
	descBlocked    = desc("blocked", "1 for each reason that keeps a wanted act from being done.", "by")
	descRuleValue  = desc("rule_value", "What a rule looks at, in base units.", "rule")
	descRuleLimit  = desc("rule_threshold", "The threshold of a rule, in base units.", "rule")
	descRuleFilled = desc("rule_evidence_seconds", "Bad seconds a rule has seen, less good ones.", "rule")
	descRuleFor    = desc("rule_for_seconds", "Bad seconds a rule wants before it fires.", "rule")
	descRuleState  = desc("rule_state", "1 for the state of each rule.", "rule", "state")
	descTokens     = desc("budget_tokens", "Acts the budget still has.")
	descFlaps      = desc("flaps", "Times the box went back and forth, forgotten with time.")
	descHold       = desc("hold_remaining_seconds", "How long no return is tried yet.")
	descReportAt   = desc("last_report_timestamp_seconds", "When the last good health report was seen.")
	descTickAt     = desc("last_tick_timestamp_seconds", "When the loop last came round.")
	descLag        = desc("tick_lag_seconds", "How much later than planned the last round came.")
)

// Describe implements prometheus.Collector.
func (gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descMode, descPhase, descAuthority, descDrift, descBlocked, descRuleValue, descRuleLimit, descRuleFilled,
		descRuleFor, descRuleState, descTokens, descFlaps, descHold, descReportAt, descTickAt, descLag,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	snap := g.snapshot()
	show := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	one := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	s := snap.State
	for _, m := range []mode.Mode{mode.Primary, mode.Fallback} {
		show(descMode, one(s.Mode.File == m), string(m))
	}
	for region, phases := range regions {
		for _, p := range phases.all {
			show(descPhase, one(phases.of(s) == p), region, string(p))
		}
	}
	for _, p := range regions["authority"].all {
		show(descAuthority, one(s.Authority.Phase == p), string(p))
	}
	show(descTokens, float64(s.Budget.Tokens))
	show(descFlaps, float64(s.Mode.Flaps))
	show(descHold, max(0, s.Mode.HoldUntil.Sub(s.Now)).Seconds())
	if snap.At.IsZero() {
		return // nothing was observed yet
	}
	show(descTickAt, float64(snap.At.UnixMilli())/1000)
	if r := snap.LastReport; r != nil {
		show(descDrift, one(s.Mode.File != "" && r.Mode != string(s.Mode.File)))
		show(descReportAt, float64(snap.LastReportAt.UnixMilli())/1000)
	}
	show(descLag, snap.Lag.Seconds())
	var blocked []string
	for _, b := range snap.Explain.BlockedBy {
		if !slices.Contains(blocked, b.Guard) {
			blocked = append(blocked, b.Guard)
			show(descBlocked, 1, b.Guard)
		}
	}
	for _, r := range snap.Explain.Rules {
		show(descRuleValue, r.Number, r.Name)
		show(descRuleLimit, r.Limit, r.Name)
		show(descRuleFilled, r.Evidence.Seconds(), r.Name)
		show(descRuleFor, r.For.Seconds(), r.Name)
		for _, st := range []decide.Status{decide.Clear, decide.Warn, decide.Firing, decide.Unknown, decide.Off} {
			show(descRuleState, one(r.Status == st), r.Name, string(st))
		}
	}
}

// regions lists the phases of each region of the state.
var regions = map[string]struct {
	all []decide.Phase
	of  func(decide.State) decide.Phase
}{
	"mode": {
		[]decide.Phase{decide.Primary, decide.Diverting, decide.Fallback, decide.Returning, decide.Probation},
		func(s decide.State) decide.Phase { return s.Mode.Phase },
	},
	"liveness": {
		[]decide.Phase{decide.Up, decide.Suspect, decide.Restarting, decide.Settling, decide.Down},
		func(s decide.State) decide.Phase { return s.Liveness.Phase },
	},
	"authority": {
		[]decide.Phase{decide.Auto, decide.DryRun, decide.Held, decide.Pinned, decide.Paused, decide.Standby, decide.HandedOver},
		func(s decide.State) decide.Phase { return s.Authority.Phase },
	},
}
