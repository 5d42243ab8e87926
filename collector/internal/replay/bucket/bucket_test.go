package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"spillway/collector/internal/replay"
	"spillway/collector/internal/replay/bucket"
	s3sink "spillway/collector/internal/sink/s3"
	"spillway/shared/configfile"
	"spillway/shared/rig/fault"
	"spillway/shared/rig/proc"
	"spillway/shared/rig/s3"
)

const name = "spillway-fallback"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) *s3.Server {
	t.Helper()
	server, err := s3.Start(s3.Options{Buckets: []string{name}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// open opens the bucket as one replayer does.
func open(t *testing.T, endpoint string, o bucket.Options) *bucket.Store {
	t.Helper()
	cfg := s3sink.DefaultConfig()
	cfg.Bucket, cfg.Prefix, cfg.PathStyle = name, "p", true
	cfg.AWS.Region, cfg.AWS.Endpoint, cfg.AWS.AccessKeyID, cfg.AWS.SecretAccessKey = "us-east-1", endpoint, "rig", configfile.NewSecret("rig")
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	o.Log = logrus.NewEntry(quiet)
	s, err := bucket.Open(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

var (
	object = replay.Entry{Key: "p/good/date=2026-12-01/hour=01/box/1-2-00000000.ndjson.gz", Size: 10}
	marks  = replay.Marks{Claim: "p/_replay/o.claim", Done: "p/_replay/o.done", Damaged: "p/_replay/o.damaged"}
)

func claim(t *testing.T, s *bucket.Store) replay.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), object, marks, "kinesis good")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func busy(err error) bool {
	_, ok := errors.AsType[*replay.BusyError](err)
	return ok
}

func TestStore_Claim_isExclusiveUntilItIsLetGoOf(t *testing.T) {
	server := start(t)
	a := open(t, server.URL(), bucket.Options{Owner: "a", ExpireAfter: time.Hour})
	b := open(t, server.URL(), bucket.Options{Owner: "b", ExpireAfter: time.Hour})
	c := claim(t, a)
	for range 3 {
		if _, err := b.Claim(t.Context(), object, marks, "x"); !busy(err) || !strings.Contains(err.Error(), "a is at work") {
			t.Errorf("a second claim: %v", err)
		}
	}
	if err := c.Save(t.Context(), replay.Mark{Line: 7, Events: 6}); err != nil {
		t.Fatal(err)
	}
	if err := c.Release(t.Context(), replay.Mark{Line: 9, Events: 8}); err != nil {
		t.Fatal(err)
	}
	taken := claim(t, b)
	if m := taken.Found(); m.Line != 9 || m.Events != 8 || m.By != "a" {
		t.Errorf("found %+v", m)
	}
	if err := c.Save(t.Context(), replay.Mark{Line: 10}); !errors.Is(err, replay.ErrLost) {
		t.Errorf("the first owner saves: %v", err)
	}
	if err := c.Finish(t.Context(), replay.Mark{Line: 10}); !errors.Is(err, replay.ErrLost) {
		t.Errorf("the first owner finishes: %v", err)
	}
	if err := taken.Finish(t.Context(), replay.Mark{Line: 10, Events: 10}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*bucket.Store{a, b, open(t, server.URL(), bucket.Options{Owner: "c"})} {
		if _, err := s.Claim(t.Context(), object, marks, "x"); !errors.Is(err, replay.ErrDone) {
			t.Errorf("a claim of what is done: %v", err)
		}
	}
	if m, err := a.ReadMark(t.Context(), marks.Done); err != nil || m.Events != 10 || m.By != "b" {
		t.Errorf("done: %+v, %v", m, err)
	}
	if _, err := a.ReadMark(t.Context(), marks.Claim); !errors.Is(err, replay.ErrNoMark) {
		t.Errorf("the claim of what is done: %v", err)
	}
}

func TestStore_Claim_ofADeadReplayer_isTakenOver(t *testing.T) {
	server := start(t)
	dead := open(t, server.URL(), bucket.Options{Owner: "dead"})
	heir := open(t, server.URL(), bucket.Options{Owner: "heir", ExpireAfter: 50 * time.Millisecond})
	old := claim(t, dead)
	var taken replay.Claim
	proc.Eventually(t, time.Minute, func() (err error) {
		taken, err = heir.Claim(t.Context(), object, marks, "x")
		return err
	})
	if err := old.Save(t.Context(), replay.Mark{Line: 3}); !errors.Is(err, replay.ErrLost) {
		t.Errorf("the dead one saves: %v", err)
	}
	if err := taken.Save(t.Context(), replay.Mark{Line: 4}); err != nil {
		t.Error(err)
	}
}

func TestStore_Claim_ofALivingReplayer_isNotTakenOver(t *testing.T) {
	server := start(t)
	living := open(t, server.URL(), bucket.Options{Owner: "living"})
	other := open(t, server.URL(), bucket.Options{Owner: "other", ExpireAfter: time.Nanosecond})
	c := claim(t, living)
	// Each look finds a claim that has changed since the last, whatever time it took.
	for i := range 20 {
		if err := c.Save(t.Context(), replay.Mark{Line: i}); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Claim(t.Context(), object, marks, "x"); !busy(err) {
			t.Fatalf("a claim that is renewed: %v", err)
		}
	}
}

func TestStore_ofManyReplayers_onlyOneGetsAClaim(t *testing.T) {
	server := start(t)
	const n = 8
	results := make(chan error, n)
	for i := range n {
		s := open(t, server.URL(), bucket.Options{Owner: string(rune('a' + i))})
		go func() {
			_, err := s.Claim(context.WithoutCancel(t.Context()), object, marks, "x")
			results <- err
		}()
	}
	won := 0
	for range n {
		if err := <-results; err == nil {
			won++
		} else if !busy(err) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d replayers have the claim", won)
	}
}

// Whatever is lost on the way, whoever wrote a claim recognises it.
func TestStore_Claim_survivesLostAnswers(t *testing.T) {
	server := start(t)
	s := open(t, server.URL(), bucket.Options{Owner: "a"})
	lose := func() {
		for _, f := range []fault.Fault{
			{Kind: fault.Lost, Op: "PutObject", Times: 2}, {Kind: fault.Error, Code: s3.SlowDown, Op: "PutObject", Times: 1}, {Kind: fault.Reset, Op: "GetObject", Times: 1},
		} {
			if err := server.Break(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	lose()
	c := claim(t, s)
	for i := range 2 {
		lose()
		if err := c.Save(t.Context(), replay.Mark{Line: i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	// A save that nobody waits for any more took effect all the same.
	if err := server.Break(fault.Fault{Kind: fault.HangApplied, Op: "PutObject", Times: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_ = server.WaitHits(context.WithoutCancel(ctx), fault.HangApplied, 1) // never fails without a deadline
		cancel()
	}()
	if err := c.Save(ctx, replay.Mark{Line: 3}); err == nil || errors.Is(err, replay.ErrLost) {
		t.Errorf("a save that was given up: %v", err)
	}
	if err := server.Mend(); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(t.Context(), replay.Mark{Line: 4}); err != nil {
		t.Errorf("the save after it: %v", err)
	}
	lose()
	if err := c.Finish(t.Context(), replay.Mark{Line: 5}); err != nil {
		t.Fatal(err)
	}
}

// unconditional is a store that ignores the conditions of writes.
func unconditional(t *testing.T, server *s3.Server) string {
	t.Helper()
	target, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("If-Match")
		r.Out.Header.Del("If-None-Match")
	}}
	front := httptest.NewServer(proxy)
	t.Cleanup(func() {
		front.Close()
		transport.CloseIdleConnections()
	})
	return front.URL
}

func TestStore_CheckConditions(t *testing.T) {
	server := start(t)
	for range 2 {
		if err := open(t, server.URL(), bucket.Options{Owner: "a"}).CheckConditions(t.Context()); err != nil {
			t.Errorf("a store that heeds conditions: %v", err)
		}
	}
	front := unconditional(t, start(t))
	if err := open(t, front, bucket.Options{Owner: "a"}).CheckConditions(t.Context()); !errors.Is(err, bucket.ErrUnconditional) {
		t.Errorf("a store that ignores conditions: %v", err)
	}
	single := open(t, front, bucket.Options{Owner: "a", Single: true})
	if err := single.CheckConditions(t.Context()); err != nil {
		t.Errorf("with single: %v", err)
	}
	c := claim(t, single)
	if err := c.Save(t.Context(), replay.Mark{Line: 2}); err != nil {
		t.Error(err)
	}
	again := claim(t, open(t, front, bucket.Options{Owner: "b", Single: true}))
	if again.Found().Line != 2 {
		t.Errorf("the only replayer, started again, found %+v", again.Found())
	}

	if err := server.Break(fault.Fault{Kind: fault.Error, Code: "NotImplemented", Status: 501, Op: "PutObject"}); err != nil {
		t.Fatal(err)
	}
	if err := open(t, server.URL(), bucket.Options{Owner: "a"}).CheckConditions(t.Context()); err == nil || !strings.Contains(err.Error(), "--single") {
		t.Errorf("a store that knows no conditions: %v", err)
	}
}

func TestStore_List_andOpen(t *testing.T) {
	server := start(t)
	s := open(t, server.URL(), bucket.Options{Owner: "a"})
	large := bytes.Repeat([]byte("0123456789abcdef"), 600<<10) // 9.4 MiB: three pieces
	put(t, server, "p/large", large)
	put(t, server, "p2/not-ours", []byte("x"))
	var entries []replay.Entry
	if err := s.List(t.Context(), s.Place(), func(e replay.Entry) error { entries = append(entries, e); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Key != "p/large" || entries[0].Size != int64(len(large)) || entries[0].Version == "" {
		t.Fatalf("listed %+v", entries)
	}
	for _, f := range []fault.Fault{{Kind: fault.Lost, Op: "GetObject", Times: 2}, {Kind: fault.Error, Code: s3.SlowDown, Times: 1}, {Kind: fault.Garbage, Op: "GetObject", Times: 1}} {
		if err := server.Break(f); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, s, entries[0]); !bytes.Equal(got, large) {
		t.Errorf("read %d bytes, want %d", len(got), len(large))
	}
	r, err := s.Open(t.Context(), replay.Entry{Key: "p/gone", Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "deleted") {
		t.Errorf("an object that is gone: %v", err)
	}
	if err := s.Delete(t.Context(), "p/large"); err != nil {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), "p/large"); err != nil {
		t.Errorf("deleted twice: %v", err)
	}
}

func read(t *testing.T, s *bucket.Store, e replay.Entry) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// put stores an object as anybody may.
func put(t *testing.T, server *s3.Server, key string, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL()+"/"+name+"/"+key, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "rig")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("put %s: %s, %v", key, resp.Status, err)
	}
}

func TestStore_withoutPermission_saysSoAtOnce(t *testing.T) {
	server := start(t)
	s := open(t, server.URL(), bucket.Options{Owner: "a"})
	for code, text := range map[string]string{s3.AccessDenied: "do not allow", s3.NoSuchBucket: "bucket does not exist", s3.PermanentRedirect: "another region"} {
		if err := server.Break(fault.Fault{Kind: fault.Error, Code: code}); err != nil {
			t.Fatal(err)
		}
		err := s.List(t.Context(), s.Place(), func(replay.Entry) error { return nil })
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", code, err)
		}
		if err := server.Mend(); err != nil {
			t.Fatal(err)
		}
	}
}
