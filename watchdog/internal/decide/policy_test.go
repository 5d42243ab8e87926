package decide_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/shared/configfile"
	"spillway/watchdog/internal/decide"
)

func TestPolicy_defaultIsValidAndFitsTheUsualUnit(t *testing.T) {
	p := decide.DefaultPolicy()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	usual := decide.Surroundings{
		WatchdogSec: 30 * time.Second, TimeoutAbort: 20 * time.Second,
		TimeoutStop: 45 * time.Second, StartLimitBurst: 10, StartLimitInterval: 10 * time.Minute,
		SessionTTL: 30 * time.Second, SessionRenew: 10 * time.Second,
	}
	if found := p.Check(usual); len(found) > 0 {
		t.Fatalf("%+v", found)
	}
}

func TestPolicy_Validate_namesTheKey(t *testing.T) {
	for key, spoil := range map[string]func(*decide.Policy){
		"scope":                           func(p *decide.Policy) { p.Scope = "galaxy" },
		"poll.timeout":                    func(p *decide.Policy) { p.Poll.Timeout = p.Poll.Interval },
		"poll.interval":                   func(p *decide.Policy) { p.Poll.Interval = 0 },
		"restart.timeout":                 func(p *decide.Policy) { p.Restart.Timeout = 0 },
		"settle":                          func(p *decide.Policy) { p.Settle = -1 },
		"recover.for":                     func(p *decide.Policy) { p.Recover.For = p.Recover.MinHold },
		"recover.early_for":               func(p *decide.Policy) { p.Recover.EarlyFor = time.Hour },
		"recover.max_hold":                func(p *decide.Policy) { p.Recover.MaxHold = time.Second },
		"budget.tokens":                   func(p *decide.Policy) { p.Budget.Tokens = 0 },
		"budget.per_hour":                 func(p *decide.Policy) { p.Budget.PerHour = 0 },
		"budget.reserve":                  func(p *decide.Policy) { p.Budget.Reserve = 3 },
		"crash_loop.starts":               func(p *decide.Policy) { p.CrashLoop.Starts = 1 },
		"escape.percent":                  func(p *decide.Policy) { p.Escape.Percent = 101 },
		"restart.ladder":                  func(p *decide.Policy) { p.Restart.Ladder = nil },
		"rules.hysteresis":                func(p *decide.Policy) { p.Rules.Hysteresis = 1 },
		"rules.warn":                      func(p *decide.Policy) { p.Rules.Warn = 1 },
		"rules.drain":                     func(p *decide.Policy) { p.Rules.Drain = 0 },
		"rules.min_samples":               func(p *decide.Policy) { p.Rules.MinSamples = 0 },
		"rules.last_write_age.for":        func(p *decide.Policy) { p.Rules.LastWriteAge.For = -1 },
		"rules.backlog_bytes.percent":     func(p *decide.Policy) { p.Rules.BacklogBytes.Percent = 120 },
		"rules.backlog_events.threshold":  func(p *decide.Policy) { p.Rules.BacklogEvents.Threshold = -1 },
		"rules.seconds_to_full.long":      func(p *decide.Policy) { p.Rules.SecondsToFull.Long = time.Second },
		"rules.seconds_to_full.threshold": func(p *decide.Policy) { p.Rules.SecondsToFull.Threshold = -1 },
	} {
		t.Run(key, func(t *testing.T) {
			p := decide.DefaultPolicy()
			spoil(&p)
			err := p.Validate()
			if err == nil || !strings.Contains("\n"+err.Error(), "\n"+key+": ") {
				t.Fatalf("got %v, want a line about %s", err, key)
			}
		})
	}
}

func TestPolicy_Validate_ladder(t *testing.T) {
	for name, ladder := range map[string][]decide.Rung{
		"unknown":             {"prayer"},
		"twice":               {decide.RungRestart, decide.RungRestart},
		"roll back not last":  {decide.RungRollBack, decide.RungKill},
		"roll back, no means": {},
	} {
		p := decide.DefaultPolicy()
		p.Restart.Ladder = ladder
		if p.Validate() == nil {
			t.Errorf("%s: %v was taken", name, ladder)
		}
	}
}

func TestPolicy_Check_findsWhatDoesNotFit(t *testing.T) {
	minute := time.Minute
	for invariant, tc := range map[string]struct {
		around decide.Surroundings
		spoil  func(*decide.Policy)
		refuse bool
	}{
		"I2": {around: decide.Surroundings{WatchdogSec: 2 * minute}},
		"I3": {around: decide.Surroundings{TimeoutStop: 40 * time.Second}, refuse: true},
		"I4": {around: decide.Surroundings{TimeoutStop: minute, TimeoutStart: minute}},
		"I5": {around: decide.Surroundings{Kubernetes: true}, spoil: func(p *decide.Policy) { p.Recover.MinHold = 6 * minute }, refuse: true},
		"I6": {around: decide.Surroundings{SessionTTL: 20 * time.Second, SessionRenew: 10 * time.Second}, refuse: true},
		"I7": {around: decide.Surroundings{StartLimitBurst: 5, StartLimitInterval: time.Hour}},
		"I8": {around: decide.Surroundings{SlotWait: time.Hour}},
	} {
		t.Run(invariant, func(t *testing.T) {
			p := decide.DefaultPolicy()
			if tc.spoil != nil {
				tc.spoil(&p)
			}
			found := p.Check(tc.around)
			if len(found) != 1 || found[0].Invariant != invariant || found[0].Refuse != tc.refuse || found[0].Key == "" || len(found[0].Text) < 30 {
				t.Fatalf("%+v", found)
			}
		})
	}
	if found := decide.DefaultPolicy().Check(decide.Surroundings{LivenessFor: 2 * minute}); len(found) != 1 || found[0].Invariant != "I2" {
		t.Fatalf("%+v", found)
	}
}

func TestPolicy_isReadFromYAML(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.yaml")
	text := `
scope: cluster
poll: {interval: 1s, timeout: 500ms}
restart: {ladder: [live, restart]}
recover: {for: 3s, early_for: 2s, min_hold: 5s}
rules:
  last_write_age: {threshold: 2s, for: 1s}
  backlog_bytes: {percent: 0, bytes: 5GiB}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := configfile.Load(path, decide.DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	want := decide.DefaultPolicy()
	want.Scope = decide.ScopeCluster
	want.Poll = decide.Poll{Interval: time.Second, Timeout: 500 * time.Millisecond}
	want.Restart.Ladder = []decide.Rung{decide.RungLive, decide.RungRestart}
	want.Recover.For, want.Recover.EarlyFor, want.Recover.MinHold = 3*time.Second, 2*time.Second, 5*time.Second
	want.Rules.LastWriteAge = decide.AgeRule{Threshold: 2 * time.Second, For: time.Second}
	want.Rules.BacklogBytes.Percent, want.Rules.BacklogBytes.Bytes = 0, 5*configfile.GiB
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// Every field can be set in YAML, and is written to the journal.
func TestPolicy_everyFieldHasItsNames(t *testing.T) {
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for f := range typ.Fields() {
			if f.Tag.Get("yaml") == "" || f.Tag.Get("yaml") != f.Tag.Get("json") {
				t.Errorf("%s.%s: yaml %q, json %q", typ, f.Name, f.Tag.Get("yaml"), f.Tag.Get("json"))
			}
			if f.Type.Kind() == reflect.Struct {
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[decide.Policy]())
}
