package app

import (
	"github.com/sirupsen/logrus"

	"spillway/watchdog/internal/config"
	"spillway/watchdog/internal/replayer"
)

// replayer is what replays this box's objects after an outage; nil where people
// do so.
func (a *App) replayer(log *logrus.Entry) *replayer.Replayer {
	if !a.cfg.AfterFailBack.Replay {
		return nil
	}
	return replayer.New(replayer.Options{
		Config: a.cfg.AfterFailBack, Path: a.cfg.ReplayFile(), Look: a.sight,
		Runner: replayer.Command{Config: a.cfg.AfterFailBack, Admin: a.cfg.Collector.Admin.Address},
		Tell:   func(sentence string) { a.say(replayer.Event, sentence) },
		Log:    log, Metrics: a.registry,
	})
}

// sight is what the loop's last round knew.
func (a *App) sight() replayer.Sight {
	snap := a.loop.Snapshot()
	s := replayer.Sight{Fresh: a.loop.Alive() == nil, State: snap.State}
	if snap.LastReport != nil {
		s.Instance = snap.LastReport.Instance
	}
	return s
}

// checkReplay tells, where the watchdog is to replay, whether it could.
func checkReplay(c config.Config) []Finding {
	if !c.AfterFailBack.Replay {
		return nil
	}
	if err := c.AfterFailBack.Check(); err != nil {
		return []Finding{{"after_fail_back", Failed, err.Error()}}
	}
	return []Finding{{"after_fail_back", OK, "the replay's program and configs are there"}}
}
