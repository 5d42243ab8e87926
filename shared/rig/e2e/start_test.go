package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spillway/shared/healthapi"
	"spillway/shared/rig/port"
	"spillway/shared/rig/proc"
)

// box is a folder with one config, and the addresses in it.
type box struct {
	dir, public, admin string
}

func newBox(t *testing.T) box {
	t.Helper()
	b := box{dir: t.TempDir()}
	for _, addr := range []*string{&b.public, &b.admin} {
		free, err := port.Free()
		if err != nil {
			t.Fatal(err)
		}
		*addr = port.Addr(free)
	}
	return b
}

// config writes collector.yaml with the addresses and more.
func (b box) config(t *testing.T, more string) {
	t.Helper()
	text := fmt.Sprintf("listen: %s\nadmin: {listen: \"%s\"}\n%s", b.public, b.admin, more)
	if err := os.WriteFile(filepath.Join(b.dir, "collector.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs the collector in the folder.
func (b box) run(t *testing.T, args ...string) *proc.Process {
	t.Helper()
	return proc.Run(t, proc.Spec{
		Path: program(t, "collector"), Args: append([]string{"run"}, args...), Dir: b.dir,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir}, Log: filepath.Join(t.TempDir(), "log"),
	})
}

// ends waits for the end and checks exit code and words of the message.
func ends(t *testing.T, p *proc.Process, code int, words ...string) {
	t.Helper()
	exit, err := p.Wait(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if exit.Code != code || exit.Signal != 0 {
		t.Errorf("it ended with %v, want exit code %d", exit, code)
	}
	for _, word := range words {
		if !strings.Contains(p.Output(), word) {
			t.Errorf("it does not mention %q:\n%s", word, p.Output())
		}
	}
}

func (b box) health(t *testing.T) healthapi.Report {
	t.Helper()
	body, err := proc.HTTP(limited(t), "http://"+b.admin+healthapi.PathHealth, nil)
	if err != nil {
		t.Fatal(err)
	}
	var r healthapi.Report
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCollector_withAWrongConfig_namesFileLineAndTheKeyThatWasMeant(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.config(t, "data_dir: data\nspool:\n  max_byte: 1GiB\n")
	ends(t, b.run(t, "--config", "collector.yaml"), 2, "collector.yaml:5: ", "spool.max_byte", "max_bytes")
	b.config(t, "sink: {type: kinesis}\n")
	ends(t, b.run(t, "--config", "collector.yaml"), 2, "collector.yaml:3: ", "good_stream")
	ends(t, b.run(t, "--config", "missing.yaml"), 2, "missing.yaml")
	ends(t, b.run(t, "--confg", "collector.yaml"), 2, "--confg")
	ends(t, b.run(t, "surplus"), 2, "surplus")
}

func TestCollector_whosePortIsTaken_saysWhich(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"public", "admin"} {
		b := newBox(t)
		b.config(t, "data_dir: data\n")
		taken := map[string]string{"public": b.public, "admin": b.admin}[which]
		l, err := net.Listen("tcp", taken)
		if err != nil {
			t.Fatal(err)
		}
		ends(t, b.run(t, "--config", "collector.yaml"), 69, taken)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCollector_whoseSpoolIsHeldByAnother_leavesItAlone(t *testing.T) {
	t.Parallel()
	first := newBox(t)
	data := filepath.Join(first.dir, "data")
	first.config(t, "data_dir: "+data+"\n")
	running := first.run(t, "--config", "collector.yaml")
	before := first.health(t)
	second := newBox(t)
	second.config(t, "data_dir: "+data+"\n")
	ends(t, second.run(t, "--config", "collector.yaml"), 3, data)
	if after := first.health(t); after.BootID != before.BootID {
		t.Error("the first collector was disturbed")
	}
	if exit, err := running.Stop(limited(t)); err != nil || exit.Code != 0 {
		t.Errorf("the first collector ended with %v, %v", exit, err)
	}
}

func TestCollector_thatCannotWriteItsDataDir_saysSo(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	// A file in the way stops every user, a permission would not stop root.
	if err := os.WriteFile(filepath.Join(b.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.config(t, "data_dir: "+filepath.Join(b.dir, "file", "data")+"\n")
	ends(t, b.run(t, "--config", "collector.yaml"), 1, "data_dir", filepath.Join(b.dir, "file"))
}

func TestCollector_withoutASink_writesFilesAndSaysSo(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.config(t, "")
	p := b.run(t, "--config", "collector.yaml")
	if r := b.health(t); r.Sink.Type != "file" || r.Sink.Target == "" {
		t.Errorf("the sink is %+v, want files", r.Sink)
	}
	if status, body := post(t, "http://"+b.public+tp2, `{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[{"e":"pv"}]}`); status != 200 {
		t.Fatalf("answered %d: %s", status, body)
	}
	if exit, err := p.Stop(limited(t)); err != nil || exit.Code != 0 {
		t.Errorf("it ended with %v, %v", exit, err)
	}
	var files []string
	err := filepath.WalkDir(filepath.Join(b.dir, "spillway-data"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".ndjson.gz") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) != 1 {
		t.Errorf("there are files %v (%v), want the one with the event", files, err)
	}
}

func TestCollector_withoutAnyConfig_runsOrNamesThePortThatIsTaken(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	p := b.run(t)
	err := p.WaitOutput(limited(t), "no config is given: events go to files")
	if err == nil {
		if exit, err := p.Stop(limited(t)); err != nil || exit.Code != 0 {
			t.Errorf("it ended with %v, %v", exit, err)
		}
		return
	}
	// Its two ports are fixed then, and somebody else may use one on this machine.
	ends(t, p, 69, "address already in use")
	if !strings.Contains(p.Output(), ":8080") && !strings.Contains(p.Output(), ":9091") {
		t.Errorf("it does not say which port is taken: %s", p.Output())
	}
}
