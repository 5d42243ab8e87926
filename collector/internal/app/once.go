package app

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/config"
	"spillway/collector/internal/delivery"
	"spillway/collector/internal/sink"
)

// look is how often a delivery outside of a running collector is looked at.
const look = 50 * time.Millisecond

// deliverOnce delivers what is in the queue, as a running collector would, until
// left says that nothing can be expected any more or ctx ends. It then stops as a
// collector does: what was not confirmed is not acked.
func deliverOnce(ctx context.Context, cfg config.Config, queue delivery.Queue, to sink.Sink, dead delivery.DeadLetters, lane sink.Lane, log *logrus.Entry, left func(delivery.Status) int64) (delivery.Status, error) {
	forwarder := delivery.New(cfg.Delivery, queue, delivery.Route{Sink: to}, dead, delivery.Options{Lane: lane, Log: log})
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- forwarder.Run(running) }()

	tick := time.NewTicker(look)
	defer tick.Stop()
	var flushedAt time.Time
	told := time.Now()
	for {
		select {
		case <-ctx.Done():
			stop()
			return forwarder.Status(), <-ended
		case err := <-ended: // it only ends by itself when something is badly wrong
			return forwarder.Status(), err
		case <-tick.C:
		}
		status := forwarder.Status()
		rest := left(status)
		if rest <= 0 {
			stop()
			return status, <-ended
		}
		// The last records must not wait for company that does not come.
		if int64(status.HeldRecords) >= rest && status.OutageFor == 0 && time.Since(flushedAt) > time.Second {
			forwarder.Flush()
			flushedAt = time.Now()
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			log.Infof("%d records are delivered, %d are left", status.WrittenTotal, rest)
		}
	}
}
