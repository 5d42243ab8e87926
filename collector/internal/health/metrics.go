package health

import (
	"github.com/prometheus/client_golang/prometheus"

	"spillway/shared/healthapi"
)

// gauge is one figure of the report as a metric. value returns false when the
// figure does not exist yet.
type gauge struct {
	desc  *prometheus.Desc
	value func(*healthapi.Report) (float64, bool)
}

func figure(name, help string, value func(*healthapi.Report) (float64, bool)) gauge {
	return gauge{prometheus.NewDesc("spillway_collector_"+name, help, nil, nil), value}
}

func always(f func(*healthapi.Report) float64) func(*healthapi.Report) (float64, bool) {
	return func(r *healthapi.Report) (float64, bool) { return f(r), true }
}

func optional(f func(*healthapi.Report) *float64) func(*healthapi.Report) (float64, bool) {
	return func(r *healthapi.Report) (float64, bool) {
		if v := f(r); v != nil {
			return *v, true
		}
		return 0, false
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var gauges = []gauge{
	figure("start_time_seconds", "When this process started, in seconds since the epoch.",
		always(func(r *healthapi.Report) float64 { return float64(r.StartedAt.UnixMilli()) / 1000 })),
	figure("accepting", "1 while POSTs are taken.",
		always(func(r *healthapi.Report) float64 { return flag(r.Intake.Accepting) })),
	figure("accepting_pixels", "1 while GET pixels are taken.",
		always(func(r *healthapi.Report) float64 { return flag(r.Intake.AcceptingPixels) })),
	figure("intake_events_per_second", "Events stored per second over the last 30 s.",
		always(func(r *healthapi.Report) float64 { return r.Intake.EventsPerSecond })),
	figure("backlog_events", "Events on disk that no destination has acknowledged.",
		always(func(r *healthapi.Report) float64 { return float64(r.Backlog.Events) })),
	figure("backlog_bytes", "Bytes on disk that no destination has acknowledged.",
		always(func(r *healthapi.Report) float64 { return float64(r.Backlog.Bytes) })),
	figure("backlog_limit_bytes", "Backlog at which the spool is full; 0 is no limit but the disk.",
		always(func(r *healthapi.Report) float64 { return float64(r.Backlog.LimitBytes) })),
	figure("backlog_ratio", "Backlog as a share of its limit.",
		func(r *healthapi.Report) (float64, bool) {
			if r.Backlog.LimitBytes <= 0 {
				return 0, false
			}
			return float64(r.Backlog.Bytes) / float64(r.Backlog.LimitBytes), true
		}),
	figure("backlog_growth_bytes_per_second", "Growth of the backlog over the last 30 s; negative while it shrinks.",
		always(func(r *healthapi.Report) float64 { return r.Backlog.GrowthBytesPerSecond })),
	figure("seconds_to_full", "Time until the spool is full at the present growth; absent while it does not grow.",
		optional(func(r *healthapi.Report) *float64 { return r.Backlog.SecondsToFull })),
	figure("oldest_event_age_seconds", "Age of the oldest event that waits; absent when none waits.",
		optional(func(r *healthapi.Report) *float64 { return r.Backlog.OldestAgeSeconds })),
	figure("disk_free_bytes", "Free bytes on the volume of the spool.",
		always(func(r *healthapi.Report) float64 { return float64(r.Backlog.DiskFreeBytes) })),
	figure("kinesis_last_write_age_seconds", "Time since Kinesis last took an event; absent when it never did.",
		optional(func(r *healthapi.Report) *float64 { return r.Kinesis.LastWriteAgeSeconds })),
	figure("kinesis_outage", "1 while Kinesis takes nothing though events were offered.",
		always(func(r *healthapi.Report) float64 { return flag(r.Kinesis.OutageSince != nil) })),
	figure("kinesis_consecutive_failures", "Writes to Kinesis that failed since the last that worked.",
		always(func(r *healthapi.Report) float64 { return float64(r.Kinesis.ConsecutiveFailures) })),
	figure("kinesis_probe_level", "Level of the half-open probe of Kinesis; 0 while it is not probed.",
		always(func(r *healthapi.Report) float64 { return float64(r.Kinesis.Probe.Level) })),
	figure("kinesis_probe_ok_seconds", "How long the probes of Kinesis have been good without a break.",
		optional(func(r *healthapi.Report) *float64 { return r.Kinesis.Probe.OKForSeconds })),
	figure("fallback_configured", "1 when a fallback config is given.",
		always(func(r *healthapi.Report) float64 { return flag(r.Fallback.Configured) })),
	figure("fallback_ready", "1 when the last check of the fallback sink passed.",
		always(func(r *healthapi.Report) float64 { return flag(r.Fallback.Ready) })),
	figure("drain_events_per_second", "Events that left the spool per second over the last 30 s.",
		always(func(r *healthapi.Report) float64 { return r.Drain.EventsPerSecond })),
	figure("drain_eta_seconds", "Time until the backlog is gone at the present rate; absent while it does not shrink.",
		optional(func(r *healthapi.Report) *float64 { return r.Drain.ETASeconds })),
	figure("flush_requested", "Flushes asked for since the start.",
		always(func(r *healthapi.Report) float64 { return float64(r.Flush.Requested) })),
	figure("flush_completed", "Flushes completed since the start.",
		always(func(r *healthapi.Report) float64 { return float64(r.Flush.Completed) })),
}

var (
	stateDesc = prometheus.NewDesc("spillway_collector_state", "1 for the state the collector is in.", []string{"state"}, nil)
	modeDesc  = prometheus.NewDesc("spillway_collector_mode", "1 for the config the collector runs.", []string{"mode"}, nil)
	aliveDesc = prometheus.NewDesc("spillway_collector_part_alive", "1 while the part makes progress.", []string{"part"}, nil)
	buildDesc = prometheus.NewDesc("spillway_collector_build_info", "Always 1; the version is in the label.", []string{"version"}, nil)
)

// Describe sends the descriptions of all figures.
func (r *Reporter) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range gauges {
		ch <- g.desc
	}
	ch <- stateDesc
	ch <- modeDesc
	ch <- aliveDesc
	ch <- buildDesc
}

// Collect sends the figures of the present report that exist.
func (r *Reporter) Collect(ch chan<- prometheus.Metric) {
	rep := r.Peek()
	for _, g := range gauges {
		if v, ok := g.value(&rep); ok {
			ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, v)
		}
	}
	for _, s := range []healthapi.State{healthapi.StateOK, healthapi.StateStarting, healthapi.StateDegraded, healthapi.StateRefusing, healthapi.StateStopping} {
		ch <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, flag(s == rep.State), string(s))
	}
	for _, m := range []string{"primary", "fallback"} {
		ch <- prometheus.MustNewConstMetric(modeDesc, prometheus.GaugeValue, flag(m == rep.Mode), m)
	}
	for name, part := range rep.Parts {
		ch <- prometheus.MustNewConstMetric(aliveDesc, prometheus.GaugeValue, flag(part.Alive), name)
	}
	ch <- prometheus.MustNewConstMetric(buildDesc, prometheus.GaugeValue, 1, rep.Version)
}
