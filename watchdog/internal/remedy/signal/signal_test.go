package signal_test

import (
	"testing"

	"spillway/shared/healthapi"
	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/remedy"
	"spillway/watchdog/internal/remedy/remedytest"
	"spillway/watchdog/internal/remedy/signal"
)

func TestMain(m *testing.M) {
	collectortest.Main()
	m.Run()
}

func TestRestarter_keepsTheContract(t *testing.T) {
	remedytest.Run(t, func(t *testing.T) remedytest.Bench {
		c := collectortest.Start(t, true, collectortest.Options{})
		return remedytest.Bench{
			Restarter: signal.Restarter{}, Order: remedytest.Order(c), Acts: c.Starts,
			Switched: func() bool {
				c.Await("it runs the fallback", func(r *healthapi.Report) bool { return r.Mode == "fallback" })
				return c.Starts() == 2
			},
			Blocked: func() remedy.Order {
				deaf := collectortest.Start(t, false, collectortest.Options{DeafToTerm: true})
				return remedytest.Order(deaf)
			},
		}
	})
}
