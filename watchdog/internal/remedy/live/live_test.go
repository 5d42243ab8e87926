package live_test

import (
	"context"
	"errors"
	"testing"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/remedy"
	"spillway/watchdog/internal/remedy/live"
	"spillway/watchdog/internal/remedy/remedytest"
)

func TestMain(m *testing.M) {
	collectortest.Main()
	m.Run()
}

func TestRestarter_keepsTheContract(t *testing.T) {
	remedytest.Run(t, func(t *testing.T) remedytest.Bench {
		c := collectortest.Start(t, false, collectortest.Options{})
		return remedytest.Bench{
			Restarter: live.New(c.Admin), Order: remedytest.Order(c), Acts: c.Starts,
			Switched: func() bool {
				c.Await("it runs the fallback", func(r *healthapi.Report) bool { return r.Mode == "fallback" })
				return c.Starts() == 1
			},
		}
	})
}

func TestRestarter_Switch_doesNotPretendToCureASickProcess(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	order := remedytest.Order(c)
	order.Fresh = true
	if _, err := live.New(c.Admin).Switch(t.Context(), order); !errors.Is(err, remedy.ErrNotApplicable) {
		t.Errorf("got %v", err)
	}
}

// stubborn answers with the mode it has.
type stubborn struct{}

func (stubborn) SwitchMode(context.Context, mode.Mode, string, string) (mode.File, error) {
	return mode.File{Mode: mode.Primary}, nil
}

func TestRestarter_Switch_seesThatNothingWasSwitched(t *testing.T) {
	if text, err := live.New(stubborn{}).Switch(t.Context(), remedy.Order{Mode: mode.Fallback}); err == nil {
		t.Errorf("got %q and no error", text)
	}
}
