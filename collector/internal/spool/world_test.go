package spool

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"spillway/collector/internal/spool/vfs/vfstest"
)

// fate is what is known of a record that was appended.
type fate int

const (
	maybe fate = iota // the append failed or was under way at a crash: it may be found
	owed              // the append returned nil: it must be found
	acked             // acked, not known to be saved: it may be found
	gone              // saved as acked, or not found after a crash: it must not be found
)

// life is a record in the model.
type life struct {
	fate fate
	size int
	seq  uint64 // once known
}

// world drives a log over a file system that crashes, and keeps a model of what
// the log owes. Every choice comes from choose, so that a run can be repeated.
type world struct {
	choose  vfstest.Choose
	cfg     Config
	fs      *vfstest.FS
	log     *Log
	records []life
	unread  int   // records below were handed out in this life, or failed
	handed  []int // handed out in this life and not acked
	faults  int   // one operation in so many fails; 0 is none
	images  int   // disks to look at before each operation, as the power might leave them
	checked int   // disks looked at
	failed  string
}

func newWorld(choose vfstest.Choose, images, faults int) *world {
	w := &world{choose: choose, cfg: small(), images: images, faults: faults}
	if choose(3) == 0 {
		w.cfg.SegmentBytes = 32 << 10
	}
	w.start(vfstest.New())
	return w
}

// start opens the log on a disk. Only the committer runs beside: acks are saved
// when the world says so.
func (w *world) start(fs *vfstest.FS) {
	w.fs = fs
	w.log = nil
	fs.Before(w.before)
	log, err := open("mem", w.cfg, Options{FS: fs})
	if err != nil {
		w.fail("open: %v", err)
		return
	}
	log.wait.Go(log.commitLoop)
	w.log, w.unread, w.handed = log, 0, w.handed[:0]
}

func (w *world) fail(format string, args ...any) {
	if w.failed == "" {
		w.failed = fmt.Sprintf(format, args...) + fmt.Sprintf("\nfiles: %v", w.fs.Names())
	}
}

// before looks at what a crash at this moment would leave, and chooses a fault.
func (w *world) before(op vfstest.Op) vfstest.Fault {
	for range w.images {
		if w.failed != "" {
			break
		}
		image := w.fs.Crash(w.choose)
		w.look(image, op)
	}
	if w.log != nil && op.Name == acksName && w.choose(3) == 0 {
		w.ack() // while acks are saved
	}
	if w.faults > 0 && w.choose(w.faults) == 0 {
		return vfstest.NotApplied + vfstest.Fault(w.choose(2))
	}
	return vfstest.None
}

// look opens a disk after a crash and compares what is in it with the model.
func (w *world) look(image *vfstest.FS, op vfstest.Op) []int {
	w.checked++
	when := fmt.Sprintf("crash before operation %d (%s %s)", op.N, op.Kind, op.Name)
	log, err := open("mem", w.cfg, Options{FS: image})
	if err != nil {
		w.fail("%s: open: %v", when, err)
		return nil
	}
	ids := w.read(log, when)
	if s := log.Stats(); s.CorruptRecords+s.DamagedSegments+s.MissingSegments+s.DiskErrors > 0 || s.ForeignFiles > 0 {
		w.fail("%s: a crash alone was reported as damage: %+v", when, s)
	}
	next := 0
	for _, id := range ids {
		for ; next < id; next++ {
			w.absent(next, when)
		}
		if w.records[id].fate == gone {
			w.fail("%s: record %d is back", when, id)
		}
		next = id + 1
	}
	for ; next < len(w.records); next++ {
		w.absent(next, when)
	}
	log.reader.release(log)
	return ids
}

func (w *world) absent(id int, when string) {
	if w.records[id].fate == owed {
		w.fail("%s: record %d (seq %d) is lost", when, id, w.records[id].seq)
	}
}

// read returns the ids of all that a log hands out, and checks order and content.
func (w *world) read(log *Log, when string) []int {
	var ids []int
	last, lastSeq := -1, uint64(0)
	for w.failed == "" {
		records, err := log.collect(1+w.choose(50), int64(1+w.choose(5000)))
		if err != nil {
			w.fail("%s: read: %v", when, err)
		}
		if len(records) == 0 {
			break
		}
		for _, r := range records {
			id := w.identify(r, when)
			if id <= last || r.Seq <= lastSeq {
				w.fail("%s: record %d (seq %d) comes after %d (seq %d)", when, id, r.Seq, last, lastSeq)
			}
			last, lastSeq = id, r.Seq
			ids = append(ids, id)
		}
	}
	return ids
}

// identify checks that a record is one that was appended, and returns which.
func (w *world) identify(r Record, when string) int {
	id := int(r.At.UnixMilli())
	if id < 0 || id >= len(w.records) {
		w.fail("%s: record %+v was never appended", when, r)
		return -1
	}
	want := content(id, w.records[id].size)
	if r.Key != want.Key || !bytes.Equal(r.Data, want.Data) {
		w.fail("%s: record %d has another content", when, id)
	}
	switch known := w.records[id].seq; {
	case known == 0:
		w.records[id].seq = r.Seq
	case known != r.Seq:
		w.fail("%s: record %d had seq %d and has %d", when, id, known, r.Seq)
	}
	return id
}

// content makes a record from its number.
func content(id, size int) Record {
	data := make([]byte, size)
	for i := 0; i+8 <= size; i += 8 {
		binary.LittleEndian.PutUint64(data[i:], uint64(id)<<32|uint64(i))
	}
	return Record{At: time.UnixMilli(int64(id)), Key: strings.Repeat("k", id%5) + fmt.Sprint(id), Data: data}
}

// step does one thing.
func (w *world) step() {
	switch n := w.choose(10); {
	case n < 5:
		w.append()
	case n < 7:
		w.handOut()
	case n < 9:
		w.ack()
	default:
		w.sync()
	}
}

func (w *world) append() {
	n := 1 + w.choose(4)*w.choose(4)
	most := int(w.cfg.SegmentBytes) - dataOffset - headerSize - 16
	first := len(w.records)
	var records []Record
	for range n {
		size := w.choose(700)
		switch w.choose(12) {
		case 0:
			size = most - w.choose(3)
		case 1:
			size = w.choose(most)
		}
		records = append(records, content(len(w.records), size))
		w.records = append(w.records, life{size: size})
	}
	if err := w.log.Append(nopContext{}, records); err == nil {
		for id := first; id < len(w.records); id++ {
			w.records[id].fate = owed
		}
	} else if w.faults == 0 {
		w.fail("append: %v", err)
	}
}

func (w *world) handOut() {
	records, err := w.log.collect(1+w.choose(8), 1<<20)
	if err != nil {
		w.fail("read: %v", err)
	}
	for _, r := range records {
		id := w.identify(r, "read")
		if w.failed != "" {
			return
		}
		for ; w.unread < id; w.unread++ {
			if w.records[w.unread].fate == owed {
				w.fail("record %d was passed over", w.unread)
			}
		}
		if id < w.unread {
			w.fail("record %d was handed out twice, or too late", id)
		}
		if f := w.records[id].fate; f == gone {
			w.fail("record %d was handed out and is %d", id, f)
		}
		w.unread = id + 1
		w.handed = append(w.handed, id)
	}
}

func (w *world) ack() {
	for n := w.choose(len(w.handed) + 1); n > 0; n-- {
		i := w.choose(len(w.handed))
		if w.choose(3) > 0 {
			i = 0
		}
		id := w.handed[i]
		w.handed = append(w.handed[:i], w.handed[i+1:]...)
		w.log.Ack(w.records[id].seq)
		w.records[id].fate = acked
	}
}

func (w *world) sync() {
	if err := w.saved(w.log.Sync); err != nil && w.faults == 0 {
		w.fail("sync: %v", err)
	}
}

// saved calls f, which saves the acks made before it if it returns nil.
func (w *world) saved(f func() error) error {
	var before []int
	for id := range w.records {
		if w.records[id].fate == acked {
			before = append(before, id)
		}
	}
	err := f()
	if err == nil {
		for _, id := range before {
			w.records[id].fate = gone
		}
	}
	return err
}

// crash cuts the power and goes on with what is left; or, now and then, closes
// the log in good order.
func (w *world) crash() {
	if w.failed != "" {
		return
	}
	if w.choose(5) == 0 {
		_ = w.saved(w.log.Close)
	} else {
		w.log.abort()
	}
	w.fs.Before(nil)
	image := w.fs.Crash(w.choose)
	found := w.look(image, vfstest.Op{N: w.fs.Ops(), Kind: "end"})
	if w.failed != "" {
		return
	}
	// What was not found now will not be found later; what was, will.
	next := 0
	for _, id := range append(found, len(w.records)) {
		for ; next < id; next++ {
			w.records[next].fate = gone
		}
		if id < len(w.records) {
			w.records[id].fate = owed
		}
		next = id + 1
	}
	// look opened the disk and left it: that was a life of its own, which the power
	// ended too.
	w.start(image.Crash(w.choose))
}

func (w *world) end() {
	if w.log != nil {
		w.log.abort()
	}
}

// abort ends the log as a kill would: nothing is saved.
func (l *Log) abort() {
	l.closeOnce.Do(func() {
		l.mu.Lock()
		l.closing, l.queue, l.commit.tail = true, nil, nil
		l.work.Broadcast()
		l.mu.Unlock()
		close(l.stop)
		l.wait.Wait()
		l.metrics.unregister()
		_ = l.lock.Close()
	})
}
