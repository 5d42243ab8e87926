package main

import (
	"fmt"
	"slices"
	"time"

	"spillway/shared/configfile"
	"spillway/shared/healthapi"
	"spillway/watchdog/internal/control"
	"spillway/watchdog/internal/decide"
)

// view is a status with what it takes to show it.
type view struct{ control.Status }

// when is the wall-clock time of a moment of the state, and how long ago it was.
func (v view) when(m decide.Moment) string {
	if m == 0 {
		return "the beginning"
	}
	ago := v.State.Now.Sub(m)
	return fmt.Sprintf("%s (%s ago)", clockTime(v.State.Clock.Wall.Add(-ago)), short(ago))
}

// clockTime is a time for people: the date only when it is not today.
func clockTime(t time.Time) string {
	switch local := t.Local(); {
	case t.IsZero():
		return "an unknown time"
	case local.Format(time.DateOnly) == time.Now().Format(time.DateOnly):
		return local.Format(time.TimeOnly)
	default:
		return local.Format(time.DateTime)
	}
}

// short is a duration for people: two units at most, no fractions of long ones.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		d = d.Round(time.Second)
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
	default:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
	return configfile.FormatDuration(d)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// size is a number of bytes for people.
func size(n int64) string {
	f, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// percent is a share for people: no digits that do not matter.
func percent(n float64) string {
	switch {
	case n > 0 && n < 0.1:
		return "< 0.1 %"
	case n > 0 && n < 10:
		return fmt.Sprintf("%.1f %%", n)
	}
	return fmt.Sprintf("%.0f %%", n)
}

// full tells how full the spool is and when it will be.
func full(r *healthapi.Report) string {
	text := ""
	if r.Backlog.LimitBytes > 0 {
		text = fmt.Sprintf(", %s of %s", percent(100*float64(r.Backlog.Bytes)/float64(r.Backlog.LimitBytes)), size(r.Backlog.LimitBytes))
	}
	if left := r.Backlog.SecondsToFull; left != nil {
		text += ", full in " + short(seconds(*left))
	}
	return text
}

func blocked(e decide.Explain) []string {
	var list []string
	for _, b := range e.BlockedBy {
		if !slices.Contains(list, b.Text) {
			list = append(list, b.Text)
		}
	}
	return list
}
