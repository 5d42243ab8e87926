package spool

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spillway/collector/internal/spool/vfs/vfstest"
)

// A disk that hangs gives no error; how long it has been writing is all there is
// to see, and appends end with their context.
func TestLog_Stats_showsADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		l, err := Open("spool", small(), Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Append(t.Context(), []Record{{At: time.Now(), Key: "k", Data: []byte("first")}}); err != nil {
			t.Fatal(err)
		}
		if got := l.Stats().WritingFor; got != 0 {
			t.Fatalf("writing for %v at rest", got)
		}
		var hangs atomic.Bool
		release := make(chan struct{})
		hangs.Store(true)
		fs.Before(func(op vfstest.Op) vfstest.Fault {
			if op.Kind == "sync" && hangs.Load() {
				<-release
			}
			return vfstest.None
		})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		err = l.Append(ctx, []Record{{At: time.Now(), Key: "k", Data: []byte("second")}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("append to a disk that hangs: %v", err)
		}
		if got := l.Stats().WritingFor; got != 4*time.Second {
			t.Errorf("writing for %v, want 4s", got)
		}
		hangs.Store(false)
		close(release)
		if err := l.Append(t.Context(), []Record{{At: time.Now(), Key: "k", Data: []byte("third")}}); err != nil {
			t.Errorf("append after the disk came back: %v", err)
		}
		if got := l.Stats().WritingFor; got != 0 {
			t.Errorf("writing for %v after the disk came back", got)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
