package fault_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"spillway/shared/rig/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFault_String_isWhatControlTakes(t *testing.T) {
	for _, f := range []fault.Fault{
		{Kind: fault.Hang},
		{Kind: fault.Error, Code: "ExpiredTokenException", Message: "a b&c=d", Status: 403, Op: "PutRecords", Target: "good", Share: 0.25, Times: 3},
		{Kind: fault.Record, Code: "InternalFailure", Match: "poison"},
		{Kind: fault.Trickle, By: 1500 * time.Millisecond},
	} {
		b := fault.NewBoard(nil)
		w := httptest.NewRecorder()
		b.Control().ServeHTTP(w, httptest.NewRequest("POST", "/fault?"+f.String(), nil))
		if w.Code != 200 {
			t.Errorf("%v: %d %s", f, w.Code, w.Body)
			continue
		}
		if diff := cmp.Diff([]fault.Fault{f}, b.Faults(), cmpopts.IgnoreFields(fault.Fault{}, "MatchFunc")); diff != "" {
			t.Error(diff)
		}
	}
}

func TestBoard_PickCall_firstFittingFaultDecides(t *testing.T) {
	b := fault.NewBoard(nil)
	for _, f := range []fault.Fault{
		{Kind: fault.Error, Code: "A", Op: "Put", Times: 2},
		{Kind: fault.Error, Code: "B", Target: "good"},
		{Kind: fault.Error, Code: "C", Match: "poison"},
		{Kind: fault.Record, Code: "D"},
	} {
		if err := b.Break(f); err != nil {
			t.Fatal(err)
		}
	}
	pick := func(c fault.Call) string { f, _, _ := b.PickCall(c); return f.Code }
	put, get := fault.Call{Op: "Put", Target: "good"}, fault.Call{Op: "Get", Target: "bad"}
	for i, want := range []string{"A", "A", "B", "B"} {
		if got := pick(put); got != want {
			t.Errorf("call %d: %q, want %q", i, got, want)
		}
	}
	if got := pick(get); got != "" {
		t.Errorf("a call that nothing fits: %q", got)
	}
	get.Data = [][]byte{[]byte("fine"), []byte("a poison record")}
	if got := pick(get); got != "C" {
		t.Errorf("a call with a poison record: %q, want C", got)
	}
	if f, struck := b.PickRecord(get, []byte("any")); !struck || f.Code != "D" {
		t.Errorf("a record: %v, %v", f, struck)
	}
	if err := b.Mend(fault.Error); err != nil {
		t.Fatal(err)
	}
	if got := b.Faults(); len(got) != 1 || got[0].Kind != fault.Record || b.Hits(fault.Error) != 5 {
		t.Errorf("after mending errors: %v, %d hits", got, b.Hits(fault.Error))
	}
}

func TestBoard_Share_strikesAboutThatPart(t *testing.T) {
	b := fault.NewBoard(nil)
	if err := b.Break(fault.Fault{Kind: fault.Reset, Share: 0.1}); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		b.PickCall(fault.Call{})
	}
	if n := b.Hits(fault.Reset); n < 70 || n > 130 {
		t.Errorf("%d of 1000 struck, want about 100", n)
	}
}

func TestBoard_WaitHits_endsWithItsContext(t *testing.T) {
	b := fault.NewBoard(nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := b.WaitHits(ctx, fault.Hang, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestBoard_Break_whenTheListenerFails_setsNothing(t *testing.T) {
	broken := errors.New("broken")
	b := fault.NewBoard(func(bool) error { return broken }, fault.Skew)
	if err := b.Break(fault.Fault{Kind: fault.Down}); !errors.Is(err, broken) || len(b.Faults()) != 0 {
		t.Errorf("%v, faults %v", err, b.Faults())
	}
	if err := b.Break(fault.Fault{Kind: fault.Skew, By: time.Hour}); err == nil {
		t.Error("a kind that the stand-in does not have was taken")
	}
}

func TestBoard_Mend_whenTheListenerFails_canBeTriedAgain(t *testing.T) {
	var failing error
	up := 0
	b := fault.NewBoard(func(down bool) error {
		if !down && failing == nil {
			up++
		}
		return failing
	})
	if err := b.Break(fault.Fault{Kind: fault.Down}); err != nil {
		t.Fatal(err)
	}
	failing = errors.New("port taken")
	if err := b.Mend(); !errors.Is(err, failing) || len(b.Faults()) != 1 {
		t.Errorf("%v, faults %v", err, b.Faults())
	}
	failing = nil
	if err := b.Mend(); err != nil || up != 1 || len(b.Faults()) != 0 {
		t.Errorf("%v, up %d times, faults %v", err, up, b.Faults())
	}
}

func TestListener_Down_cutsRequestsAndWaitsForTheirHandlers(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	l, err := fault.Listen("127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "x")
		if r.URL.Path == "/wait" {
			close(began)
			<-r.Context().Done()
			close(ended)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	result := make(chan error)
	go func() {
		resp, err := client.Get(l.URL() + "/wait")
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		result <- err
	}()
	<-began
	if err := l.Down(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	default:
		t.Error("Down returned before the handler ended")
	}
	if err := <-result; err == nil {
		t.Error("the request that was cut got a whole answer")
	}
	if err := l.Up(); err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(l.URL())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
}
