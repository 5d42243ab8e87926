package proc

import (
	"testing"
	"time"
)

func TestSeries_kubelet_waitsAsAPodDoes(t *testing.T) {
	s := series{Backoff: Kubelet()}
	seconds := []time.Duration{0, 10, 20, 40, 80, 160, 300, 300}
	for i, want := range seconds {
		if got := s.after(time.Second); got != want*time.Second {
			t.Errorf("restart %d after %v, want %vs", i+1, got, int(want))
		}
	}
	if got := s.after(10 * time.Minute); got != 10*time.Second {
		t.Errorf("after 10 minutes of running: %v, want 10s", got)
	}
	if got := s.after(time.Second); got != 20*time.Second {
		t.Errorf("after the reset: %v, want 20s", got)
	}
}
