package admission

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"pgregory.net/rapid"

	"spillway/shared/configfile"
)

// burden is a load that a test changes while the gate looks at it.
type burden struct {
	mu   sync.Mutex
	load Load
}

func (b *burden) set(l Load) {
	b.mu.Lock()
	b.load = l
	b.mu.Unlock()
}

func (b *burden) probe() Load {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.load
}

// stand runs a gate in the bubble of the calling test.
func stand(t *testing.T, cfg Config) (*Gate, *burden, *logtest.Hook) {
	t.Helper()
	logger, hook := logtest.NewNullLogger()
	b := &burden{load: Load{FreeBytes: -1}}
	g := New(cfg, b.probe, logrus.NewEntry(logger), prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	})
	return g, b, hook
}

// after lets d pass and everything settle.
func after(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func admitted(g *Gate) (post, pixel bool) {
	post, _, _ = g.Admit(Post)
	pixel, _, _ = g.Admit(Pixel)
	return post, pixel
}

func TestGate_Admit_followsEachLimit(t *testing.T) {
	off := DefaultConfig()
	off.MaxBacklogPercent, off.MinFreeDisk = 0, 0
	with := func(f func(*Config)) Config { c := off; f(&c); return c }
	cases := []struct {
		limit                      string
		cfg                        Config
		calm, shed, refuse, easing Load // easing is below the mark but above accept_again_at
	}{
		{"max_backlog_events", with(func(c *Config) { c.MaxBacklogEvents = 1000 }),
			Load{Events: 999}, Load{Events: 1000}, Load{Events: 1080}, Load{Events: 800}},
		{"max_backlog_bytes", with(func(c *Config) { c.MaxBacklogBytes = 1000 }),
			Load{Bytes: 999}, Load{Bytes: 1000}, Load{Bytes: 1080}, Load{Bytes: 800}},
		{"max_backlog_percent", with(func(c *Config) { c.MaxBacklogPercent = 90 }),
			Load{Bytes: 899, LimitBytes: 1000}, Load{Bytes: 900, LimitBytes: 1000}, Load{Bytes: 972, LimitBytes: 1000}, Load{Bytes: 721, LimitBytes: 1000}},
		{"min_free_disk", with(func(c *Config) { c.MinFreeDisk = 1080 }),
			Load{FreeBytes: 1081}, Load{FreeBytes: 1080}, Load{FreeBytes: 1000}, Load{FreeBytes: 1350}},
		{"max_outage", with(func(c *Config) { c.MaxOutage = 100 * time.Second }),
			Load{Outage: 99 * time.Second}, Load{Outage: 100 * time.Second}, Load{Outage: 108 * time.Second}, Load{Outage: 80 * time.Second}},
		{"max_in_flight", with(func(c *Config) { c.MaxInFlight = 1000 }),
			Load{InFlightBytes: 999}, Load{InFlightBytes: 1000}, Load{InFlightBytes: 1080}, Load{InFlightBytes: 800}},
	}
	for _, c := range cases {
		t.Run(c.limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, b, _ := stand(t, c.cfg)
				steps := []struct {
					name        string
					load        Load
					wait        time.Duration
					post, pixel bool
				}{
					{"calm", c.calm, interval, true, true},
					{"at the limit", c.shed, interval, false, true},
					{"a little below, long after", c.easing, time.Minute, false, true},
					{"at the second limit", c.refuse, interval, false, false},
					{"a little below, long after", c.easing, time.Minute, false, true},
					{"no load", Load{FreeBytes: 1 << 40}, time.Minute, true, true},
				}
				for _, s := range steps {
					b.set(s.load)
					after(s.wait)
					if post, pixel := admitted(g); post != s.post || pixel != s.pixel {
						t.Fatalf("%s: admitted post %v pixel %v, want %v %v (%s)", s.name, post, pixel, s.post, s.pixel, g.State())
					}
					if !s.post && !strings.Contains(g.State().Reason, c.limit) {
						t.Errorf("%s: reason %q does not name %s", s.name, g.State().Reason, c.limit)
					}
				}
			})
		})
	}
}

func TestGate_staysShutForTheDwell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.MaxBacklogEvents, cfg.MinDwell = 100, 3*time.Second
		g, b, hook := stand(t, cfg)
		b.set(Load{Events: 100, FreeBytes: -1})
		after(interval)
		b.set(Load{FreeBytes: 1 << 40})
		after(2 * time.Second)
		if post, _ := admitted(g); post {
			t.Fatal("POST admitted before the dwell was over")
		}
		if got := g.State().Reason; !strings.Contains(got, "100 events wait") {
			t.Errorf("reason during the dwell is %q, want the one that shut the gate", got)
		}
		after(time.Second)
		if post, _ := admitted(g); !post {
			t.Fatal("POST refused after the dwell")
		}
		var lines []string
		for _, e := range hook.AllEntries() {
			lines = append(lines, e.Message)
		}
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "answering POSTs 503") || !strings.HasPrefix(lines[1], "accepting all requests again after 3s") {
			t.Errorf("transitions logged as %q", lines)
		}
	})
}

func TestGate_Full_refusesAtOnceAndTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, _ := stand(t, DefaultConfig())
		g.Full("no space left on device")
		synctest.Wait()
		if post, pixel := admitted(g); post || pixel {
			t.Fatalf("admitted post %v pixel %v right after an append failed for room", post, pixel)
		}
		if got := g.State().Reason; !strings.Contains(got, "no space left on device") {
			t.Errorf("reason %q does not say what the append said", got)
		}
		after(DefaultConfig().MinDwell + interval)
		if post, pixel := admitted(g); !post || !pixel {
			t.Errorf("admitted post %v pixel %v after the dwell with no limit reached, want another try", post, pixel)
		}
		if got := testutil.ToFloat64(g.metrics.full); got != 1 {
			t.Errorf("full hints counted %v, want 1", got)
		}
	})
}

func TestGate_Refuse_overridesTheLoadUntilResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b, _ := stand(t, DefaultConfig())
		g.Refuse("stopping")
		after(time.Minute)
		ok, reason, wait := g.Admit(Pixel)
		if ok || reason != "stopping" || wait < 5*time.Second || wait > 15*time.Second {
			t.Fatalf("Admit = %v, %q, %v", ok, reason, wait)
		}
		if s := g.State(); s.Accepting || s.AcceptingPixels || s.Reason != "stopping" {
			t.Errorf("state is %+v", s)
		}
		b.set(Load{FreeBytes: 0})
		after(interval)
		g.Resume()
		if ok, reason, _ := g.Admit(Post); ok || reason != "too little disk space is left" {
			t.Errorf("after Resume on a full disk Admit = %v, %q", ok, reason)
		}
	})
}

func TestGate_Admit_allocatesNothing(t *testing.T) {
	logger, _ := logtest.NewNullLogger()
	g := New(DefaultConfig(), func() Load { return Load{} }, logrus.NewEntry(logger), nil)
	for range 2 {
		if n := testing.AllocsPerRun(1000, func() { g.Admit(Post); g.Admit(Pixel) }); n != 0 {
			t.Errorf("Admit allocates %v times while %s", n, g.State())
		}
		g.Refuse("stopping")
	}
}

// Whatever the load does, pixels are never refused while POSTs are taken, a load
// at or over a mark is refused at the next look, and one below every
// accept_again_at is accepted once the dwells are over.
func TestGate_property(t *testing.T) {
	type step struct {
		events int64
		pause  time.Duration
	}
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{rapid.Int64Range(0, 1200).Draw(rt, "events"), time.Duration(rapid.IntRange(50, 3000).Draw(rt, "ms")) * time.Millisecond}
		}), 1, 40).Draw(rt, "steps")
		var wrong string
		synctest.Test(t, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.MaxBacklogEvents = 1000
			g, b, _ := stand(t, cfg)
			for _, s := range steps {
				b.set(Load{Events: s.events, FreeBytes: -1})
				after(s.pause)
				post, pixel := admitted(g)
				if post && !pixel {
					wrong = "pixels refused while POSTs are taken"
				}
				if s.events >= 1000 && post || s.events >= 1080 && pixel {
					wrong = fmt.Sprintf("admitted post %v pixel %v with %d events", post, pixel, s.events)
				}
			}
			b.set(Load{Events: 799, FreeBytes: -1})
			after(3 * cfg.MinDwell)
			if post, pixel := admitted(g); !post || !pixel {
				wrong = "799 events for three dwells and still " + g.State().String()
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	cases := map[string]func(*Config){
		"max_backlog_events":  func(c *Config) { c.MaxBacklogEvents = -1 },
		"max_backlog_bytes":   func(c *Config) { c.MaxBacklogBytes = -1 },
		"max_backlog_percent": func(c *Config) { c.MaxBacklogPercent = 101 },
		"min_free_disk":       func(c *Config) { c.MinFreeDisk = -configfile.MiB },
		"max_outage":          func(c *Config) { c.MaxOutage = -1 },
		"max_in_flight":       func(c *Config) { c.MaxInFlight = -1 },
		"pixels_at":           func(c *Config) { c.PixelsAt = 0.9 },
		"accept_again_at":     func(c *Config) { c.AcceptAgainAt = 0 },
		"min_dwell":           func(c *Config) { c.MinDwell = -1 },
		"retry_after":         func(c *Config) { c.RetryAfter = time.Millisecond },
	}
	for key, spoil := range cases {
		c := DefaultConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), key+":") {
			t.Errorf("%s: Validate returned %v", key, err)
		}
	}
}

func BenchmarkGate_Admit(b *testing.B) {
	logger, _ := logtest.NewNullLogger()
	g := New(DefaultConfig(), func() Load { return Load{} }, logrus.NewEntry(logger), nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g.Admit(Post)
		}
	})
}
