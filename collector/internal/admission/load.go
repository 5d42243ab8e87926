package admission

import (
	"fmt"
	"time"

	"spillway/shared/configfile"
)

// Load is how burdened the collector is at one moment. A figure that is not
// known is zero and refuses nobody, except FreeBytes, where it is negative.
type Load struct {
	Events        int64         // events waiting on disk, both lanes
	Bytes         int64         // bytes waiting on disk, of the lane nearest its limit
	LimitBytes    int64         // the spool's own limit for Bytes; 0 is none
	FreeBytes     int64         // room left on the spool's volume; negative is unknown
	Outage        time.Duration // how long the sink in use has been failing while events wait
	InFlightBytes int64         // request bytes being served
}

// pressure is one limit and how near the load is to it: at 1 POSTs are refused.
type pressure struct {
	limit  string  // the config key, used as metric label
	ratio  float64 // measured by allowed
	short  string  // what a tracker is told; a fixed phrase
	detail func() string
}

// The limits, in the order in which the first of equals is named.
const (
	limitEvents   = "max_backlog_events"
	limitBytes    = "max_backlog_bytes"
	limitPercent  = "max_backlog_percent"
	limitFree     = "min_free_disk"
	limitOutage   = "max_outage"
	limitInFlight = "max_in_flight"
)

// pressures works out how near each limit that is switched on has come.
func (c Config) pressures(l Load) []pressure {
	var out []pressure
	add := func(limit, short string, ratio float64, detail func() string) {
		out = append(out, pressure{limit, ratio, short, detail})
	}
	if c.MaxBacklogEvents > 0 {
		add(limitEvents, "too many events wait on disk", float64(l.Events)/float64(c.MaxBacklogEvents), func() string {
			return fmt.Sprintf("%d events wait on disk and the limit is %d", l.Events, c.MaxBacklogEvents)
		})
	}
	if c.MaxBacklogBytes > 0 {
		add(limitBytes, "too many bytes wait on disk", float64(l.Bytes)/float64(c.MaxBacklogBytes), func() string {
			return fmt.Sprintf("%s wait on disk and the limit is %s", bytesText(l.Bytes), c.MaxBacklogBytes)
		})
	}
	if c.MaxBacklogPercent > 0 && l.LimitBytes > 0 {
		used := 100 * float64(l.Bytes) / float64(l.LimitBytes)
		add(limitPercent, "the spool is nearly full", used/c.MaxBacklogPercent, func() string {
			return fmt.Sprintf("%.1f %% of the spool's %s are used and the limit is %.4g %%", used, bytesText(l.LimitBytes), c.MaxBacklogPercent)
		})
	}
	if c.MinFreeDisk > 0 && l.FreeBytes >= 0 {
		// Turned over, so that little room is a high ratio like everything else.
		add(limitFree, "too little disk space is left", float64(c.MinFreeDisk)/float64(max(l.FreeBytes, 1)), func() string {
			return fmt.Sprintf("%s of disk are free and %s are wanted", bytesText(l.FreeBytes), c.MinFreeDisk)
		})
	}
	if c.MaxOutage > 0 {
		add(limitOutage, "the destination has been failing for too long", float64(l.Outage)/float64(c.MaxOutage), func() string {
			return fmt.Sprintf("the destination has been failing for %s and the limit is %s", l.Outage.Round(time.Second), c.MaxOutage)
		})
	}
	if c.MaxInFlight > 0 {
		add(limitInFlight, "too many requests at once", float64(l.InFlightBytes)/float64(c.MaxInFlight), func() string {
			return fmt.Sprintf("%s of requests are under way and the limit is %s", bytesText(l.InFlightBytes), c.MaxInFlight)
		})
	}
	return out
}

// bytesText writes a number of bytes for people, to three figures.
func bytesText(n int64) string {
	value, unit := float64(n), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return configfile.Size(n).String()
	}
	return fmt.Sprintf("%.1f%s", value, units[unit])
}
