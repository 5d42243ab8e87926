package decide

import (
	"strings"

	"spillway/shared/mode"
)

// handle takes an order of a person. A switch or a pin waits in the state until
// it is its turn; the others are carried out at once.
func (t *turn) handle(c Command) {
	if why := c.wrong(); why != "" {
		t.note("command/"+c.ID, Warning, "refused: %s", why)
		return
	}
	if c.Kind == CommandSwitch || c.Kind == CommandPin {
		if p := t.s.Pending; p != nil && p.ID != c.ID {
			t.note("command/"+p.ID, Warning, "not carried out: %s ordered something else before its turn came", c.By)
		}
		t.s.Pending = &c
		return
	}
	t.command, t.answer = &c, ""
	t.run(commandEdges)
	t.command = nil
	if t.answer == "" {
		t.answer = "there was nothing to do"
	}
	t.note("command/"+c.ID, Info, "%s ordered %s (%s): %s", c.By, c.Kind, c.Reason, t.answer)
}

// wrong says why a command cannot be understood; empty when it can.
func (c Command) wrong() string {
	if strings.TrimSpace(c.By) == "" || strings.TrimSpace(c.Reason) == "" {
		return "an order needs a name and a reason"
	}
	if c.For < 0 {
		return "it lasts less than no time"
	}
	switch c.Kind {
	case CommandPause, CommandResume, CommandAck, CommandDryRun:
		return ""
	case CommandSwitch, CommandPin:
		if _, err := mode.Parse(string(c.Mode)); err != nil {
			return err.Error()
		}
		return ""
	}
	return "there is no order called " + string(c.Kind)
}

// pins tells whether the order also forbids to change the mode again.
func (c Command) pins() bool { return c.Kind == CommandPin || c.For > 0 }
