package replay

import (
	"context"
	"errors"
	"io"
	"time"

	"spillway/collector/internal/sink"
)

const (
	// chunk is how many records are read before they are put in line together.
	chunk = 100
	// chunkBytes is after how many bytes it is put in line in any case.
	chunkBytes = 1 << 20
	// lastSave is how long the last mark of an object may take after the end of
	// everything else.
	lastSave = 10 * time.Second
	// missed is how many renewals in a row may fail before nothing more is lent.
	missed = 3
)

// keeper replays one object: another goroutine reads it, and the keeper writes
// down how far the reading is confirmed.
type keeper struct {
	*Replay
	object  Object
	claim   Claim
	reading *reading
	faults  chan Fault
	mark    Mark // the next to be written
	pending []Fault
	renewed time.Time // when the last mark that was written was begun
	trouble string    // the last failure to write one
}

// keep replays a claimed object to its end, or until ctx ends.
func (r *Replay) keep(ctx context.Context, o Object, claim Claim) {
	found := claim.Found()
	k := &keeper{
		Replay: r, object: o, claim: claim, renewed: time.Now(), faults: make(chan Fault),
		reading: &reading{progress: make(chan struct{}, 1), read: found.Line, events: found.Events},
		mark:    Mark{To: r.o.To, Line: found.Line, Events: found.Events, Damaged: found.Damaged, Faults: found.Faults},
	}
	defer r.queue.leave(k.reading)
	if found.Line > 0 {
		r.o.Report.skipped(found.Events)
		r.o.Log.WithField("object", o.Key).Infof("goes on behind line %d, up to which %s had it confirmed", found.Line, found.By)
	}
	reading, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- k.read(reading, found.Line)
		close(k.faults)
	}()
	err := k.follow(ctx, ended)
	cancel()
	for f := range k.faults { // until the reading has ended
		k.pending = append(k.pending, f)
	}
	k.end(ctx, err)
}

var (
	errEnded   = errors.New("the object is at its end")
	errStopped = errors.New("the replay was stopped")
)

// follow writes marks as records are confirmed. It returns errEnded when the
// object has been read to its end and all of it is confirmed, errStopped when ctx
// has ended and nothing more will be confirmed, or what went wrong.
func (k *keeper) follow(ctx context.Context, ended <-chan error) error {
	renew := time.NewTicker(k.o.RenewEvery)
	defer renew.Stop()
	enough := max(1, k.queue.window/(2*max(k.o.Objects, 1)))
	atEnd, stop, faults := false, ctx.Done(), k.faults
	var failure error
	for {
		due := false
		select {
		case f, more := <-faults:
			if faults = k.faults; !more {
				faults = nil
				break
			}
			k.pending = append(k.pending, f)
		case err := <-ended:
			ended = nil
			if atEnd = err == nil; !atEnd && ctx.Err() == nil {
				failure = err
			}
		case <-k.reading.progress:
		case <-renew.C:
			due = true
		case <-stop:
			stop = nil
		case <-k.queue.closed:
			return errStopped
		}
		_, _, unsaved, open := k.queue.confirmed(k.reading)
		switch {
		case atEnd && open == 0:
			return errEnded
		case failure != nil && open == 0:
			return failure
		case due || unsaved >= enough:
			if err := k.save(ctx); errors.Is(err, ErrLost) {
				return err
			}
		}
	}
}

// note brings the mark up to date: everything up to line is confirmed or among
// the faults.
func (k *keeper) note() (unsaved int) {
	line, events, unsaved, _ := k.queue.confirmed(k.reading)
	k.mark.Line, k.mark.Events = line, events
	later := k.pending[:0]
	for _, f := range k.pending {
		if f.Line > line || f.Line == 0 { // 0 is known at the end only
			later = append(later, f)
			continue
		}
		k.mark.add(f)
	}
	k.pending = later
	return unsaved
}

// save makes what is confirmed durable and frees its slots. A failure that may
// pass is logged when it changes; if it lasts, no more is lent.
func (k *keeper) save(ctx context.Context) error {
	unsaved, begun := k.note(), time.Now()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.o.RenewEvery)
	defer cancel()
	err := k.claim.Save(limited, k.mark)
	switch {
	case errors.Is(err, ErrLost):
		return err
	case err == nil:
		if k.trouble != "" {
			k.o.Log.WithField("object", k.object.Key).Info("the position in an object is kept again")
		}
		k.trouble, k.renewed = "", begun
		k.queue.saved(k.reading, unsaved)
	case err.Error() != k.trouble:
		k.trouble = err.Error()
		k.o.Log.WithField("object", k.object.Key).WithError(err).Warn("the position in an object cannot be kept; it is tried again")
	}
	// Whoever sees no renewal for long enough takes the object over. Before that
	// can be, this replayer lends out nothing more of it.
	k.queue.pause(k.reading, time.Since(k.renewed) >= missed*k.o.RenewEvery)
	return nil
}

// end lets the object go, done or not.
func (k *keeper) end(ctx context.Context, why error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(lastSave, k.o.RenewEvery))
	defer cancel()
	k.note()
	if errors.Is(why, ErrLost) {
		k.o.Report.lost(k.object.Key, k.o.Log)
		return
	}
	if why != errEnded {
		if err := k.claim.Release(limited, k.mark); errors.Is(err, ErrLost) {
			k.o.Report.lost(k.object.Key, k.o.Log)
			return
		} else if err != nil {
			k.o.Log.WithField("object", k.object.Key).WithError(err).Warn("the claim of an object could not be let go of: it runs out by itself, and some events will be sent again")
		}
		if why != errStopped {
			k.failed(k.object.Key, why)
		}
		return
	}
	for _, f := range k.pending { // of the object as a whole
		k.mark.add(f)
	}
	if err := k.claim.Finish(limited, k.mark); errors.Is(err, ErrLost) {
		k.o.Report.lost(k.object.Key, k.o.Log)
		return
	} else if err != nil {
		k.failed(k.object.Key, err)
		return
	}
	k.succeeded()
	k.o.Report.finished(k.object.Key, k.mark)
	k.o.Progress.finished()
	if k.o.Delete && k.mark.Damaged == 0 {
		if err := k.o.Store.Delete(limited, k.object.Key); err != nil {
			k.o.Log.WithField("object", k.object.Key).WithError(err).Warn("an object that is done could not be deleted")
		}
	}
}

// read puts the object's records in line, from behind a line on. It returns nil
// at the end of the object, damaged or not, and what stopped it otherwise.
func (k *keeper) read(ctx context.Context, behind int) error {
	stored, err := k.o.Store.Open(ctx, k.object.Entry)
	if err != nil {
		return err
	}
	defer func() { _ = stored.Close() }()
	in := newScanner(k.object.Name, counting{stored, k.o.Progress})
	for {
		taken, err := k.queue.reserve(ctx, k.reading, chunk)
		if err != nil {
			return err
		}
		slots, err := k.fill(ctx, in, behind, taken)
		k.queue.offer(k.reading, slots, taken, max(in.line, behind))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fill reads up to most records. It returns io.EOF at the end of the object.
func (k *keeper) fill(ctx context.Context, in *scanner, behind, most int) (slots []*slot, err error) {
	for bytes := int64(0); len(slots) < most && bytes < chunkBytes && err == nil && ctx.Err() == nil; {
		var r sink.Record
		var f *Fault
		r, f, err = in.next()
		// What stands before that line was reported and confirmed in an earlier life.
		news := in.line > behind || f != nil && f.Line == 0
		switch {
		case f != nil && news:
			k.faults <- *f // the keeper takes it, whatever happens
		case f != nil || err != nil:
		case k.twins.again(k.object.Key, r) && news:
			k.o.Report.twin()
		case news:
			slots = append(slots, &slot{of: k.reading, line: in.line, record: r, seq: r.Seq})
			bytes += r.Size()
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	return slots, err
}

// counting tells how much of an object has been read.
type counting struct {
	in       io.Reader
	progress *Progress
}

// Read implements io.Reader.
func (c counting) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.progress.consumed(n)
	return n, err
}
