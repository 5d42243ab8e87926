package spool

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
)

// childDir, in the environment, makes the test binary a process that appends to
// the log there, and acks, until it is killed.
const childDir = "SPOOL_TEST_CHILD_DIR"

// child prints a line for every append that returned nil. It never returns.
func child(dir string) {
	l, err := Open(dir, small(), Options{})
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	ctx := context.Background()
	var print sync.Mutex
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				r := record(w*1_000_000+i, 700)
				r.Key = fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)
				if err := l.Append(ctx, []Record{r}); err != nil {
					fmt.Println("failed:", err)
					os.Exit(1)
				}
				print.Lock()
				fmt.Println("stored " + r.Key)
				print.Unlock()
			}
		}()
	}
	for {
		records, err := l.Read(ctx, 20, 1<<20)
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		// Every other record is delivered: printed first, then acked, as the ack of
		// what is delivered elsewhere.
		for _, r := range records {
			if r.Seq%2 == 0 {
				print.Lock()
				fmt.Println("delivered " + r.Key)
				print.Unlock()
				l.Ack(r.Seq)
			}
		}
	}
}

// TestLog_losesNothingWhenKilled kills a process that appends, several times, on
// a real disk.
func TestLog_losesNothingWhenKilled(t *testing.T) {
	dir := t.TempDir()
	stored, delivered := map[string]bool{}, map[string]bool{}
	for round := range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			var what, key string
			if _, err := fmt.Sscan(lines.Text(), &what, &key); err != nil || what == "failed:" {
				t.Fatalf("round %d: %s", round, lines.Text())
			}
			if what == "stored" {
				stored[key] = true
			} else {
				delivered[key] = true
			}
			if n == 300+round*177 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // killed
	}
	l := mustOpen(t, dir, small())
	found := map[string]bool{}
	for n := l.Stats().Events; n > 0; n-- {
		r := drain(t, l, 1)[0]
		if found[r.Key] {
			t.Errorf("%s was handed out twice", r.Key)
		}
		found[r.Key] = true
	}
	lost := 0
	for key := range stored {
		if !found[key] && !delivered[key] {
			lost++
		}
	}
	if s := l.Stats(); lost > 0 || len(stored) < 1000 || len(delivered) < 100 || s.CorruptRecords+s.DamagedSegments+s.MissingSegments > 0 {
		t.Fatalf("%d of "+strconv.Itoa(len(stored))+" lost, %d delivered; stats %+v", lost, len(delivered), s)
	}
}
