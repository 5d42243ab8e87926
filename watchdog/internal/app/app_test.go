package app

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"spillway/shared/mode"
	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/config"
)

func TestMain(m *testing.M) {
	collectortest.Main()
	goleak.VerifyTestMain(m)
}

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

func beside(t *testing.T, c *collectortest.Collector) config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.Instance = "box-1"
	cfg.StateDir = filepath.Join(filepath.Dir(c.Options.ModeFile), "w")
	cfg.ModeFile = c.Options.ModeFile
	cfg.Listen = ""
	cfg.Collector.Admin.Address = "unix:" + c.Options.Socket
	cfg.Collector.Probe.PublicAddress = ""
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func check(t *testing.T, cfg config.Config) map[string]Finding {
	t.Helper()
	findings, err := Check(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Finding{}
	for _, f := range findings {
		by[f.What] = f
		if f.Text == "" {
			t.Errorf("%s has no text", f.What)
		}
	}
	return by
}

func TestCheck_ofAWellBuiltBox(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	before, err := os.ReadDir(filepath.Dir(c.Options.ModeFile))
	if err != nil {
		t.Fatal(err)
	}
	for what, f := range check(t, beside(t, c)) {
		if f.Verdict != OK {
			t.Errorf("%s: %s %s", what, f.Verdict, f.Text)
		}
	}
	after, err := os.ReadDir(filepath.Dir(c.Options.ModeFile))
	if err != nil || len(after) != len(before) {
		t.Errorf("the check left something behind: %v, %v", after, err)
	}
}

func TestCheck_findsWhatWouldNotWork(t *testing.T) {
	cases := map[string]struct {
		options collectortest.Options
		change  func(c *collectortest.Collector, cfg *config.Config)
		what    string
		want    Verdict
		text    string
	}{
		"a signal would kill": {collectortest.Options{Trapless: true}, func(*collectortest.Collector, *config.Config) {},
			"flush", Warning, "no handler for SIGUSR1; the flush will be asked for by POST /flush"},
		"the fallback fails": {collectortest.Options{}, func(c *collectortest.Collector, _ *config.Config) {
			c.SetWorld(collectortest.World{FallbackDown: true})
		}, "fallback", Failed, "would not work now"},
		"the mode file is damaged": {collectortest.Options{}, func(c *collectortest.Collector, _ *config.Config) {
			_ = os.WriteFile(c.Options.ModeFile, []byte("{"), 0o600)
		}, "mode_file", Failed, "not usable"},
		"the mode is pinned": {collectortest.Options{}, func(c *collectortest.Collector, _ *config.Config) {
			c.SetMode(mode.File{Mode: mode.Primary, By: "person bob", Reason: "x", Pinned: true})
		}, "mode_file", Warning, "is pinned"},
		"no such command": {collectortest.Options{}, func(_ *collectortest.Collector, cfg *config.Config) {
			cfg.Restarter.Use, cfg.Restarter.Command.Restart = config.UseCommand, []string{"/no/such/program"}
		}, "restarter", Failed, "/no/such/program"},
		"nobody answers": {collectortest.Options{}, func(_ *collectortest.Collector, cfg *config.Config) {
			cfg.Collector.Admin.Address = "unix:/no/such.sock"
		}, "collector", Warning, "no health report"},
		"the state cannot be kept": {collectortest.Options{}, func(c *collectortest.Collector, cfg *config.Config) {
			cfg.StateDir = c.Options.Socket + "/w"
		}, "state_dir", Failed, "cannot be written"},
	}
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			c := collectortest.Start(t, false, k.options)
			cfg := beside(t, c)
			k.change(c, &cfg)
			f := check(t, cfg)[k.what]
			if f.Verdict != k.want || !strings.Contains(f.Text, k.text) {
				t.Errorf("got %s %q, want %s %q", f.Verdict, f.Text, k.want, k.text)
			}
		})
	}
}

func TestLook_changesNothing(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	cfg := beside(t, c)
	s, err := Look(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if s.LastReport == nil || s.Explain.Summary == "" || s.Instance != "box-1" {
		t.Errorf("got %+v", s)
	}
	if _, err := os.Stat(cfg.StateDir); !os.IsNotExist(err) {
		t.Errorf("the state directory: %v", err)
	}
}

func TestRestartNeeded_namesWhatAReloadDoesNotApply(t *testing.T) {
	was, now := config.Default(), config.Default()
	now.Policy.DryRun, now.Log.Level = true, "debug"
	if got := restartNeeded(was, now); got != nil {
		t.Errorf("policy and log level: got %v", got)
	}
	now.StateDir, now.Log.Format, now.Collector.Probe.Instance = "/x", "json", "y"
	if got, want := restartNeeded(was, now), []string{"state_dir", "collector", "log"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNew_isRefusedWhileAnotherIsAtWork(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	cfg := beside(t, c)
	a, err := New(t.Context(), Options{Config: cfg, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Addrs(); len(got) != 1 || got[0] != cfg.ControlSocket() {
		t.Errorf("it listens on %v", got)
	}
	if _, err := New(t.Context(), Options{Config: cfg, Log: quiet()}); err == nil || !strings.Contains(err.Error(), "another watchdog is at work") {
		t.Errorf("a second one: got %v", err)
	}
	if err := a.stack.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	again, err := New(t.Context(), Options{Config: cfg, Log: quiet()})
	if err != nil {
		t.Fatalf("after the first has stopped: %v", err)
	}
	if err := again.stack.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
