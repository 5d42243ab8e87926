package control

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

func rules(r decide.RuleState) decide.State {
	return decide.State{Rules: map[string]decide.RuleState{"last_write_age": r}}
}

func TestStory_tellsWhatIsNew(t *testing.T) {
	divert := &decide.Action{ID: "a1", Kind: decide.Divert, Step: decide.Claimed, From: mode.Primary, Target: mode.Fallback, Reason: "Kinesis has taken nothing for 5m12s", Rule: "last_write_age"}
	at := func(step decide.Step, rung decide.Rung, failures ...string) *decide.Action {
		a := *divert
		a.Step, a.Rung, a.Failures = step, rung, failures
		return &a
	}
	with := func(a *decide.Action) decide.State { return decide.State{Action: a} }
	rule := func(before, after decide.RuleState) scene {
		return scene{before: rules(before), after: rules(after), explain: decide.Explain{Rules: []decide.RuleView{{
			Name: "last_write_age", Value: "5m12s", Threshold: "5m", Text: "bad for 30s of 30s",
			Number: 312, Limit: 300, Evidence: 30 * time.Second, For: 30 * time.Second,
		}}}}
	}
	calm, warned, fires := decide.RuleState{}, decide.RuleState{Warned: true}, decide.RuleState{Warned: true, Fires: true}
	blocked := func(guards ...string) decide.Explain {
		var e decide.Explain
		for _, g := range guards {
			e.BlockedBy = append(e.BlockedBy, decide.Block{Edge: "T2", Guard: g, Text: "blocked by " + g})
		}
		return e
	}
	cases := map[string]struct {
		scene scene
		want  []string
	}{
		"nothing": {scene{}, nil},
		"an order": {scene{commands: []decide.Command{{ID: "c", Kind: decide.CommandPin, Mode: mode.Fallback, For: time.Hour, By: "person bob", Reason: "test"}}},
			[]string{`command: person bob orders pin to fallback for 1h0m0s: "test"`}},
		"a rule fires":         {rule(warned, fires), []string{"rule_fire: last_write_age fires at 5m12s (threshold 5m), bad for 30s of 30s"}},
		"a rule warns":         {rule(calm, warned), []string{"rule_warn: last_write_age warns at 5m12s (threshold 5m), bad for 30s of 30s"}},
		"a rule stays":         {rule(fires, fires), nil},
		"a rule clears":        {rule(fires, warned), []string{"rule_clear: last_write_age has cleared at 5m12s (threshold 5m), bad for 30s of 30s"}},
		"a calm rule":          {rule(calm, calm), nil},
		"an action starts":     {scene{after: with(divert)}, []string{"action_start: Kinesis has taken nothing for 5m12s"}},
		"an action goes on":    {scene{before: with(divert), after: with(at(decide.Flush, ""))}, []string{"step: divert a1: now flush"}},
		"an action escalates":  {scene{before: with(at(decide.Switch, decide.RungRestart)), after: with(at(decide.Switch, decide.RungTerm, "no answer"))}, []string{"step: divert a1: now switch by term (before: no answer)"}},
		"an action ends":       {scene{before: with(divert), after: decide.State{Last: &decide.Past{ID: "a1", End: decide.EndVerified}}}, []string{"action_end: divert a1 ended: verified"}},
		"a ghost":              {scene{after: with(&decide.Action{ID: "g", Ghost: true, Reason: "would divert"})}, []string{"action_start: would divert"}},
		"the mode changes":     {scene{before: decide.State{Mode: decide.ModeRegion{Phase: decide.Primary}}, after: decide.State{Mode: decide.ModeRegion{Phase: decide.Diverting}}}, []string{"mode: the mode goes from primary to diverting"}},
		"blocked":              {scene{explain: blocked("paused", "paused")}, []string{"blocked: blocked by paused"}},
		"blocked as before":    {scene{was: blocked("paused"), explain: blocked("paused")}, nil},
		"blocked by more":      {scene{was: blocked("paused"), explain: blocked("paused", "no_tokens")}, []string{"blocked: blocked by paused; blocked by no_tokens"}},
		"people are told":      {scene{decision: decide.Decision{Notes: []decide.Note{{Key: "k", Severity: decide.Page, Text: "both sinks fail"}}}}, []string{"notify: both sinks fail"}},
		"a clock was stepped":  {scene{explain: decide.Explain{Remarks: []string{"the wall clock was stepped by 1h"}}}, []string{"remark: the wall clock was stepped by 1h"}},
		"somebody else switch": {scene{decision: decide.Decision{Verb: decide.Adopt, Reason: "alice switched"}}, []string{"adopt: alice switched"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range story(c.scene) {
				got = append(got, e.Event+": "+e.Sentence)
				if strings.TrimSpace(e.Sentence) == "" {
					t.Errorf("%s has no sentence", e.Event)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStory_marksWhatADryRunOnlyImagines(t *testing.T) {
	entries := story(scene{after: decide.State{Action: &decide.Action{ID: "g", Ghost: true, Reason: "would divert"}}})
	if len(entries) != 1 || entries[0].Enforced == nil || *entries[0].Enforced {
		t.Errorf("got %+v", entries)
	}
}
