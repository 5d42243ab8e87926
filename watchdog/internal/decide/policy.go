package decide

import (
	"time"

	"spillway/shared/configfile"
)

// Scope says who decides the mode of this box.
type Scope string

// The scopes.
const (
	ScopeBox     Scope = "box"     // this watchdog alone
	ScopeCluster Scope = "cluster" // the boxes together, through a coordinator
)

// Policy is what operators tune. Every duration may be as short as a second.
type Policy struct {
	// Scope is box (default) or cluster.
	Scope Scope `yaml:"scope" json:"scope"`
	// DryRun decides, counts and tells, but never acts. Default false.
	DryRun bool `yaml:"dry_run" json:"dry_run"`
	// Poll is how the health report is asked for.
	Poll Poll `yaml:"poll" json:"poll"`
	// StartupGrace is how long after a start without memory, and after a start
	// while the collector has never answered, nothing is done. Default 60s.
	StartupGrace time.Duration `yaml:"startup_grace" json:"startup_grace"`
	// Settle is how long after any start of the collector, whoever started it,
	// nothing is concluded from how it behaves. Default 30s.
	Settle time.Duration `yaml:"settle" json:"settle"`
	// Patience is how long the supervisor may be at restarting before people are
	// told. The watchdog does not interfere meanwhile. Default 5m.
	Patience time.Duration `yaml:"patience" json:"patience"`
	// Flush is the first step of an action: deliver what can be delivered.
	Flush FlushPolicy `yaml:"flush" json:"flush"`
	// Restart is the step that makes the collector run another mode, or anew.
	Restart RestartPolicy `yaml:"restart" json:"restart"`
	// Verify is the step that looks whether it helped.
	Verify VerifyPolicy `yaml:"verify" json:"verify"`
	// Recover is when and how to go back to the primary.
	Recover RecoverPolicy `yaml:"recover" json:"recover"`
	// Flap is what counts as going back and forth.
	Flap FlapPolicy `yaml:"flap" json:"flap"`
	// Budget limits how often the watchdog acts on its own.
	Budget BudgetPolicy `yaml:"budget" json:"budget"`
	// Pause is about pauses that people order.
	Pause PausePolicy `yaml:"pause" json:"pause"`
	// HandedOver is when the watchdog takes over again what it gave to people.
	HandedOver HandedOverPolicy `yaml:"handed_over" json:"handed_over"`
	// CrashLoop is when starts that are not the watchdog's count as a crash loop.
	CrashLoop CrashLoopPolicy `yaml:"crash_loop" json:"crash_loop"`
	// Escape is when a box may divert alone though the coordinator is lost.
	Escape EscapePolicy `yaml:"escape" json:"escape"`
	// Rules are the rules and their thresholds.
	Rules Rules `yaml:"rules" json:"rules"`
}

// Poll is how the health report is asked for.
type Poll struct {
	// Interval between polls. Default 5s.
	Interval time.Duration `yaml:"interval" json:"interval"`
	// Timeout of one poll; shorter than Interval. Default 2s.
	Timeout time.Duration `yaml:"timeout" json:"timeout"`
}

// FlushPolicy is about the flush before a switch.
type FlushPolicy struct {
	// Timeout is how long to wait for the flush; the rest is safe in the spool.
	// Default 30s; 0 skips the flush.
	Timeout time.Duration `yaml:"timeout" json:"timeout"`
}

// RestartPolicy is about switching and restarting.
type RestartPolicy struct {
	// Timeout of one rung of the ladder, from the order until the collector is
	// verified in the wanted mode, less Verify.Hold. Default 60s.
	Timeout time.Duration `yaml:"timeout" json:"timeout"`
	// StopTimeout is how long the collector may take to stop after TERM. Default 10s.
	StopTimeout time.Duration `yaml:"stop_timeout" json:"stop_timeout"`
	// Ladder lists the means in the order they are tried, each once. Default
	// restart, term, kill, start, roll_back; in Kubernetes put live first.
	Ladder []Rung `yaml:"ladder" json:"ladder"`
}

// VerifyPolicy is about believing that a switch worked.
type VerifyPolicy struct {
	// Hold is how long, and over at least two samples, the collector must be seen
	// in the wanted mode. Default 10s.
	Hold time.Duration `yaml:"hold" json:"hold"`
}

// RecoverPolicy is about going back to the primary.
type RecoverPolicy struct {
	// For is how long the collector's probes of the primary must all be good. Default 5m.
	For time.Duration `yaml:"for" json:"for"`
	// EarlyFor is the same when the fallback fails too; then no hold is waited for. Default 60s.
	EarlyFor time.Duration `yaml:"early_for" json:"early_for"`
	// Stale is how old the last good probe may be. Default 2m.
	Stale time.Duration `yaml:"stale" json:"stale"`
	// MinHold is how long to stay in fallback at least; doubled for every flap. Default 10m.
	MinHold time.Duration `yaml:"min_hold" json:"min_hold"`
	// MaxHold is the longest hold. Default 4h.
	MaxHold time.Duration `yaml:"max_hold" json:"max_hold"`
	// MaxBacklog is how many seconds of traffic may wait when going back. Default 5m.
	MaxBacklog time.Duration `yaml:"max_backlog" json:"max_backlog"`
	// Probation is how long after a return the outage is not yet called over. Default 10m.
	Probation time.Duration `yaml:"probation" json:"probation"`
}

// FlapPolicy is about going back and forth.
type FlapPolicy struct {
	// Window is how soon after a return another divert counts as a flap. Default 1h.
	Window time.Duration `yaml:"window" json:"window"`
	// Decay is how long without trouble forgets one flap. Default 2h.
	Decay time.Duration `yaml:"decay" json:"decay"`
}

// BudgetPolicy limits the watchdog's own acts. A token is paid before the act.
type BudgetPolicy struct {
	// Tokens is how many acts may follow each other. Default 3.
	Tokens int `yaml:"tokens" json:"tokens"`
	// Refill is how long it takes to get one back. Default 20m.
	Refill time.Duration `yaml:"refill" json:"refill"`
	// PerHour is how many acts an hour may see. Default 6.
	PerHour int `yaml:"per_hour" json:"per_hour"`
	// Reserve is how many tokens an act that can wait (a return, a reconcile)
	// leaves for one that cannot. Default 1.
	Reserve int `yaml:"reserve" json:"reserve"`
}

// PausePolicy is about pauses.
type PausePolicy struct {
	// Default is how long a pause lasts that does not say. Default 4h.
	Default time.Duration `yaml:"default" json:"default"`
	// Remind is how often people are reminded of a pause or a pin. Default 1h.
	Remind time.Duration `yaml:"remind" json:"remind"`
}

// HandedOverPolicy is about the time after the watchdog gave up.
type HandedOverPolicy struct {
	// Max is how long people have it to themselves. Default 6h.
	Max time.Duration `yaml:"max" json:"max"`
	// Green is how long all must be well before the watchdog acts again. Default 1h.
	Green time.Duration `yaml:"green" json:"green"`
}

// CrashLoopPolicy is about starts that are not the watchdog's.
type CrashLoopPolicy struct {
	// Starts within Window make a crash loop. Default 3.
	Starts int `yaml:"starts" json:"starts"`
	// Window. Default 10m.
	Window time.Duration `yaml:"window" json:"window"`
}

// EscapePolicy is about a box that is cut off and nearly full.
type EscapePolicy struct {
	// SecondsToFull is when the spool has room for less than this. Default 5m.
	SecondsToFull time.Duration `yaml:"seconds_to_full" json:"seconds_to_full"`
	// Percent of the spool's limit that counts as nearly full. Default 90.
	Percent float64 `yaml:"percent" json:"percent"`
}

// Rules holds the rules and what they have in common.
type Rules struct {
	// Hysteresis is the part of its threshold below which a rule may clear. Default 0.7.
	Hysteresis float64 `yaml:"hysteresis" json:"hysteresis"`
	// Warn is the part of its evidence at which a rule warns without acting. Default 0.5.
	Warn float64 `yaml:"warn" json:"warn"`
	// Drain is how fast good time takes evidence away: 1 (default) tolerates
	// blips, a large one forgets at once. More than 0.
	Drain float64 `yaml:"drain" json:"drain"`
	// MinSamples is how many bad samples a rule needs besides its time. Default 3.
	MinSamples int `yaml:"min_samples" json:"min_samples"`
	// Quiet is how long a rule must be well before its next warning is a new matter. Default 5m.
	Quiet time.Duration `yaml:"quiet" json:"quiet"`

	// LastWriteAge: events wait and the sink has taken none for Threshold (5m, for 30s).
	LastWriteAge AgeRule `yaml:"last_write_age" json:"last_write_age"`
	// OldestEventAge: the oldest event waits for Threshold (10m, for 30s), and the
	// backlog will not be gone within Threshold either.
	OldestEventAge AgeRule `yaml:"oldest_event_age" json:"oldest_event_age"`
	// BacklogBytes: so much waits on disk (50 percent of the limit, for 30s).
	BacklogBytes BytesRule `yaml:"backlog_bytes" json:"backlog_bytes"`
	// BacklogEvents: so many events wait on disk (off).
	BacklogEvents CountRule `yaml:"backlog_events" json:"backlog_events"`
	// SecondsToFull: the spool will be full within Threshold (15m, for 1m).
	SecondsToFull GrowthRule `yaml:"seconds_to_full" json:"seconds_to_full"`
	// Refusing: trackers get 503 for want of room (for 30s). For also holds for
	// the rule disk, when they get it because the disk hangs, which never acts.
	Refusing PlainRule `yaml:"refusing" json:"refusing"`
	// Unreachable: the health report cannot be had (for 90s). Never enough alone.
	Unreachable PlainRule `yaml:"unreachable" json:"unreachable"`
	// Stalled: a part of the collector shows no progress for Threshold (60s, for 15s).
	Stalled AgeRule `yaml:"stalled" json:"stalled"`
	// Slow: the report takes longer than Threshold (1s, for 1m). Never acts.
	Slow AgeRule `yaml:"slow" json:"slow"`
	// Blind: the report cannot be had but trackers are served (for 5m). Never acts.
	Blind PlainRule `yaml:"blind" json:"blind"`
	// Foreign: somebody else answers (for 15s). Never acts.
	Foreign PlainRule `yaml:"foreign" json:"foreign"`
	// Inconsistent: the report contradicts itself (for 15s). Never acts.
	Inconsistent PlainRule `yaml:"inconsistent" json:"inconsistent"`
	// Drift: the collector runs another mode than the mode file says (for 15s).
	Drift PlainRule `yaml:"drift" json:"drift"`
	// FallbackNotReady: the fallback would not work if it were needed (for 15s). Never acts.
	FallbackNotReady PlainRule `yaml:"fallback_not_ready" json:"fallback_not_ready"`
}

// AgeRule is bad while an age is over Threshold. A Threshold of 0 switches it off.
type AgeRule struct {
	// Threshold is the age over which it is bad; 0 switches the rule off.
	Threshold time.Duration `yaml:"threshold" json:"threshold"`
	// For is how many bad seconds make the rule fire.
	For time.Duration `yaml:"for" json:"for"`
}

// BytesRule is bad while Percent of the spool's limit, or Bytes, is exceeded. 0
// leaves one out, both 0 switch the rule off.
type BytesRule struct {
	// Percent of the spool's limit; 0 leaves it out.
	Percent float64 `yaml:"percent" json:"percent"`
	// Bytes is an absolute limit; 0 leaves it out.
	Bytes configfile.Size `yaml:"bytes" json:"bytes"`
	// For is how many bad seconds make the rule fire.
	For time.Duration `yaml:"for" json:"for"`
}

// CountRule is bad while a number is over Threshold. 0 switches it off.
type CountRule struct {
	// Threshold is a number of events; 0 switches the rule off.
	Threshold int64 `yaml:"threshold" json:"threshold"`
	// For is how many bad seconds make the rule fire.
	For time.Duration `yaml:"for" json:"for"`
}

// GrowthRule is bad while the median slopes of the backlog over Short and over
// Long both say that the room is gone within Threshold, and more than
// FloorPercent of the limit is used. A Threshold of 0 switches it off.
type GrowthRule struct {
	// Threshold is the time left until there is no room; 0 switches the rule off.
	Threshold time.Duration `yaml:"threshold" json:"threshold"`
	// For is how many bad seconds make the rule fire.
	For time.Duration `yaml:"for" json:"for"`
	// FloorPercent is how full the spool must be, in percent of its limit, before
	// its growth is judged. Default 10.
	FloorPercent float64 `yaml:"floor_percent" json:"floor_percent"`
	// Short is the time of the quick slope. Default 1m.
	Short time.Duration `yaml:"short" json:"short"`
	// Long is the time of the sure slope; more than Short. Default 5m.
	Long time.Duration `yaml:"long" json:"long"`
}

// PlainRule is bad while its condition holds. A For of 0 switches it off.
type PlainRule struct {
	// For is how many bad seconds make the rule fire; 0 switches it off.
	For time.Duration `yaml:"for" json:"for"`
}

// DefaultPolicy returns the policy of a single host under systemd.
func DefaultPolicy() Policy {
	return Policy{
		Scope:        ScopeBox,
		Poll:         Poll{Interval: 5 * time.Second, Timeout: 2 * time.Second},
		StartupGrace: time.Minute,
		Settle:       30 * time.Second,
		Patience:     5 * time.Minute,
		Flush:        FlushPolicy{Timeout: 30 * time.Second},
		Restart: RestartPolicy{
			Timeout: time.Minute, StopTimeout: 10 * time.Second,
			Ladder: []Rung{RungRestart, RungTerm, RungKill, RungStart, RungRollBack},
		},
		Verify: VerifyPolicy{Hold: 10 * time.Second},
		Recover: RecoverPolicy{
			For: 5 * time.Minute, EarlyFor: time.Minute, Stale: 2 * time.Minute,
			MinHold: 10 * time.Minute, MaxHold: 4 * time.Hour,
			MaxBacklog: 5 * time.Minute, Probation: 10 * time.Minute,
		},
		Flap:       FlapPolicy{Window: time.Hour, Decay: 2 * time.Hour},
		Budget:     BudgetPolicy{Tokens: 3, Refill: 20 * time.Minute, PerHour: 6, Reserve: 1},
		Pause:      PausePolicy{Default: 4 * time.Hour, Remind: time.Hour},
		HandedOver: HandedOverPolicy{Max: 6 * time.Hour, Green: time.Hour},
		CrashLoop:  CrashLoopPolicy{Starts: 3, Window: 10 * time.Minute},
		Escape:     EscapePolicy{SecondsToFull: 5 * time.Minute, Percent: 90},
		Rules: Rules{
			Hysteresis: 0.7, Warn: 0.5, Drain: 1, MinSamples: 3, Quiet: 5 * time.Minute,
			LastWriteAge:   AgeRule{Threshold: 5 * time.Minute, For: 30 * time.Second},
			OldestEventAge: AgeRule{Threshold: 10 * time.Minute, For: 30 * time.Second},
			BacklogBytes:   BytesRule{Percent: 50, For: 30 * time.Second},
			BacklogEvents:  CountRule{For: 30 * time.Second},
			SecondsToFull: GrowthRule{
				Threshold: 15 * time.Minute, For: time.Minute, FloorPercent: 10,
				Short: time.Minute, Long: 5 * time.Minute,
			},
			Refusing:         PlainRule{For: 30 * time.Second},
			Unreachable:      PlainRule{For: 90 * time.Second},
			Stalled:          AgeRule{Threshold: time.Minute, For: 15 * time.Second},
			Slow:             AgeRule{Threshold: time.Second, For: time.Minute},
			Blind:            PlainRule{For: 5 * time.Minute},
			Foreign:          PlainRule{For: 15 * time.Second},
			Inconsistent:     PlainRule{For: 15 * time.Second},
			Drift:            PlainRule{For: 15 * time.Second},
			FallbackNotReady: PlainRule{For: 15 * time.Second},
		},
	}
}
