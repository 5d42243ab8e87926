package control

import (
	"slices"

	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/journal"
)

// tell writes what is new to the journal and to the log, and hands on notes.
func (l *Loop) tell(s scene, first bool) {
	entries := story(s)
	if first && s.before.Action != nil {
		entries = slices.Insert(entries, 0, journal.Entry{
			Event: EventRemark, ActionID: s.before.Action.ID, Step: string(s.before.Action.Step),
			Sentence: "found an unfinished " + string(s.before.Action.Kind) + " at step " + string(s.before.Action.Step),
		})
	}
	for _, e := range entries {
		l.record(e)
		l.say(e, anyFires(s.after))
	}
	for _, n := range s.decision.Notes {
		if l.opts.Notify != nil {
			l.opts.Notify(n)
		}
	}
}

func anyFires(s decide.State) bool {
	for _, r := range s.Rules {
		if r.Fires {
			return true
		}
	}
	return false
}

// say writes an entry to the log; alarm makes it louder that something is not done.
func (l *Loop) say(e journal.Entry, alarm bool) {
	entry := l.log.WithField("event", e.Event)
	for name, value := range map[string]string{"action": e.ActionID, "step": e.Step, "rule": e.Rule, "by": e.By, "key": e.Key} {
		if value != "" {
			entry = entry.WithField(name, value)
		}
	}
	switch {
	case e.Severity == string(decide.Page):
		entry.Error(e.Sentence)
	case e.Severity == string(decide.Warning), e.Event == EventRuleFire, e.Event == EventBlocked && alarm:
		entry.Warn(e.Sentence)
	default:
		entry.Info(e.Sentence)
	}
}

// record appends to the journal. A journal that cannot be written is said, and
// does not keep the watchdog from protecting the collector: what it must
// remember is in the state.
func (l *Loop) record(e journal.Entry) {
	clock := l.opts.Clock()
	e.At, e.Boot = clock.Wall.UTC(), clock.BootID
	err := l.opts.Journal.Append(e)
	l.metrics.journaled(err)
	l.fault("journal", err, "the journal cannot be written, decisions are in this log only", "the journal can be written again")
}

// Note tells something that is not of the loop's own making: the start of the
// watchdog, a new policy, a person's note. It may be called while Run runs.
func (l *Loop) Note(event, by, sentence string) error {
	clock := l.opts.Clock()
	e := journal.Entry{At: clock.Wall.UTC(), Boot: clock.BootID, Event: event, By: by, Sentence: sentence}
	l.say(e, false)
	return l.opts.Journal.Append(e)
}

// fault says a trouble of the watchdog itself when it begins, changes and ends.
func (l *Loop) fault(what string, err error, begins, ends string) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch was := l.faults[what]; {
	case text == was:
	case text == "":
		l.log.WithField("event", EventFault).Info(ends)
	default:
		l.log.WithField("event", EventFault).WithError(err).Error(begins)
	}
	l.faults[what] = text
}
