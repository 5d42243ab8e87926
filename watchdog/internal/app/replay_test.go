package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/journal"
	"spillway/watchdog/internal/replayer"
)

func TestApp_Run_replaysWhatWasDueBeforeItsStart(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	cfg := beside(t, c)
	out := filepath.Join(t.TempDir(), "replayed")
	cfg.AfterFailBack.Replay, cfg.AfterFailBack.After = true, 0
	cfg.AfterFailBack.Command = []string{"/bin/sh", "-c", `echo "$SPILLWAY_INSTANCE" > ` + out + `.tmp; mv ` + out + `.tmp ` + out}
	if f := check(t, cfg)["after_fail_back"]; f.Verdict != OK {
		t.Errorf("check-config: %+v", f)
	}
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.ReplayFile(), []byte(`{"schema":1,"due":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), Options{Config: cfg, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	var told []journal.Entry
	collectortest.Await(t, "the replay is done", func() bool {
		told, _, _ = journal.Read(cfg.JournalFile(), journal.Filter{Events: []string{replayer.Event}})
		return len(told) == 2
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(told[0].Sentence, "a replay of what stand-in wrote") || !strings.HasPrefix(told[1].Sentence, "the replay is done") {
		t.Errorf("the journal says %q and %q", told[0].Sentence, told[1].Sentence)
	}
	if got, err := os.ReadFile(out); err != nil || strings.TrimSpace(string(got)) != "stand-in" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCheck_ofAReplay_saysWhatItLacks(t *testing.T) {
	c := collectortest.Start(t, false, collectortest.Options{})
	cfg := beside(t, c)
	if _, found := check(t, cfg)["after_fail_back"]; found {
		t.Error("it is checked though it is off")
	}
	cfg.AfterFailBack.Replay, cfg.AfterFailBack.Collector = true, "/no/such/program"
	if f := check(t, cfg)["after_fail_back"]; f.Verdict != Failed || !strings.Contains(f.Text, "/no/such/program") {
		t.Errorf("got %+v", f)
	}
}
