package decide

// Class is what a rule is about, and with it what may be done when it fires.
type Class string

// The classes of rules.
const (
	SinkSick    Class = "sink"    // the remedy is to divert, never to restart in place
	ProcessSick Class = "process" // the remedy is to restart in the same mode, never to divert
	Unsure      Class = "unsure"  // there is no remedy: people are told
)
