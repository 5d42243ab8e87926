package replay

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"
)

// Progress counts while a replay runs. It is safe for concurrent use.
type Progress struct {
	read      atomic.Int64 // bytes of objects, as stored
	confirmed atomic.Int64 // events
	written   atomic.Int64 // bytes of events
	objects   atomic.Int64 // finished
}

func (p *Progress) consumed(bytes int) { p.read.Add(int64(bytes)) }
func (p *Progress) confirm(events int) { p.confirmed.Add(int64(events)) }
func (p *Progress) wrote(bytes int64)  { p.written.Add(bytes) }
func (p *Progress) finished()          { p.objects.Add(1) }
func (p *Progress) skip(bytes int64)   { p.read.Add(bytes); p.objects.Add(1) }

// Read returns how many bytes of objects were read, those of objects that turned
// out to be done included.
func (p *Progress) Read() int64 { return p.read.Load() }

// Events returns how many events were confirmed.
func (p *Progress) Events() int64 { return p.confirmed.Load() }

// Bytes returns how many bytes of events, keys included, were written.
func (p *Progress) Bytes() int64 { return p.written.Load() }

// Objects returns how many objects are finished.
func (p *Progress) Objects() int64 { return p.objects.Load() }

// Figures are what a replay came to.
type Figures struct {
	Objects ObjectFigures `json:"objects"`
	Events  EventFigures  `json:"events"`
	Bytes   int64         `json:"bytes"` // of events delivered, keys included
	Faults  []ObjectFault `json:"faults,omitempty"`
}

// ObjectFigures count objects.
type ObjectFigures struct {
	Finished  int `json:"finished"`       // replayed to their end now
	Damaged   int `json:"damaged"`        // of these, not readable in full
	DoneNow   int `json:"done_by_others"` // finished by another replayer meanwhile
	DoneSoFar int `json:"done_before"`
	TakenOver int `json:"taken_over"` // begun here, gone on with by another replayer
	Foreign   int `json:"foreign"`
	Failed    int `json:"failed"`
}

// EventFigures count events.
type EventFigures struct {
	Delivered   int64 `json:"delivered"`    // dead letters not included
	DeadLetters int64 `json:"dead_letters"` // never accepted by the destination, kept with the reason
	Skipped     int64 `json:"skipped"`      // confirmed by an earlier replay of the same object: duplicates avoided
	Twins       int64 `json:"twins"`        // stand in two objects and were delivered once: duplicates avoided
	Damaged     int64 `json:"damaged"`      // lines and ends of objects that could not be read
}

// ObjectFault is a fault and where it is.
type ObjectFault struct {
	Object string `json:"object"`
	Fault
}

// Report gathers what replays come to. It is safe for concurrent use.
type Report struct {
	mu      sync.Mutex // guards what follows
	figures Figures
	busy    map[string]bool
}

// Figures returns what there is so far.
func (r *Report) Figures() Figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.figures
	f.Faults = slices.Clone(f.Faults)
	return f
}

// Found adds what a plan says about objects that are not replayed.
func (r *Report) Found(p *Plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.figures.Objects.DoneSoFar += len(p.Done) + len(p.Damaged)
	r.figures.Objects.Foreign += len(p.Foreign)
	for _, key := range p.Foreign {
		r.figures.Faults = append(r.figures.Faults, ObjectFault{key, Fault{Reason: "its name is not that of an archived object; it was not read"}})
	}
}

func (r *Report) update(f func(*Figures)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.figures)
}

func (r *Report) elsewhere() { r.update(func(f *Figures) { f.Objects.DoneNow++ }) }

func (r *Report) finished(key string, m Mark) {
	r.update(func(f *Figures) {
		f.Objects.Finished++
		if m.Damaged == 0 {
			return
		}
		f.Objects.Damaged++
		f.Events.Damaged += int64(m.Damaged)
		for _, fault := range m.Faults {
			f.Faults = append(f.Faults, ObjectFault{key, fault})
		}
	})
}

func (r *Report) twin() { r.update(func(f *Figures) { f.Events.Twins++ }) }

func (r *Report) skipped(n int64) { r.update(func(f *Figures) { f.Events.Skipped += n }) }

func (r *Report) lost(key string, log *logrus.Entry) {
	log.WithField("object", key).Warn("another replayer has taken over an object because this one did not renew its claim in time; what was under way may arrive twice")
	r.update(func(f *Figures) { f.Objects.TakenOver++ })
}

func (r *Report) failed(key string, err error, log *logrus.Entry) {
	log.WithField("object", key).WithError(err).Error("an object could not be replayed to its end; the others go on, and the next replay goes on where this one stopped")
	r.update(func(f *Figures) {
		f.Objects.Failed++
		f.Faults = append(f.Faults, ObjectFault{key, Fault{Reason: err.Error()}})
	})
}

func (r *Report) sawBusy(key, by string, log *logrus.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy == nil {
		r.busy = map[string]bool{}
	}
	if !r.busy[by] {
		log.WithField("object", key).Infof("%s is replaying here too; its objects are left to it as long as it renews its claims", by)
	}
	r.busy[by] = true
}
