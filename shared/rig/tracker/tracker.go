// Package tracker loads a collector the way trackers do, and keeps the books: it
// sends uniquely numbered events, keeps and sends again what was not taken, and
// notes which events were answered 200. Audit compares those books with what
// arrived at the destinations: an event answered 200 that is nowhere is lost.
//
//	t, err := tracker.New(tracker.Config{URL: collector, Connections: 8, EventsPerSecond: 500, Resend: true})
//	err = t.Run(ctx)                         // until ctx ends
//	err = t.Settle(later)                    // send again what is still open
//	report := tracker.Audit(t.Ledger(), kinesisData, s3Contents)
package tracker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Config of a tracker. Only URL is required.
type Config struct {
	URL         string // the collector, e.g. http://127.0.0.1:8080
	Connections int    // requests under way at most; 0: 1

	EventsPerSecond float64 // new events; 0: as fast as the collector answers
	Events          int     // Run ends after so many new events; 0: only when ctx ends
	EventsPerPost   int     // events in one POST; 0: 1
	PixelShare      float64 // part of the requests that are GET pixels, 0 to 1; a pixel carries one event
	EventBytes      int     // size of an event's JSON in a POST, at least about 600; 0: 1024

	// Resend says that what was not taken is kept and sent again: after 503 and
	// other refusals, when nobody listens, and when no answer came in time
	// (then the event may arrive twice). Without it each event is sent once.
	Resend     bool
	BackoffMin time.Duration // before the second attempt, doubling with jitter; 0: 50ms
	BackoffMax time.Duration // 0: 1s
	Timeout    time.Duration // of one request; 0: 5s, as trackers have it
}

// Tracker sends events. It is safe for concurrent use.
type Tracker struct {
	config Config
	client *http.Client
	ledger *Ledger

	mu        sync.Mutex
	requests  int           // guarded by mu; new requests so far, to spread the pixels among them
	generated int           // guarded by mu; events that exist by now at a steady rate
	ready     chan struct{} // guarded by mu; closed when generated rises, then replaced
}

// New returns a tracker whose event ids are not those of any other tracker.
func New(c Config) (*Tracker, error) {
	if c.URL == "" {
		return nil, errors.New("new tracker: no URL given")
	}
	if c.PixelShare < 0 || c.PixelShare > 1 || c.EventsPerSecond < 0 {
		return nil, fmt.Errorf("new tracker: a pixel share of %v or a rate of %v is not possible", c.PixelShare, c.EventsPerSecond)
	}
	c.Connections = max(c.Connections, 1)
	c.EventsPerPost = max(c.EventsPerPost, 1)
	if c.EventBytes == 0 {
		c.EventBytes = 1024
	}
	if c.BackoffMin == 0 {
		c.BackoffMin = 50 * time.Millisecond
	}
	if c.BackoffMax == 0 {
		c.BackoffMax = time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	transport := &http.Transport{MaxIdleConnsPerHost: c.Connections, MaxConnsPerHost: c.Connections}
	return &Tracker{
		config: c,
		client: &http.Client{Transport: transport, Timeout: c.Timeout},
		ledger: newLedger(),
		ready:  make(chan struct{}),
	}, nil
}

// Ledger returns the tracker's books. They may be read while it runs.
func (t *Tracker) Ledger() *Ledger { return t.ledger }

// Run sends new events until ctx ends, or until Config.Events of them have been
// dealt with. It returns nil in both cases; an error means that the collector's
// URL cannot be used. Events under way when ctx ends are open in the ledger.
func (t *Tracker) Run(ctx context.Context) error {
	if _, err := http.NewRequest(http.MethodGet, t.config.URL, nil); err != nil {
		return fmt.Errorf("run tracker: %w", err)
	}
	defer t.client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var generator, workers sync.WaitGroup
	if t.config.EventsPerSecond > 0 {
		generator.Go(func() { t.generate(ctx) })
	}
	for range t.config.Connections {
		workers.Go(func() {
			for {
				b, ok := t.take(ctx)
				if !ok {
					return
				}
				t.deliver(ctx, b, t.config.Resend)
			}
		})
	}
	workers.Wait()
	cancel()
	generator.Wait()
	return nil
}

// Settle sends the events that are open in the ledger until each is answered
// 200 or was dropped, or returns ctx's error and how many are still open. It
// must not be called while Run runs.
func (t *Tracker) Settle(ctx context.Context) error {
	defer t.client.CloseIdleConnections()
	todo := make(chan batch)
	var workers sync.WaitGroup
	for range t.config.Connections {
		workers.Go(func() {
			for b := range todo {
				t.deliver(ctx, b, true)
			}
		})
	}
	for part := range slices.Chunk(t.ledger.open(), t.config.EventsPerPost) {
		todo <- batch{numbers: part}
	}
	close(todo)
	workers.Wait()
	if open := len(t.ledger.open()); open > 0 {
		return fmt.Errorf("settle %d open events: %w", open, context.Cause(ctx))
	}
	return nil
}

// batch is what one request carries.
type batch struct {
	numbers []int
	pixel   bool
}

// generate lets events come into being at the steady rate, whether or not they
// can be sent: like page views, they do not wait for the collector.
func (t *Tracker) generate(ctx context.Context) {
	begun := time.Now()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		t.mu.Lock()
		t.generated = max(t.generated, int(time.Since(begun).Seconds()*t.config.EventsPerSecond))
		close(t.ready)
		t.ready = make(chan struct{})
		t.mu.Unlock()
	}
}

// take returns the next new batch, or false when there will be none.
func (t *Tracker) take(ctx context.Context) (batch, bool) {
	for ctx.Err() == nil {
		t.mu.Lock()
		room := t.config.EventsPerPost
		if t.config.Events > 0 {
			room = min(room, t.config.Events-t.ledger.issued())
		}
		if room <= 0 {
			t.mu.Unlock()
			return batch{}, false
		}
		if t.config.EventsPerSecond > 0 {
			room = min(room, t.generated-t.ledger.issued())
		}
		if room > 0 {
			b := t.next(room)
			t.mu.Unlock()
			return b, true
		}
		ready := t.ready
		t.mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
		}
	}
	return batch{}, false
}

// next makes a batch of at most n new events. Called with mu held.
func (t *Tracker) next(n int) batch {
	share := t.config.PixelShare
	pixel := int(float64(t.requests+1)*share) > int(float64(t.requests)*share)
	t.requests++
	if pixel {
		n = 1
	}
	return batch{numbers: t.ledger.issue(n), pixel: pixel}
}

// deliver sends a batch until it is taken or dropped; without again, once.
func (t *Tracker) deliver(ctx context.Context, b batch, again bool) {
	pause := t.config.BackoffMin
	for {
		outcome, status := t.send(ctx, b)
		t.ledger.note(b.numbers, outcome, status)
		if outcome == taken || outcome == dropped || !again {
			return
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, t.config.BackoffMax)
	}
}

// send makes one attempt. The outcome of a request that ctx cut off is unclear.
func (t *Tracker) send(ctx context.Context, b batch) (outcome, int) {
	req, err := t.request(ctx, b)
	if err != nil {
		return unreachable, 0
	}
	resp, err := t.client.Do(req)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return unreachable, 0
		}
		return unclear, 0
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body) // so that the connection is used again
	switch resp.StatusCode {
	case http.StatusOK:
		return taken, resp.StatusCode
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusGone, http.StatusUnprocessableEntity:
		return dropped, resp.StatusCode // what trackers do not send again
	}
	return refused, resp.StatusCode
}
