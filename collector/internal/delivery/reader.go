package delivery

import (
	"context"
	"time"

	"spillway/collector/internal/sink"
)

// want is how much the loop has room for.
type want struct {
	records int
	bytes   int64
}

// got is what a read returned.
type got struct {
	records []sink.Record
	err     error
}

// serve reads from the queue, once for each want, until ctx ends. Only one read
// is under way at a time, so records arrive in order.
func serve(ctx context.Context, queue Queue, wants <-chan want, reads chan<- got) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-wants:
			records, err := queue.Read(ctx, w.records, w.bytes)
			select {
			case reads <- got{records, err}:
			case <-ctx.Done():
				return // what was read is not acked: the next life reads it again
			}
		}
	}
}

// read asks for more records if there is room for them.
func (l *loop) read(now time.Time) {
	lim := l.out.limits
	room := l.room()
	switch {
	case l.reading || now.Before(l.readPauseTill) || room <= 0:
		return
	case len(l.held.fresh) >= 2*lim.MaxRecords || l.held.freshBytes >= 2*lim.MaxBytes:
		return // enough to cut from; more would only be held longer
	case l.stopping && l.arrived >= l.round.mark:
		return
	}
	records := int(min(int64(lim.MaxRecords), room/overhead+1))
	l.reading, l.readAt = true, now
	l.wants <- want{records, min(room, lim.MaxBytes)} // never blocks: one read at a time, one place in the channel
}

// room is how many bytes more may be held.
func (l *loop) room() int64 { return int64(l.cfg.MaxMemory) - l.held.bytes }

// arrive takes in what a read returned.
func (l *loop) arrive(g got, now time.Time) {
	l.reading = false
	for _, r := range g.records {
		l.arrived++
		it := &item{Record: r, number: l.arrived, arrivedAt: now}
		l.held.arrive(it)
		l.round.arrived(it)
	}
	l.incoming.add(len(g.records), now)
	if g.err == nil {
		if l.readError != "" {
			l.log.Info("the spool is read again")
		}
		l.readFails, l.readError = 0, ""
		return
	}
	l.readFails++
	l.metrics.reads.Inc()
	l.readPauseTill = now.Add(backoff(l.cfg.MinBackoff, l.cfg.MaxBackoff, l.readFails))
	if text := g.err.Error(); text != l.readError {
		l.readError = text
		l.log.WithError(g.err).Error("the spool cannot be read; what is in memory is delivered, and reading is tried again")
	}
}
