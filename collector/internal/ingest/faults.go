package ingest

import (
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"
)

// faultLog logs that storing fails when it begins to, when the reason changes,
// and when it works again; not once per request. It is safe for concurrent use.
type faultLog struct {
	log     *logrus.Entry
	failing atomic.Bool

	mu    sync.Mutex // guards what follows
	why   reason
	count uint64
}

func (f *faultLog) report(why reason, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if f.failing.Load() && f.why == why {
		return
	}
	f.failing.Store(true)
	f.why = why
	f.log.WithError(err).WithField("reason", string(why)).Error("events cannot be stored; trackers are told to send them again")
}

// clear says that storing has worked. It costs next to nothing when it always did.
func (f *faultLog) clear() {
	if !f.failing.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failing.CompareAndSwap(true, false) {
		f.log.WithField("refused", f.count).Info("events can be stored again")
		f.count, f.why = 0, ""
	}
}
