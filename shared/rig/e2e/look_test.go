package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
)

// metricAtLeast says whether a metric of the collector has reached a value.
func metricAtLeast(ctx context.Context, p *pair.Pair, name string, want float64) error {
	body, err := proc.HTTP(ctx, p.AdminURL()+"/metrics", nil)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			got, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return err
			}
			if got < want {
				return fmt.Errorf("%s is %v, want at least %v", name, got, want)
			}
			return nil
		}
	}
	return proc.Final(fmt.Errorf("there is no metric %s", name))
}

// journal waits for an entry of the watchdog's journal.
func journal(t *testing.T, p *pair.Pair, after uint64, fits func(pair.Entry) bool) pair.Entry {
	t.Helper()
	e, err := p.WaitJournal(limited(t), after, fits)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// goesTo fits the entry in which the watchdog's mode goes to a phase.
func goesTo(phase string) func(pair.Entry) bool {
	return func(e pair.Entry) bool { return e.Event == "mode" && e.To == phase }
}
