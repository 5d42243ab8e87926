package replay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/replay"
	"spillway/collector/internal/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Replayers die wherever they happen to be, one after the other, until one does
// not: nothing is missing, and each death costs at most one window.
func TestReplay_Run_throughManyDeaths(t *testing.T) {
	for range 15 {
		synctest.Test(t, func(t *testing.T) {
			m, want := newMemory(), map[string]bool{}
			for i := range 1 + rand.IntN(8) {
				records := events(uint64(1000*i), 1+rand.IntN(300), "box")
				m.add(t, sink.Good, "box", records)
				for _, r := range records {
					want[key(r)] = true
				}
			}
			window, deaths := 1+rand.IntN(150), 0
			d := &destination{arrived: map[string]int{}}
			for {
				d.dieAt = 0
				if deaths < 10 {
					d.dieAt = 1 + rand.IntN(2*len(want))
				}
				_, err := run(t, m.process(), d, replay.Options{Window: window, Objects: 1 + rand.IntN(4), RenewEvery: time.Hour})
				if err == nil {
					break
				}
				if !errors.Is(err, errDead) {
					t.Fatal(err)
				}
				deaths++
			}
			copies := 0
			for _, n := range d.arrived {
				copies += n
			}
			if len(d.arrived) != len(want) || copies-len(want) > deaths*window {
				t.Fatalf("%d of %d events arrived, %d copies too many after %d deaths with a window of %d",
					len(d.arrived), len(want), copies-len(want), deaths, window)
			}
			for k := range want {
				if d.arrived[k] == 0 {
					t.Fatalf("%q is missing", k)
				}
			}
			for k := range m.marks {
				if !strings.HasSuffix(k, ".done") {
					t.Errorf("%s is left behind", k)
				}
			}
		})
	}
}

func TestReplay_Run_byTwo_bringsEachEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		for i := range 20 {
			m.add(t, sink.Good, "box", events(uint64(1000*i), 100, "box"))
		}
		d := &destination{arrived: map[string]int{}}
		done := make(chan replay.ObjectFigures, 2)
		for range 2 {
			go func() {
				report, err := run(t, m.process(), d, replay.Options{Window: 50, Objects: 2})
				if err != nil {
					t.Error(err)
				}
				done <- report.Figures().Objects
			}()
		}
		a, b := <-done, <-done
		if a.Finished+b.Finished != 20 || len(d.arrived) != 2000 {
			t.Errorf("%+v and %+v, %d events", a, b, len(d.arrived))
		}
		for k, n := range d.arrived {
			if n != 1 {
				t.Errorf("%q arrived %d times", k, n)
			}
		}
	})
}

func TestReplay_Run_damageIsReportedOnce_andTheRestArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		whole := m.add(t, sink.Good, "box", events(1, 400, "box"))
		cut := m.add(t, sink.Good, "cut", events(1, 400, "cut"))
		cutKey := cut.Name.Key("p")
		m.objects[cutKey] = cut.Body[:len(cut.Body)/2]
		other := m.add(t, sink.Good, "other", events(1, 3, "other"))
		otherKey := other.Name.Key("p")
		changed, err := archive.Pack(sink.Good, "other", events(1, 2, "other")) // a line is missing
		if err != nil {
			t.Fatal(err)
		}
		m.objects[otherKey] = changed.Body
		m.objects["p/good/notes.txt"] = []byte("mine")
		m.objects["p/_probe/box"] = []byte("spillway\n")

		d := &destination{arrived: map[string]int{}, dieAt: 500}
		first, err := run(t, m.process(), d, replay.Options{Window: 30, Objects: 3})
		if !errors.Is(err, errDead) {
			t.Fatal(err)
		}
		report, err := run(t, m.process(), d, replay.Options{Window: 30, Objects: 3})
		if err != nil {
			t.Fatal(err)
		}
		var faults []string
		for _, f := range slices.Concat(first.Figures().Faults, report.Figures().Faults) {
			faults = append(faults, fmt.Sprint(f.Object, " ", f.Line > 1, " ", strings.SplitN(f.Reason, ":", 2)[0]))
		}
		want := []string{
			"p/good/notes.txt false its name is not that of an archived object; it was not read",
			cutKey + " true read object",
			otherKey + " false its content is not what its name says",
		}
		slices.Sort(want)
		slices.Sort(faults)
		faults = slices.Compact(faults) // the foreign file is found each time
		if diff := cmp.Diff(want, faults); diff != "" {
			t.Error(diff)
		}
		found := map[string]int{}
		for k := range d.arrived {
			found[strings.Split(strings.TrimPrefix(k, "key of "), "-")[0]]++
		}
		if found["box"] != 400 || found["cut"] < 20 || found["other"] != 2 {
			t.Errorf("arrived: %v", found)
		}
		marks := map[string]bool{}
		for k := range m.marks {
			marks[strings.TrimPrefix(k, "p/_replay/")] = true
		}
		if diff := cmp.Diff(map[string]bool{
			whole.Name.String() + ".done": true, cut.Name.String() + ".damaged": true, other.Name.String() + ".damaged": true,
		}, marks); diff != "" {
			t.Error(diff)
		}
	})
}

func TestReplay_Run_recordsInTwoObjects_arriveOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.add(t, sink.Good, "box", events(1, 100, "box"))
		m.add(t, sink.Good, "box", events(51, 100, "box"))
		m.add(t, sink.Good, "box", events(51, 100, "another box of the same name"))
		d := &destination{arrived: map[string]int{}}
		report, err := run(t, m.process(), d, replay.Options{Window: 20, Objects: 3})
		if err != nil {
			t.Fatal(err)
		}
		if got := report.Figures().Events.Twins; got > 50 || len(d.arrived) != 250 {
			t.Errorf("%d twins, %d events", got, len(d.arrived))
		}
		copies := int64(0)
		for _, n := range d.arrived {
			copies += int64(n)
		}
		if twins := report.Figures().Events.Twins; copies+twins != 300 {
			t.Errorf("%d copies and %d twins of 300 records", copies, twins)
		}
	})
}

func TestReplay_Run_stopped_keepsWhatIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.add(t, sink.Good, "box", events(1, 1000, "box"))
		p := m.process()
		plan, err := replay.Look(t.Context(), p, replay.Selection{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		r := replay.New(plan.Waiting, replay.Options{Store: p, Log: quiet(), Window: 100})
		arrived := 0
		err = r.Run(ctx, func(ctx context.Context) error {
			for {
				records, err := r.Queue().Read(ctx, 10, 1<<20)
				if err != nil {
					return nil
				}
				if arrived += len(records); arrived >= 500 {
					stop()
				}
				for _, record := range records {
					r.Queue().Ack(record.Seq)
				}
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("stopped: %v", err)
		}
		mark := m.marks[plan.Waiting[0].Marks().Claim]
		if int(mark.Events) != arrived || mark.Line != arrived || !mark.Released {
			t.Errorf("%d events arrived, the mark says %+v", arrived, mark)
		}
		if _, err := replay.Forget(t.Context(), p, &replay.Plan{Claimed: plan.Waiting}, false, false); err != nil || len(m.marks) != 0 {
			t.Errorf("forgotten: %v, marks %v", err, m.marks)
		}
	})
}

func TestQueue_numbersOfRecords_areTheirOwnAtTheSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.add(t, sink.Good, "a", events(7, 3, "a"))
		m.add(t, sink.Good, "b", events(7, 3, "b"))
		p := m.process()
		plan, err := replay.Look(t.Context(), p, replay.Selection{})
		if err != nil {
			t.Fatal(err)
		}
		r := replay.New(plan.Waiting, replay.Options{Store: p, Log: quiet(), Window: 100})
		s := &scripted{}
		if err := r.Run(t.Context(), func(ctx context.Context) error {
			for {
				records, err := r.Queue().Read(ctx, 10, 1<<20)
				if err != nil {
					return nil
				}
				r.Queue().Through(s).Write(ctx, records)
				for _, record := range records {
					r.Queue().Ack(record.Seq)
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(events(7, 3, "a"), events(7, 3, "b")...), s.written); diff != "" {
			t.Error(diff)
		}
	})
}

// scripted takes everything, or throttles it.
type scripted struct {
	sink.Sink
	written  []sink.Record
	throttle bool
}

func (s *scripted) Write(_ context.Context, records []sink.Record) []sink.Outcome {
	if s.throttle {
		return sink.Fail(len(records), sink.Throttled, &sink.Error{Cause: sink.CauseThrottled})
	}
	s.written = append(s.written, records...)
	return sink.AllWritten(len(records))
}

func TestSelection_Selects_wholeHours(t *testing.T) {
	n := archive.Name{Lane: sink.Good, Hour: time.Date(2026, 12, 1, 5, 0, 0, 0, time.UTC), Instance: "box"}
	at := func(h, m int) time.Time { return time.Date(2026, 12, 1, h, m, 0, 0, time.UTC) }
	for i, c := range []struct {
		s    replay.Selection
		want bool
	}{
		{replay.Selection{}, true},
		{replay.Selection{Lane: sink.Bad}, false},
		{replay.Selection{Instances: []string{"other"}}, false},
		{replay.Selection{Instances: []string{"other", "box"}}, true},
		{replay.Selection{Since: at(5, 30)}, true},
		{replay.Selection{Since: at(6, 0)}, false},
		{replay.Selection{Until: at(5, 0)}, false},
		{replay.Selection{Until: at(5, 1)}, true},
	} {
		if got := c.s.Selects(n); got != c.want {
			t.Errorf("%d: got %v, want %v", i, got, c.want)
		}
	}
}

func FuzzDecodeMark(f *testing.F) {
	f.Add(replay.Mark{By: "a", Line: 3, Events: 2, Damaged: 1, Faults: []replay.Fault{{Line: 2, Reason: "x"}}}.Encode())
	f.Add([]byte(`{"schema":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := replay.DecodeMark(b)
		if err != nil {
			return
		}
		again, err := replay.DecodeMark(m.Encode())
		if diff := cmp.Diff(m, again); err != nil || diff != "" {
			t.Errorf("%v: %s", err, diff)
		}
	})
}

func TestReplay_Run_losingAClaim_leavesTheObjectToTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		lost := m.add(t, sink.Good, "a", events(1, 1000, "a"))
		m.add(t, sink.Good, "b", events(1, 1000, "b"))
		p, other := m.process(), m.process()
		plan, err := replay.Look(t.Context(), p, replay.Selection{})
		if err != nil {
			t.Fatal(err)
		}
		report := &replay.Report{}
		r := replay.New(plan.Waiting, replay.Options{Store: p, Log: quiet(), Window: 100, Report: report, Delete: true})
		arrived := map[string]int{}
		err = r.Run(t.Context(), func(ctx context.Context) error {
			for {
				records, err := r.Queue().Read(ctx, 10, 1<<20)
				if err != nil {
					return nil
				}
				for _, record := range records {
					if arrived[record.Key[len("key of "):len("key of ")+1]]++; arrived["a"] == 300 {
						m.mu.Lock()
						m.owners[plan.Waiting[0].Marks().Claim] = other
						m.mu.Unlock()
					}
					r.Queue().Ack(record.Seq)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if o := report.Figures().Objects; o.TakenOver != 1 || o.Finished != 1 || arrived["b"] != 1000 || arrived["a"] > 400 {
			t.Errorf("%+v, arrived %v", o, arrived)
		}
		if _, there := m.objects[lost.Name.Key("p")]; !there || len(m.objects) != 1 {
			t.Errorf("objects left: %d, the other's among them: %v", len(m.objects), there)
		}
	})
}

// trouble is a store whose marks cannot be written for a while.
type trouble struct {
	*process
	failing func() bool
}

func (s *trouble) Claim(ctx context.Context, e replay.Entry, marks replay.Marks, to string) (replay.Claim, error) {
	c, err := s.process.Claim(ctx, e, marks, to)
	return &troubledClaim{c, s}, err
}

type troubledClaim struct {
	replay.Claim
	store *trouble
}

func (c *troubledClaim) Save(ctx context.Context, m replay.Mark) error {
	if c.store.failing() {
		return errors.New("the store has trouble")
	}
	return c.Claim.Save(ctx, m)
}

func TestReplay_Run_unableToRenew_lendsNoMoreUntilItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.add(t, sink.Good, "a", events(1, 1000, "a"))
		began := time.Now()
		s := &trouble{m.process(), func() bool { return time.Since(began) < time.Minute }}
		plan, err := replay.Look(t.Context(), s, replay.Selection{})
		if err != nil {
			t.Fatal(err)
		}
		// At 10 records a second there are free slots all the time.
		r := replay.New(plan.Waiting, replay.Options{
			Store: s, Log: quiet(), Window: 800, Pace: replay.NewPace(10, 0, quiet()), RenewEvery: 5 * time.Second,
		})
		var last time.Duration
		arrived, early := 0, 0
		if err := r.Run(t.Context(), func(ctx context.Context) error {
			for {
				records, err := r.Queue().Read(ctx, 10, 1<<20)
				if err != nil {
					return nil
				}
				if last = time.Since(began); last < time.Minute {
					early += len(records)
				}
				arrived += len(records)
				for _, record := range records {
					r.Queue().Ack(record.Seq)
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		if arrived != 1000 || early > 250 {
			t.Errorf("%d records arrived, %d of them while no claim could be renewed", arrived, early)
		}
	})
}

// broken is a store whose objects cannot be read.
type broken struct{ *process }

func (broken) Open(context.Context, replay.Entry) (io.ReadCloser, error) {
	return nil, errors.New("access denied")
}

func TestReplay_Run_whenNothingCanBeRead_givesUpSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		for i := range 50 {
			m.add(t, sink.Good, "box", events(uint64(10*i), 2, "box"))
		}
		s := broken{m.process()}
		plan, err := replay.Look(t.Context(), s, replay.Selection{})
		if err != nil {
			t.Fatal(err)
		}
		report := &replay.Report{}
		r := replay.New(plan.Waiting, replay.Options{Store: s, Log: quiet(), Window: 100, Objects: 2, Report: report})
		d := &destination{arrived: map[string]int{}}
		err = r.Run(t.Context(), d.deliver(s.process, r.Queue()))
		if n := report.Figures().Objects.Failed; err == nil || !strings.Contains(err.Error(), "access denied") || n < 10 || n > 12 {
			t.Errorf("%d objects were tried: %v", n, err)
		}
		for key, mark := range m.marks {
			if !mark.Released || mark.Line != 0 {
				t.Errorf("%s: %+v", key, mark)
			}
		}
	})
}
