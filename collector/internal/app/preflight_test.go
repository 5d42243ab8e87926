package app

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
)

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

func TestPreflight_findsABrokenFallbackAndItsRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var broken atomic.Pointer[error]
		var checks atomic.Int32
		var used atomic.Bool
		p := newPreflight(quiet(), func() fallbackUse { return fallbackUse{used: used.Load()} })
		go func() { _ = p.run(ctx) }()
		synctest.Wait()
		if got := p.report(); got.Configured || got.Ready || checks.Load() != 0 {
			t.Fatalf("without a fallback: %+v after %d checks", got, checks.Load())
		}

		denied := errors.New("AccessDenied: s3:PutObject")
		broken.Store(&denied)
		p.replace(func(context.Context) error {
			checks.Add(1)
			if err := broken.Load(); err != nil {
				return *err
			}
			return nil
		})
		synctest.Wait()
		if got := p.report(); !got.Configured || !got.Valid || got.Ready || got.LastError == "" || got.LastCheckAt == nil {
			t.Fatalf("broken fallback: %+v", got)
		}

		broken.Store(nil)
		<-time.After(preflightRetry + time.Second)
		synctest.Wait()
		if got := p.report(); !got.Ready || got.LastError != "" || checks.Load() != 2 {
			t.Fatalf("mended fallback: %+v after %d checks", got, checks.Load())
		}

		used.Store(true) // its own writes say more than a check
		<-time.After(3 * preflightEvery)
		if checks.Load() != 2 {
			t.Errorf("%d checks of a fallback that is in use", checks.Load())
		}
		cancel()
		synctest.Wait()
	})
}

func TestPreflight_checkThatHangsIsABrokenFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := newPreflight(quiet(), func() fallbackUse { return fallbackUse{} })
		p.replace(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		go func() { _ = p.run(ctx) }()
		<-time.After(preflightTimeout + time.Second)
		if got := p.report(); got.Ready || got.LastError == "" {
			t.Errorf("got %+v", got)
		}
		cancel()
		synctest.Wait()
	})
}

func TestPreflight_inUse_itsWritesDecide(t *testing.T) {
	var use fallbackUse
	p := newPreflight(quiet(), func() fallbackUse { return use })
	p.replace(func(context.Context) error { return errors.New("NoSuchBucket") })
	p.once(t.Context())
	use = fallbackUse{used: true}
	if got := p.report(); got.Ready || got.LastError == "" {
		t.Errorf("in use, not tried yet: %+v, want the verdict of the check", got)
	}
	use.wrote = true
	if got := p.report(); !got.Ready || got.LastError != "" {
		t.Errorf("in use, written: %+v", got)
	}
	use.failing = true
	if got := p.report(); got.Ready {
		t.Errorf("in use, failing: %+v", got)
	}
}
