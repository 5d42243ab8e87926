package command_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
	"spillway/watchdog/internal/collectortest"
	"spillway/watchdog/internal/process"
	"spillway/watchdog/internal/remedy"
	"spillway/watchdog/internal/remedy/command"
	"spillway/watchdog/internal/remedy/remedytest"
)

func TestMain(m *testing.M) {
	collectortest.Main()
	m.Run()
}

func shell(script string) *command.Restarter {
	return command.New(command.Config{Restart: []string{"/bin/sh", "-c", script}})
}

func TestRestarter_keepsTheContract(t *testing.T) {
	remedytest.Run(t, func(t *testing.T) remedytest.Bench {
		c := collectortest.Start(t, true, collectortest.Options{})
		hang := filepath.Join(t.TempDir(), "hang")
		script := `if [ -e ` + hang + ` ]; then exec sleep 1000; fi; [ "$SPILLWAY_PID" = 0 ] || kill "$SPILLWAY_PID"`
		return remedytest.Bench{
			Restarter: shell(script), Order: remedytest.Order(c), Acts: c.Starts,
			Switched: func() bool {
				c.Await("it runs the fallback", func(r *healthapi.Report) bool { return r.Mode == "fallback" })
				return c.Starts() == 2
			},
			Blocked: func() remedy.Order {
				if err := os.WriteFile(hang, nil, 0o600); err != nil {
					t.Error(err)
				}
				return remedy.Order{}
			},
		}
	})
}

func TestRestarter_Switch_tellsTheCommandWhatItIsFor(t *testing.T) {
	text, err := shell(`echo "$SPILLWAY_MODE $SPILLWAY_ACTION_ID $SPILLWAY_PID $SPILLWAY_REASON"; echo also >&2`).Switch(t.Context(),
		remedy.Order{ActionID: "a7", Mode: mode.Fallback, Reason: "two words", Process: process.Identity{PID: 42}})
	if want := "fallback a7 42 two words\nalso"; err != nil || text != want {
		t.Errorf("got %q, %v; want %q", text, err, want)
	}
}

func TestRestarter_Switch_keepsTheBeginningOfMuchOutput(t *testing.T) {
	text, err := shell(`printf 'begin\377'; head -c 100000 /dev/zero | tr '\0' x; exit 3`).Switch(t.Context(), remedy.Order{})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
	if len(text) > 9000 || !strings.HasPrefix(text, "begin?x") || !strings.HasSuffix(text, " bytes more]") {
		t.Errorf("got %d bytes: %.20q ... %q", len(text), text, text[max(0, len(text)-30):])
	}
}

func TestRestarter_Switch_killsTheWholeCommandAtTheDeadline(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := shell(`sleep 1000 & echo $! >`+pidFile+`.tmp; mv `+pidFile+`.tmp `+pidFile+`; wait`).Switch(ctx, remedy.Order{})
		done <- err
	}()
	var child int
	collectortest.Await(t, "the command has a child", func() bool {
		data, err := os.ReadFile(pidFile)
		if err != nil {
			return false
		}
		for _, digit := range strings.TrimSpace(string(data)) {
			child = child*10 + int(digit-'0')
		}
		return true
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("got %v", err)
	}
	collectortest.Await(t, "the child is gone too", func() bool {
		stat, err := process.Look(child)
		return errors.Is(err, process.ErrGone) || stat.State == 'Z'
	})
}

func TestRestarter_Switch_doesNotWaitForWhatItLeavesBehind(t *testing.T) {
	begun := time.Now()
	text, err := shell(`setsid sleep 1000 & echo left $!`).Switch(t.Context(), remedy.Order{})
	if err != nil || !strings.HasPrefix(text, "left ") {
		t.Errorf("got %q, %v", text, err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	var pid int
	for _, digit := range strings.TrimPrefix(text, "left ") {
		pid = pid*10 + int(digit-'0')
	}
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

func TestRestarter_Check_findsTheProgram(t *testing.T) {
	absent := command.New(command.Config{Restart: []string{"/bin/sh"}, Start: []string{"/no/such/program"}})
	if err := absent.Check(t.Context(), process.Identity{}); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("got %v", err)
	}
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	for key, cfg := range map[string]command.Config{"restart": {}, "start": {Restart: []string{"x"}, Start: []string{""}}} {
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("got %v, want %s", err, key)
		}
	}
}
