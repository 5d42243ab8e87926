package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/collector/internal/sink"
	"spillway/shared/durable"
	"spillway/shared/healthapi"
)

// saveEvery is how often the file is written at most for last_write_at alone; a
// change of outage_since is written within a second.
const saveEvery = 5 * time.Second

// Primary remembers how the primary stream is, whichever sink is in use, and
// keeps the part that must survive a restart in a small file: a collector
// restarted in an outage must not look as if all were well. It is safe for
// concurrent use.
type Primary struct {
	path string
	log  *logrus.Entry

	mu          sync.Mutex // guards what follows
	lastWriteAt time.Time  // zero: never
	outageSince time.Time  // zero: no outage
	failures    int64      // whole failures in a row
	lastError   string
	lastErrorAt time.Time
	class       sink.Cause
	dirty       bool // differs from the file
	urgent      bool // an outage began or ended since the file was written
	unsaved     bool // the last attempt to write it failed
}

// primaryFile is the file's content.
type primaryFile struct {
	Schema      int        `json:"schema"`
	LastWriteAt *time.Time `json:"last_write_at,omitempty"`
	OutageSince *time.Time `json:"outage_since,omitempty"`
}

// OpenPrimary reads what the file at path remembers. A file that is missing is
// the first start; one that cannot be read is logged and replaced, because no
// memory is better than no start.
func OpenPrimary(path string, log *logrus.Entry) *Primary {
	p := &Primary{path: path, log: log}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return p
	}
	var f primaryFile
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		log.WithError(err).Errorf("%s cannot be read: when the primary was last written to is not known", path)
		return p
	}
	// Ages run on the monotonic clock from here; a clock that was set back in
	// between makes them zero, not negative.
	now := time.Now()
	recall := func(at *time.Time) time.Time {
		if at == nil {
			return time.Time{}
		}
		return now.Add(-max(0, now.Sub(*at)))
	}
	p.lastWriteAt, p.outageSince = recall(f.LastWriteAt), recall(f.OutageSince)
	return p
}

// wrote notes that the primary took a record.
func (p *Primary) wrote(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastWriteAt, p.failures, p.class, p.dirty = now, 0, "", true
	p.endOutage()
}

// throttled notes that the primary is there but wants less: no outage.
func (p *Primary) throttled(err *sink.Error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures, p.class, p.lastError, p.lastErrorAt = 0, sink.CauseThrottled, err.Error(), now
	p.endOutage()
}

// failed notes that a write failed as a whole.
func (p *Primary) failed(err *sink.Error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	p.class, p.lastError, p.lastErrorAt = err.Cause, err.Error(), now
	if p.outageSince.IsZero() {
		p.outageSince, p.dirty, p.urgent = now, true, true
	}
}

func (p *Primary) endOutage() {
	if !p.outageSince.IsZero() {
		p.outageSince, p.dirty, p.urgent = time.Time{}, true, true
	}
}

// OutageSince returns since when every write to the primary has failed, or false
// if the last one did not.
func (p *Primary) OutageSince() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outageSince, !p.outageSince.IsZero()
}

// Report returns the primary's part of the health report, without its stream and
// probe.
func (p *Primary) Report() healthapi.Kinesis {
	p.mu.Lock()
	defer p.mu.Unlock()
	return healthapi.Kinesis{
		LastWriteAt: timeOrNil(p.lastWriteAt), LastWriteAgeSeconds: ageOrNil(p.lastWriteAt), OutageSince: timeOrNil(p.outageSince),
		ConsecutiveFailures: p.failures, LastError: p.lastError, LastErrorAt: timeOrNil(p.lastErrorAt), ErrorClass: string(p.class),
	}
}

// run keeps the file up to date until ctx ends, and writes it a last time then.
func (p *Primary) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var savedAt time.Time
	for {
		select {
		case <-ctx.Done():
			p.note(p.save())
			return
		case now := <-tick.C:
			p.mu.Lock()
			wanted := p.urgent || p.dirty && now.Sub(savedAt) >= saveEvery
			p.mu.Unlock()
			if wanted {
				savedAt = now
				p.note(p.save())
			}
		}
	}
}

// save writes the file if it is out of date.
func (p *Primary) save() error {
	p.mu.Lock()
	if !p.dirty {
		p.mu.Unlock()
		return nil
	}
	f := primaryFile{Schema: 1, LastWriteAt: timeOrNil(p.lastWriteAt), OutageSince: timeOrNil(p.outageSince)}
	p.dirty, p.urgent = false, false
	p.mu.Unlock()
	data, err := json.Marshal(f)
	if err == nil {
		err = durable.WriteFile(p.path, append(data, '\n'), 0o640)
	}
	if err != nil {
		p.mu.Lock()
		p.dirty = true
		p.mu.Unlock()
		return fmt.Errorf("remember when the primary was last written to: %w", err)
	}
	return nil
}

// note logs when saving begins to fail, and when it works again.
func (p *Primary) note(err error) {
	p.mu.Lock()
	before := p.unsaved
	p.unsaved = err != nil
	p.mu.Unlock()
	switch {
	case err != nil && !before:
		p.log.WithError(err).Error("a restart would forget when the primary was last written to")
	case err == nil && before:
		p.log.Info("when the primary was last written to is saved again")
	}
}

func ageOrNil(t time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	age := max(0, time.Since(t).Seconds())
	return &age
}
