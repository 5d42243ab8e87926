package proc

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Backoff says how long a supervisor waits before it starts a process again.
type Backoff struct {
	First      time.Duration // before the first restart
	Base       time.Duration // before the second; doubles from then on
	Max        time.Duration // never longer than this
	ResetAfter time.Duration // a process that ran this long starts the series anew, with Base
}

// Kubelet returns the waiting times of a pod's containers: the first restart is
// immediate, then 10 s, 20 s and so on up to 5 minutes, and 10 minutes of running
// start the series anew. An exit with code 0 counts like a crash.
func Kubelet() Backoff {
	return Backoff{Base: 10 * time.Second, Max: 5 * time.Minute, ResetAfter: 10 * time.Minute}
}

// Fast returns a Backoff shaped like Kubelet's, a hundred times as fast.
func Fast() Backoff {
	return Backoff{Base: 100 * time.Millisecond, Max: 3 * time.Second, ResetAfter: 6 * time.Second}
}

// series is a Backoff at work.
type series struct {
	Backoff
	restarts int           // so far
	next     time.Duration // the wait after First
}

// after returns the wait before the restart of a process that ran so long.
func (s *series) after(ran time.Duration) time.Duration {
	if s.restarts++; s.restarts == 1 {
		s.next = s.Base
		return s.First
	}
	if ran >= s.ResetAfter {
		s.next = s.Base
	}
	wait := min(s.next, s.Max)
	s.next = min(2*s.next, s.Max)
	return wait
}

// Restart is one restart by a Supervisor.
type Restart struct {
	Exit Exit          // how the process before it ended
	Wait time.Duration // how long was waited
	Err  error         // why the start failed; the wait goes on growing
}

// Supervisor keeps a process running: whenever it ends, however it ends, it is
// started again. It is safe for concurrent use.
type Supervisor struct {
	spec   Spec
	series series
	stop   context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	process  *Process      // guarded by mu; the running one, or the last
	restarts []Restart     // guarded by mu
	changed  chan struct{} // guarded by mu; closed at a restart, then replaced
}

// Supervise starts the process and keeps it running until Stop or Kill.
func Supervise(spec Spec, b Backoff) (*Supervisor, error) {
	p, err := Start(spec)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Supervisor{spec: spec, series: series{Backoff: b}, stop: stop, ended: make(chan struct{}), process: p, changed: make(chan struct{})}
	go s.run(ctx)
	return s, nil
}

func (s *Supervisor) run(ctx context.Context) {
	defer close(s.ended)
	for {
		p := s.Process()
		exit, err := p.Wait(ctx)
		if err != nil {
			return
		}
		wait := s.series.after(exit.Ran)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		next, err := Start(s.spec)
		s.mu.Lock()
		if err == nil {
			s.process = next
		}
		s.restarts = append(s.restarts, Restart{Exit: exit, Wait: wait, Err: err})
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
	}
}

// Process returns the running process, or the last one while none runs.
func (s *Supervisor) Process() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Restarts returns the restarts so far.
func (s *Supervisor) Restarts() []Restart {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Restart(nil), s.restarts...)
}

// WaitRestarts returns when there were n restarts, or ctx's error.
func (s *Supervisor) WaitRestarts(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		have, changed := len(s.restarts), s.changed
		s.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d restarts of %s: have %d: %w", n, s.spec.Path, have, ctx.Err())
		}
	}
}

// Stop ends the supervision, then the process by SIGTERM, or by SIGKILL once ctx
// has ended. It returns how the process ended.
func (s *Supervisor) Stop(ctx context.Context) (Exit, error) {
	s.stop()
	<-s.ended
	return s.Process().Stop(ctx)
}

// Kill ends the supervision and the process at once.
func (s *Supervisor) Kill() {
	s.stop()
	<-s.ended
	s.Process().Kill()
}
