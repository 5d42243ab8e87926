package replayer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"spillway/watchdog/internal/collectortest"
)

// childScript names the environment variable that makes this test's program
// behave like a replay; childReady the file that a child makes when it is ready.
const (
	childScript = "SPILLWAY_REPLAYER_CHILD"
	childReady  = "SPILLWAY_REPLAYER_READY"
)

const report = `{
  "objects": {"finished": 12, "damaged": 0, "done_by_others": 0, "done_before": 3, "taken_over": 0, "foreign": 0, "failed": 0},
  "events": {"delivered": 34567, "dead_letters": 0, "skipped": 90, "twins": 10, "damaged": 0},
  "bytes": 50000000, "objects_selected": 12, "bytes_selected": 1000, "seconds": 90.1, "stopped": false
}`

// child is what the child process does; it returns the exit code.
func child(script string) int {
	switch script {
	case "args":
		fmt.Fprintf(os.Stderr, "%s\n%s %s\n", strings.Repeat("x", 2*maxOutputBytes), os.Getenv("SPILLWAY_INSTANCE"), strings.Join(os.Args[1:], " "))
		fmt.Println(report)
		return 0
	case "fail":
		fmt.Fprintln(os.Stderr, "first line\nno credentials")
		return 2
	case "much":
		fmt.Print(strings.Repeat(" ", maxReportBytes), report)
		return 0
	}
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM)
	if err := os.WriteFile(os.Getenv(childReady), nil, 0o600); err != nil {
		return 3
	}
	<-stopped
	fmt.Println(strings.Replace(report, `"stopped": false`, `"stopped": true`, 1))
	return 1
}

// command returns a Command whose program is this test's own, as a child that
// follows script.
func command(t *testing.T, script string) Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childScript, script)
	cfg := DefaultConfig()
	cfg.Collector = self
	return Command{Config: cfg, Admin: "127.0.0.1:9091"}
}

func TestCommand_Run_asksTheCollectorForThisBoxAlone_andReadsItsReport(t *testing.T) {
	o := command(t, "args").Run(t.Context(), "box-1")
	want := "box-1 replay --json --config /etc/spillway/collector.yaml --fallback-config /etc/spillway/collector-fallback.yaml " +
		"--instance box-1 --rate 1000/s --bandwidth 5MiB/s --yield-to http://127.0.0.1:9091"
	if o.Err != nil || !strings.HasSuffix(o.Output, "\n"+want) {
		t.Errorf("got %v, %q", o.Err, o.Output)
	}
	if len(o.Output) > maxOutputBytes {
		t.Errorf("%d bytes of output were kept", len(o.Output))
	}
	if r := o.Report; r == nil || r.Objects.Finished != 12 || r.Events.Delivered != 34567 || r.Bytes != 50000000 || o.Took <= 0 {
		t.Errorf("got report %+v after %s", r, o.Took)
	}
}

func TestCommand_Run_toldToStop_letsTheReplayEndAndSaysWhy(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	t.Setenv(childReady, ready)
	c := command(t, "wait")
	ctx, halt := context.WithCancelCause(t.Context())
	done := make(chan Outcome)
	go func() { done <- c.Run(ctx, "box-1") }()
	collectortest.Await(t, "the child is ready", func() bool {
		_, err := os.Stat(ready)
		return err == nil
	})
	why := errors.New("the mode is diverting")
	halt(why)
	o := <-done
	if !errors.Is(o.Err, why) || o.Report == nil || !o.Report.Stopped {
		t.Errorf("got %v, report %+v", o.Err, o.Report)
	}
	if o.Took > grace {
		t.Errorf("it took %s: it was killed", o.Took)
	}
}

func TestCommand_Run_thatFails_saysWhatTheProgramSaid(t *testing.T) {
	o := command(t, "fail").Run(t.Context(), "box-1")
	if exit, ok := errors.AsType[*exec.ExitError](o.Err); !ok || exit.ExitCode() != 2 || o.Report != nil || o.lastLine() != "no credentials" || o.finished() {
		t.Errorf("got %v, report %+v, %q", o.Err, o.Report, o.Output)
	}
	c := command(t, "fail")
	c.Config.Collector = "/no/such/program"
	if o := c.Run(t.Context(), "box-1"); o.Err == nil || !strings.Contains(o.Err.Error(), "run /no/such/program: ") || o.finished() {
		t.Errorf("a program that is not there: got %v", o.Err)
	}
}

func TestCommand_Run_keepsNoMoreOfAReportThanItWill(t *testing.T) {
	o := command(t, "much").Run(t.Context(), "box-1")
	if o.Err != nil || o.Report != nil || !o.finished() || !strings.Contains(o.sums(), "no report") {
		t.Errorf("got %v, report %+v, %q", o.Err, o.Report, o.sums())
	}
}

func TestOutcome_finished_whenAllIsReplayedThatCanBe(t *testing.T) {
	one := command(t, "wait") // its report cannot be told to, so it exits with 3
	three := one.Run(t.Context(), "box-1").Err
	for name, c := range map[string]struct {
		exit   string
		report string
		want   bool
	}{
		"all of it":             {"exit 0", report, true},
		"damaged":               {"exit 1", strings.Replace(report, `"damaged": 0`, `"damaged": 2`, 1), true},
		"foreign":               {"exit 1", strings.Replace(report, `"foreign": 0`, `"foreign": 1`, 1), true},
		"nothing is the matter": {"exit 1", report, false},
		"damaged and stopped":   {"exit 1", strings.NewReplacer(`"damaged": 0`, `"damaged": 2`, `false`, `true`).Replace(report), false},
		"damaged and failed":    {"exit 1", strings.NewReplacer(`"damaged": 0`, `"damaged": 2`, `"failed": 0`, `"failed": 1`).Replace(report), false},
		"another exit code":     {"exit 2", strings.Replace(report, `"damaged": 0`, `"damaged": 2`, 1), false},
		"no report":             {"exit 1", "{}", false},
	} {
		cfg := DefaultConfig()
		cfg.Command = []string{"/bin/sh", "-c", "echo '" + c.report + "'; " + c.exit}
		if got := (Command{Config: cfg}).Run(t.Context(), "box-1"); got.finished() != c.want {
			t.Errorf("%s: got %v (%v, %+v)", name, !c.want, got.Err, got.Report)
		}
	}
	if (Outcome{Err: three}).finished() {
		t.Error("exit 3 without a report")
	}
}

func TestConfig_Validate_namesTheKey(t *testing.T) {
	for key, change := range map[string]func(c *Config){
		"after":           func(c *Config) { c.After = -time.Second },
		"timeout":         func(c *Config) { c.Timeout = -time.Second },
		"rate":            func(c *Config) { c.Rate = "fast" },
		"bandwidth":       func(c *Config) { c.Bandwidth = "0B/s" },
		"command":         func(c *Config) { c.Command = []string{""} },
		"collector":       func(c *Config) { c.Collector = "spillway-collector" },
		"config":          func(c *Config) { c.Config = "" },
		"fallback_config": func(c *Config) { c.FallbackConfig = "fallback.yaml" },
	} {
		cfg := DefaultConfig()
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("got %v, want %s", err, key)
		}
	}
}

func TestConfig_Check_saysWhatIsNotThere(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Collector = "/bin/sh"
	if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), "/etc/spillway/collector.yaml") {
		t.Errorf("configs that are not there: got %v", err)
	}
	cfg.Config, cfg.FallbackConfig = "/dev/null", "/dev/null"
	if err := cfg.Check(); err != nil {
		t.Error(err)
	}
	cfg.Command = []string{"/no/such/program"}
	if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("got %v", err)
	}
}

func TestConfig_argv_leavesOutWhatIsNotAsked(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Rate, cfg.Bandwidth = "", ""
	argv := cfg.argv("box-1", "unix:/run/spillway/admin.sock")
	for _, flag := range []string{"--rate", "--bandwidth", "--yield-to"} {
		if slices.Contains(argv, flag) {
			t.Errorf("%q has %s", argv, flag)
		}
	}
}
