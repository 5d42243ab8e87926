package control

import (
	"slices"
	"strconv"
	"strings"

	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/journal"
)

// The events of the journal.
const (
	EventStart       = "start" // of the watchdog
	EventStop        = "stop"
	EventRuleWarn    = "rule_warn"
	EventRuleFire    = "rule_fire"
	EventRuleClear   = "rule_clear"
	EventActionStart = "action_start"
	EventStep        = "step"
	EventResult      = "result" // of a step
	EventActionEnd   = "action_end"
	EventMode        = "mode"
	EventLiveness    = "liveness"
	EventAuthority   = "authority"
	EventAdopt       = "adopt"
	EventBlocked     = "blocked"
	EventRemark      = "remark" // a clock was stepped, the watchdog did not run
	EventNotify      = "notify"
	EventCommand     = "command" // of a person
	EventReload      = "reload"
	EventFault       = "fault" // of the watchdog itself
	EventNote        = "note"  // written by a person
)

// scene is what one tick knew and decided.
type scene struct {
	before, after decide.State
	decision      decide.Decision
	explain       decide.Explain
	was           decide.Explain // of the tick before
	commands      []decide.Command
}

// story tells what is new in a scene, in the order in which it came about: what
// was ordered and seen, what follows for the rules, what is done, what is not.
func story(s scene) []journal.Entry {
	var told []journal.Entry
	add := func(event, sentence string, fill ...func(*journal.Entry)) {
		e := journal.Entry{Event: event, Sentence: sentence}
		for _, f := range fill {
			f(&e)
		}
		told = append(told, e)
	}
	for _, c := range s.commands {
		add(EventCommand, commandSentence(c), func(e *journal.Entry) { e.By, e.CommandID = c.By, c.ID })
	}
	for _, remark := range s.explain.Remarks {
		add(EventRemark, remark)
	}
	told = append(told, ruleChanges(s)...)
	told = append(told, actionChanges(s)...)
	region := func(event, name string, from, to decide.Phase) {
		if from != to && from != "" {
			add(event, name+" goes from "+string(from)+" to "+string(to), func(e *journal.Entry) { e.From, e.To = string(from), string(to) })
		}
	}
	region(EventMode, "the mode", s.before.Mode.Phase, s.after.Mode.Phase)
	region(EventLiveness, "the collector", s.before.Liveness.Phase, s.after.Liveness.Phase)
	region(EventAuthority, "the watchdog's authority", s.before.Authority.Phase, s.after.Authority.Phase)
	if sentences := blockSentences(s.explain); len(sentences) > 0 && !slices.Equal(guards(s.explain), guards(s.was)) {
		add(EventBlocked, strings.Join(sentences, "; "), func(e *journal.Entry) { e.BlockedBy = guards(s.explain) })
	}
	for _, n := range s.decision.Notes {
		add(EventNotify, n.Text, func(e *journal.Entry) { e.Key, e.Severity = n.Key, string(n.Severity) })
	}
	return told
}

func ruleChanges(s scene) []journal.Entry {
	var told []journal.Entry
	for _, r := range s.explain.Rules {
		before, after := s.before.Rules[r.Name], s.after.Rules[r.Name]
		event, becomes := "", ""
		switch {
		case after.Fires && !before.Fires:
			event, becomes = EventRuleFire, "fires"
		case after.Warned && !before.Warned && !after.Fires:
			event, becomes = EventRuleWarn, "warns"
		case before.Fires && !after.Fires:
			event, becomes = EventRuleClear, "has cleared"
		default:
			continue
		}
		told = append(told, journal.Entry{
			Event: event, Rule: r.Name, Value: r.Number, Threshold: r.Limit,
			EvidenceS: r.Evidence.Seconds(), ForS: r.For.Seconds(), Sentence: ruleSentence(r, becomes),
		})
	}
	return told
}

func ruleSentence(r decide.RuleView, becomes string) string {
	text := r.Name + " " + becomes
	if r.Value != "" {
		text += " at " + r.Value
		if r.Threshold != "" {
			text += " (threshold " + r.Threshold + ")"
		}
	}
	if r.Text != "" {
		text += ", " + r.Text
	}
	return text
}

func actionChanges(s scene) []journal.Entry {
	var told []journal.Entry
	about := func(event, sentence string, a *decide.Action) {
		enforced := !a.Ghost
		e := journal.Entry{
			Event: event, ActionID: a.ID, Step: string(a.Step), From: string(a.From), To: string(a.Target),
			Rule: a.Rule, By: a.By, Enforced: &enforced, Sentence: sentence,
		}
		told = append(told, e)
	}
	before, after := s.before.Action, s.after.Action
	ended := before != nil && (after == nil || after.ID != before.ID)
	if ended {
		about(EventActionEnd, endSentence(before, s), before)
	}
	switch {
	case after == nil:
	case before == nil || before.ID != after.ID:
		about(EventActionStart, after.Reason, after)
	case keyOf(*before) != keyOf(*after):
		about(EventStep, stepSentence(after), after)
	}
	if s.decision.Verb == decide.Adopt {
		told = append(told, journal.Entry{Event: EventAdopt, To: string(s.after.Mode.File), Sentence: s.decision.Reason})
	}
	return told
}

func endSentence(a *decide.Action, s scene) string {
	if strings.Contains(s.decision.Reason, a.ID) {
		return s.decision.Reason
	}
	text := string(a.Kind) + " " + a.ID + " ended"
	if past := s.after.Last; past != nil && past.ID == a.ID {
		text += ": " + string(past.End)
	}
	return text
}

func stepSentence(a *decide.Action) string {
	text := string(a.Kind) + " " + a.ID + ": now " + string(a.Step)
	if a.Step == decide.Switch || a.Step == decide.Verify {
		text += " by " + string(a.Rung)
	}
	if n := len(a.Failures); n > 0 {
		text += " (before: " + a.Failures[n-1] + ")"
	}
	return text
}

func resultEntry(f finished) journal.Entry {
	return journal.Entry{
		Event: EventResult, ActionID: f.action.ID, Step: string(f.action.Step), To: string(f.result.Outcome),
		Duration: f.took.Milliseconds(), Sentence: string(f.action.Step) + " " + string(f.result.Outcome) + ": " + f.result.Text,
	}
}

func commandSentence(c decide.Command) string {
	text := c.By + " orders " + string(c.Kind)
	if c.Mode != "" {
		text += " to " + string(c.Mode)
	}
	if c.For > 0 {
		text += " for " + c.For.String()
	}
	return text + ": " + strconv.Quote(c.Reason)
}

func blockSentences(e decide.Explain) []string {
	var list []string
	for _, b := range e.BlockedBy {
		if !slices.Contains(list, b.Text) {
			list = append(list, b.Text)
		}
	}
	return list
}

func guards(e decide.Explain) []string {
	var list []string
	for _, b := range e.BlockedBy {
		list = append(list, b.Edge+"/"+b.Guard)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
