package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"time"

	"spillway/shared/rig/fault"
	"spillway/shared/rig/kinesis"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
	"spillway/shared/rig/s3"
	"spillway/shared/rig/tracker"
)

// storm breaks things, one after another, so that several are broken at a time.
type storm struct {
	pair   *pair.Pair
	disk   *disk
	random *rand.Rand
	begun  time.Time
	told   func() tracker.Counts

	frozen     *proc.Process // stopped by SIGSTOP
	outageTill time.Time     // nothing is mended before
	corrupt    int64
	largest    int64
	counts     tally
}

// tally counts what was done.
type tally map[string]int

func (t tally) String() string {
	var parts []string
	for _, a := range actions {
		parts = append(parts, fmt.Sprintf("%s %d", a.name, t[a.name]))
	}
	return strings.Join(parts, ", ")
}

// actions are what may happen, and how often beside the others.
var actions = []struct {
	name   string
	weight int
	do     func(*storm) (string, error)
}{
	{"kill collector", 4, (*storm).killCollector},
	{"stop collector", 2, func(s *storm) (string, error) { return "", s.signal(s.pair.Collector, syscall.SIGTERM) }},
	{"freeze collector", 1, (*storm).freeze},
	{"kill watchdog", 1, func(s *storm) (string, error) { s.pair.Watchdog.Process().Kill(); return "", nil }},
	{"flush", 2, func(s *storm) (string, error) { return "", s.signal(s.pair.Collector, syscall.SIGUSR1) }},
	{"reload", 1, func(s *storm) (string, error) { return "", s.signal(s.pair.Collector, syscall.SIGHUP) }},
	{"fill disk", 2, func(s *storm) (string, error) { return "", s.disk.full() }},
	{"break kinesis", 6, (*storm).breakKinesis},
	{"break s3", 2, (*storm).breakS3},
	{"outage", 1, (*storm).outage},
	{"mend", 3, func(s *storm) (string, error) {
		if time.Now().Before(s.outageTill) {
			return "nothing: the outage goes on", nil
		}
		return "", s.mend()
	}},
}

// run breaks and mends until ctx ends.
func (s *storm) run(ctx context.Context) error {
	s.counts = tally{}
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	tellAt := time.Now().Add(10 * time.Second)
	for {
		pick := s.random.IntN(total)
		n := 0
		for ; pick >= actions[n].weight; n++ {
			pick -= actions[n].weight
		}
		a := actions[n]
		s.counts[a.name]++
		detail, err := a.do(s)
		s.say("%s %s", a.name, detail)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(200+s.random.IntN(3800)) * time.Millisecond):
		}
		s.look(ctx)
		if time.Now().After(tellAt) {
			tellAt = time.Now().Add(10 * time.Second)
			s.say("%v; backlog at most %d", s.told(), s.largest)
		}
	}
}

// look takes note of what the collector says, if it answers.
func (s *storm) look(ctx context.Context) {
	r, err := s.pair.Health(ctx)
	if err != nil {
		return
	}
	s.largest = max(s.largest, r.Backlog.Events)
	for _, lane := range r.Lanes {
		s.corrupt = max(s.corrupt, int64(lane.CorruptTotal))
	}
}

func (s *storm) say(format string, args ...any) {
	fmt.Printf("%7.1fs  %s\n", time.Since(s.begun).Seconds(), strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (s *storm) signal(to *proc.Supervisor, sig syscall.Signal) error {
	// What has just been started and cannot yet take a signal would die of it,
	// which is no fault: it is started again.
	return to.Process().Signal(sig)
}

func (s *storm) killCollector() (string, error) {
	s.pair.Collector.Process().Kill()
	return "", nil
}

// freeze stops the collector's process until the next mend.
func (s *storm) freeze() (string, error) {
	if s.frozen != nil {
		return "(it is)", nil
	}
	s.frozen = s.pair.Collector.Process()
	return "", s.frozen.Signal(syscall.SIGSTOP)
}

// outage takes Kinesis away for so long that the watchdog diverts.
func (s *storm) outage() (string, error) {
	if err := s.mend(); err != nil {
		return "", err
	}
	long := time.Duration(15+s.random.IntN(30)) * time.Second
	s.outageTill = time.Now().Add(long)
	return fmt.Sprintf("of %v", long), s.pair.CutKinesis()
}

// mend mends everything.
func (s *storm) mend() error {
	var thaw error
	if s.frozen != nil {
		if err := s.frozen.Signal(syscall.SIGCONT); !errors.Is(err, os.ErrProcessDone) {
			thaw = err
		}
		s.frozen = nil
	}
	return errors.Join(thaw, s.disk.room(), s.pair.MendKinesis(), s.pair.MendS3())
}

// share is how much of the calls or records fail: often all.
func (s *storm) share() float64 {
	if s.random.IntN(2) == 0 {
		return 0
	}
	return 0.05 + 0.9*s.random.Float64()
}

func (s *storm) breakKinesis() (string, error) {
	codes := []string{kinesis.AccessDenied, kinesis.ExpiredToken, kinesis.InternalFailure, kinesis.NotFound,
		kinesis.Throttled, kinesis.LimitExceeded, kinesis.KMSDisabled, kinesis.KMSThrottling, kinesis.ServiceUnavailable}
	f := s.wire(codes)
	if f.Kind == fault.Error && s.random.IntN(2) == 0 {
		f.Kind, f.Code = fault.Record, []string{kinesis.Throttled, kinesis.InternalFailure}[s.random.IntN(2)]
	}
	return f.String(), s.pair.Rig.Kinesis.Break(f)
}

func (s *storm) breakS3() (string, error) {
	f := s.wire([]string{s3.SlowDown, s3.InternalError, s3.AccessDenied})
	return f.String(), s.pair.Rig.S3.Break(f)
}

// wire is any fault that a destination may have.
func (s *storm) wire(codes []string) fault.Fault {
	kinds := []fault.Kind{fault.Down, fault.Hang, fault.HangApplied, fault.Reset, fault.Lost, fault.Garbage, fault.Empty, fault.Status, fault.Delay, fault.Error, fault.Error, fault.Error}
	f := fault.Fault{Kind: kinds[s.random.IntN(len(kinds))], Share: s.share()}
	switch f.Kind {
	case fault.Delay:
		f.By = time.Duration(s.random.IntN(1500)) * time.Millisecond
	case fault.Error:
		f.Code = codes[s.random.IntN(len(codes))]
	case fault.Down:
		f.Share = 0
	}
	return f
}
