package lifecycle_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"spillway/shared/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

func TestStack_Stop_runsAllInReverseOnce(t *testing.T) {
	s := lifecycle.NewStack(quiet())
	var ran []string
	for _, name := range []string{"spool", "delivery", "listener"} {
		s.OnStop(name, func(context.Context) error {
			ran = append(ran, name)
			if name == "delivery" {
				return errors.New("deadline")
			}
			return nil
		})
	}
	err := s.Stop(t.Context())
	if err == nil || !strings.Contains(err.Error(), "stop delivery: deadline") {
		t.Errorf("got %v, want the failing step by name", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if want := []string{"listener", "delivery", "spool"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}

func TestGroup_firstErrorEndsAll(t *testing.T) {
	g := lifecycle.NewGroup(t.Context())
	g.Go("waits", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	g.Go("fails", func(context.Context) error { return errors.New("disk gone") })
	if err := g.Wait(); err == nil || err.Error() != "fails: disk gone" {
		t.Errorf("got %v", err)
	}
}

func TestGroup_stopIsNoError(t *testing.T) {
	g := lifecycle.NewGroup(t.Context())
	g.Go("waits", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if err := g.Stop(); err != nil {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	g = lifecycle.NewGroup(ctx)
	g.Go("waits", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	cancel(errors.New("terminated signal received")) // as signal.NotifyContext does
	if err := g.Wait(); err != nil {
		t.Errorf("got %v", err)
	}
}
