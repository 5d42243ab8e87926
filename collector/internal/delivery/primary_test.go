package delivery

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/sinktest"
)

func TestPrimary_survivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := statePath(t)
		l := build(t, setup{primary: OpenPrimary(path, nil)})
		l.run()
		l.queue.add(10, 100)
		l.queue.waitAcked(10)
		after(10 * time.Second)
		l.sink.Always(sinktest.Fail(sink.Transient, sinktest.Down()))
		l.queue.add(10, 100)
		after(time.Hour)
		l.stop()

		after(time.Hour) // the collector is down
		again := build(t, setup{primary: OpenPrimary(path, nil), queue: l.queue})
		k := *again.Status().Primary
		if k.LastWriteAgeSeconds == nil || *k.LastWriteAgeSeconds < 7200 || *k.LastWriteAgeSeconds > 7300 {
			t.Errorf("last write age is %v s after the restart, want about two hours", *k.LastWriteAgeSeconds)
		}
		if got := again.OutageFor(); got < 119*time.Minute || got > 121*time.Minute {
			t.Errorf("outage for %v after the restart, want about two hours", got)
		}
		again.run()
		again.queue.mu.Lock()
		again.queue.next = 10 // a new life hands out again what was not acked
		again.queue.change()
		again.queue.mu.Unlock()
		again.queue.waitAcked(20)
		after(0)
		if got := again.OutageFor(); got != 0 {
			t.Errorf("outage for %v after a write", got)
		}
		again.stop()
		if _, out := OpenPrimary(path, nil).OutageSince(); out {
			t.Error("the file still says outage")
		}
	})
}

func TestPrimary_throttlingIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := build(t, setup{primary: OpenPrimary(statePath(t), nil)})
		l.sink.Always(sinktest.Fail(sink.Throttled, sinktest.Over()))
		l.queue.add(100, 100)
		l.run()
		after(10 * time.Minute)
		s := l.Status()
		if s.OutageFor != 0 || s.Primary.OutageSince != nil || s.Sink.ConsecutiveFailures != 0 || s.Sink.Circuit != "closed" {
			t.Errorf("throttled for ten minutes the status is %+v, primary %+v", s.Sink, *s.Primary)
		}
		if s.Primary.ErrorClass != "throttled" || s.Sink.ErrorClass != "throttled" {
			t.Errorf("error class is %q and %q", s.Primary.ErrorClass, s.Sink.ErrorClass)
		}
		if calls := l.sink.Calls(); calls > 700 {
			t.Errorf("%d requests in ten minutes of throttling everything", calls)
		}
		l.sink.Always(sinktest.OK())
		began := time.Now()
		l.queue.waitAcked(100)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("100 records took %v after the throttling ended", took)
		}
	})
}

func TestOpenPrimary_clampsAClockThatWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := statePath(t)
		future := time.Now().Add(time.Hour)
		data, err := json.Marshal(primaryFile{Schema: 1, LastWriteAt: &future, OutageSince: &future})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o640); err != nil {
			t.Fatal(err)
		}
		p := OpenPrimary(path, nil)
		after(time.Minute)
		if k := p.Report(); *k.LastWriteAgeSeconds != 60 {
			t.Errorf("age is %v s, want 60: from the start on", *k.LastWriteAgeSeconds)
		}
	})
}

func TestOpenPrimary_startsAfreshFromAnUnreadableFile(t *testing.T) {
	logger, hook := logtest.NewNullLogger()
	path := statePath(t)
	if err := os.WriteFile(path, []byte("{half"), 0o640); err != nil {
		t.Fatal(err)
	}
	p := OpenPrimary(path, logrus.NewEntry(logger))
	if k := p.Report(); k.LastWriteAt != nil || k.OutageSince != nil {
		t.Errorf("remembered %+v", k)
	}
	if len(hook.AllEntries()) != 1 {
		t.Errorf("%d lines logged, want 1", len(hook.AllEntries()))
	}
}

func TestPrimary_run_writesSeldomAndLogsFailureOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, hook := logtest.NewNullLogger()
		dir := filepath.Join(t.TempDir(), "gone")
		p := OpenPrimary(filepath.Join(dir, "primary.json"), logrus.NewEntry(logger))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.run(ctx); close(done) }()
		for range 120 {
			p.wrote(time.Now())
			after(time.Second / 2)
		}
		if n := len(hook.AllEntries()); n != 1 {
			t.Errorf("%d lines logged while the directory is missing, want 1", n)
		}
		if err := os.Mkdir(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		after(saveEvery)
		if n := len(hook.AllEntries()); n != 2 {
			t.Errorf("%d lines logged after the directory is there, want 2", n)
		}
		written, last := 0, ""
		for range 120 {
			p.wrote(time.Now())
			after(time.Second / 2)
			if data, err := os.ReadFile(p.path); err == nil && string(data) != last {
				written, last = written+1, string(data)
			}
		}
		if written < 10 || written > 13 {
			t.Errorf("the file was written %d times in a minute of writes, want about every 5 s", written)
		}
		p.failed(sinktest.Down(), time.Now())
		after(time.Second)
		if data, _ := os.ReadFile(p.path); string(data) == last {
			t.Error("an outage was not written within a second")
		}
		cancel()
		<-done
	})
}
