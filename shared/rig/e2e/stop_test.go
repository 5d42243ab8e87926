package e2e

import (
	"fmt"
	"testing"
	"time"

	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
	"spillway/shared/rig/tracker"
)

func TestCollector_stoppedUnderLoad_answersEveryRequestAndLosesNothing(t *testing.T) {
	t.Parallel()
	const grace, timeout = time.Second, 10 * time.Second
	p := start(t, pair.Options{Alone: true, Collector: fmt.Sprintf("stop: {grace: %v, timeout: %v}\n", grace, timeout)})
	tr := send(t, p, tracker.Config{Connections: 16, EventsPerPost: 2, PixelShare: 0.1})
	tr.acked(t, 1000)

	asked := time.Now()
	exit, err := p.Collector.Stop(limited(t))
	if err != nil || exit.Code != 0 {
		t.Errorf("it ended with %v, %v, want exit code 0", exit, err)
	}
	if took := exit.At.Sub(asked); took < grace || took > grace+timeout {
		t.Errorf("the stop took %v, want %v of grace and at most %v", took, grace, timeout)
	}
	// Once every connection has been refused, none waits for an answer any more.
	gone := tr.Ledger().Counts().Unreachable
	proc.Eventually(t, patience, func() error {
		if c := tr.Ledger().Counts(); c.Unreachable < gone+1000 {
			return fmt.Errorf("not every connection was refused yet: %v", c)
		}
		return nil
	})
	if c := tr.Ledger().Counts(); c.Unclear > 0 {
		t.Errorf("%d events were sent and never answered: %v", c.Unclear, c)
	}
	tr.stop()
	// What it could not deliver any more it delivers after the next start.
	if err := p.StartCollector(limited(t)); err != nil {
		t.Fatal(err)
	}
	health(t, p, "an empty backlog", empty)
	audit(t, p, tr.Ledger())
}
