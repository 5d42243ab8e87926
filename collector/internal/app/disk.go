package app

import (
	"context"
	"time"

	"spillway/shared/healthapi"
)

// hangs is how long a write to the spool may take before requests are refused at
// once: whoever waited would hear 503 too, only later.
const hangs = 5 * time.Second

// watchDisk shuts the gate while the disk does not answer. Ending the process
// would not mend a disk, so a disk that hangs is no part without progress.
func (a *App) watchDisk(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	shut := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		hung := false
		for _, l := range a.lanes {
			hung = hung || l.log.Stats().WritingFor > hangs
		}
		switch {
		case hung && !shut:
			a.gate.Refuse(healthapi.ReasonDiskHangs)
		case !hung && shut:
			a.gate.Resume()
		}
		shut = hung
	}
}
