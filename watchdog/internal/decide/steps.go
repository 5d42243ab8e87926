package decide

// StepInfo documents a step and what the executor owes it.
type StepInfo struct {
	Step Step
	// Ordered tells that [Next] can order the step, so that there must be an
	// executor for it, be it one that has nothing to do.
	Ordered bool
	// Reports tells that the action waits for the step's [Result].
	Reports bool
	Does    string
	// Again says why doing it twice does no harm.
	Again string
	// AfterDeath says how a watchdog goes on that died in this step.
	AfterDeath string
}

// Steps lists the steps of an action, in order.
func Steps() []StepInfo {
	return []StepInfo{
		{
			Step: Claimed, Ordered: true, Reports: true,
			Does:       "takes a restart slot from the coordinator, if there is one",
			Again:      "a slot belongs to the id of the action; the token was paid when the action began",
			AfterDeath: "goes on if the rule still fires, else ends and gives the token back",
		},
		{
			Step: Flush, Ordered: true, Reports: true,
			Does:       "asks the collector to flush and waits until it has; left out when it is dead or hung, since the spool has everything",
			Again:      "asking twice flushes twice",
			AfterDeath: "flushes again",
		},
		{
			Step: ModeWritten, Ordered: true, Reports: true,
			Does:       "writes the mode file, provided that it still has the revision the action began with",
			Again:      "a file that says so already is left alone",
			AfterDeath: "writes it, or finds its own write and goes on",
		},
		{
			Step: Switch, Ordered: true, Reports: true,
			Does:       "makes the collector follow, by the rung of the ladder that the action is on",
			Again:      "nothing is sent to a process that is another one already than when the action began",
			AfterDeath: "looks whether it happened; if not, orders it again",
		},
		{
			Step: Verify, Ordered: true,
			Does:       "nothing: whether it worked is seen in the reports, two of them over verify.hold",
			Again:      "it only looks",
			AfterDeath: "looks again",
		},
		{
			Step: Done, Ordered: true,
			Does:       "gives back the restart slot",
			Again:      "a slot is given back by the id of the action",
			AfterDeath: "the slot ends with its session",
		},
	}
}
