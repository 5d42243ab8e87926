package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/shared/mode"
	"spillway/watchdog/internal/decide"
)

var pause = decide.Command{ID: "c1", Kind: decide.CommandPause, By: "person alice", Reason: "maintenance"}

// obeying notes every command and says so.
func obeying(got *[]decide.Command) Mind {
	return func(_ decide.Policy, s decide.State, o decide.Observation) (decide.State, decide.Decision, decide.Explain) {
		*got = append(*got, o.Commands...)
		d := decide.Decision{Verb: decide.None}
		for _, c := range o.Commands {
			d.Notes = append(d.Notes, decide.Note{Key: c.ID, Severity: decide.Info, Text: "paused"})
		}
		return s, d, decide.Explain{Summary: "as ordered"}
	}
}

func TestInbox_Give_isAnsweredBeforeTheNextPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []decide.Command
		b := newBench(t, obeying(&got))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		<-time.After(time.Second)
		begun := time.Now()
		answer, err := b.opts.Inbox.Give(ctx, pause)
		if err != nil {
			t.Fatal(err)
		}
		want := Answer{Command: "c1", Notes: []decide.Note{{Key: "c1", Severity: decide.Info, Text: "paused"}}, Summary: "as ordered"}
		if diff := cmp.Diff(want, answer); diff != "" {
			t.Error(diff)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %s", took)
		}
		if diff := cmp.Diff([]decide.Command{pause}, got); diff != "" {
			t.Error(diff)
		}
		// Who asks for the status after the answer sees what the order led to.
		if diff := cmp.Diff([]decide.Command{pause}, b.Snapshot().Observation.Commands); diff != "" {
			t.Error(diff)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestInbox_Give_waitsUntilTheEffectIsOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []decide.Command
		b := newBench(t, obeying(&got))
		b.saveErr = errors.New("no space left")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		time.AfterFunc(12*time.Second, func() { b.set(func() { b.saveErr = nil }) })
		begun := time.Now()
		if _, err := b.opts.Inbox.Give(ctx, pause); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 12*time.Second {
			t.Errorf("answered after %s, when nothing was on disk", took)
		}
		cancel()
		<-done
	})
}

func TestInbox_refusesWhatIsNoOrder(t *testing.T) {
	cases := map[string]func(*decide.Command){
		"kind":           func(c *decide.Command) { c.Kind = "explode" },
		"a reason":       func(c *decide.Command) { c.Reason = " " },
		"who gives it":   func(c *decide.Command) { c.By = "" },
		"a time to come": func(c *decide.Command) { c.For = -time.Second },
		"mode is":        func(c *decide.Command) { c.Kind = decide.CommandSwitch },
	}
	for want, change := range cases {
		c := pause
		change(&c)
		if _, err := NewInbox(t.TempDir(), quiet()).Give(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to speak of %q", err, want)
		}
		if err := Leave(t.TempDir(), c); err == nil {
			t.Errorf("%s: it was left all the same", want)
		}
	}
}

func TestInbox_takesWhatWasLeftOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []decide.Command
		b := newBench(t, obeying(&got))
		dir := b.opts.Inbox.dir
		left := decide.Command{Kind: decide.CommandPin, Mode: mode.Fallback, By: "person bob", Reason: "outage", For: time.Hour}
		for range 2 {
			if err := Leave(dir, left); err != nil {
				t.Fatal(err)
			}
		}
		for name, text := range map[string]string{"0.json": "{", "1.json": `{"kind":"pause"}`, "README": "mine"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b.run(t, time.Minute)
		if len(got) != 2 || got[0].ID == got[1].ID || got[0].For != time.Hour || got[0].Mode != mode.Fallback {
			t.Errorf("got %+v", got)
		}
		var names []string
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if diff := cmp.Diff([]string{"0.json.bad", "1.json.bad", "README"}, names); diff != "" {
			t.Error(diff)
		}
	})
}

func TestInbox_keepsWhatWasLeftUntilItsEffectIsOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []decide.Command
		b := newBench(t, obeying(&got))
		b.saveErr = errors.New("no space left")
		if err := Leave(b.opts.Inbox.dir, pause); err != nil {
			t.Fatal(err)
		}
		b.run(t, 7*time.Second)
		if _, err := os.Stat(filepath.Join(b.opts.Inbox.dir, "c1.json")); err != nil {
			t.Error(err)
		}
	})
}
