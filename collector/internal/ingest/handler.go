package ingest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"spillway/collector/internal/admission"
	"spillway/collector/internal/ingest/protocol"
	"spillway/collector/internal/sink"
)

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	markHandled(r)
	now := time.Now()
	st := s.state.Load()
	x := s.exchanges.Get().(*exchange)
	defer s.release(x)
	x.begin(r, now)

	route := st.core.Route(&x.req)
	if !route.Event() {
		resp := st.core.Answer(route, &x.req)
		s.send(w, r, x, &resp)
		s.metrics.answered(kindOther, resp.Status, time.Since(now))
		return
	}
	kind := kindPixel
	if route.Post() {
		kind = kindPost
	}
	refusal := s.take(st, route, r, x)
	if refusal == nil {
		s.send(w, r, x, &x.plan.Response)
		s.metrics.answered(kind, x.plan.Response.Status, time.Since(now))
		return
	}
	if refusal.status == http.StatusRequestTimeout {
		w.Header()["Connection"] = closeConnection // the rest of the request may still be on its way
	}
	resp := st.core.Refuse(&x.req, refusal.status, refusal.text, refusal.retryAfter)
	s.send(w, r, x, &resp)
	s.metrics.turnedAway(refusal)
	s.metrics.answered(kind, refusal.status, time.Since(now))
}

var closeConnection = []string{"close"}

// refusal is why an event was not taken.
type refusal struct {
	status     int
	reason     reason
	text       string // for the tracker, and for who looks over its shoulder
	retryAfter time.Duration
}

// take admits an event, reads it, and stores what the protocol makes of it. It
// returns nil when everything is on stable storage and the plan's response may
// be sent.
func (s *Server) take(st *state, route protocol.Route, r *http.Request, x *exchange) *refusal {
	if !x.within(&st.cfg, r) {
		return &refusal{http.StatusBadRequest, reasonLimits, "the request line or the headers are too long", 0}
	}
	kind := admission.Pixel
	if route.Post() {
		kind = admission.Post
	}
	if ok, why, retryAfter := s.deps.Gate.Admit(kind); !ok {
		return &refusal{http.StatusServiceUnavailable, reasonBackpressure, why, retryAfter}
	}
	if !s.reserve(&st.cfg, x, requestCharge) {
		return s.unavailable(reasonBusy, errBusy.Error())
	}
	if route.Post() {
		if err := s.readBody(&st.cfg, r, x); err != nil {
			return s.badBody(err)
		}
		s.metrics.bodyBytes.Add(float64(len(x.body)))
	}
	st.core.Plan(route, &x.req, &x.plan)
	return s.store(st, x)
}

func (s *Server) badBody(err error) *refusal {
	switch {
	case errors.Is(err, errTooLarge):
		return &refusal{http.StatusRequestEntityTooLarge, reasonTooLarge, err.Error(), 0}
	case errors.Is(err, errTooSlow):
		return &refusal{http.StatusRequestTimeout, reasonTooSlow, err.Error(), 0}
	case errors.Is(err, errBusy):
		return s.unavailable(reasonBusy, err.Error())
	}
	return &refusal{http.StatusBadRequest, reasonCutOff, err.Error(), 0}
}

func (s *Server) unavailable(why reason, text string) *refusal {
	return &refusal{http.StatusServiceUnavailable, why, text, s.deps.Gate.RetryAfter()}
}

// store stores everything a plan asks for. The events come last: if anything
// fails, the tracker sends all of it again, and then it is better to have a bad
// row twice than an event.
//
// Storing goes on when the client has gone: a browser that leaves a page has
// sent its last event and will not send it again.
func (s *Server) store(st *state, x *exchange) *refusal {
	plan := &x.plan
	if len(plan.Records) == 0 && len(plan.Oversize) == 0 {
		return nil
	}
	// Until all is stored, somebody may still read what this request holds.
	x.poisoned = true
	ctx, cancel := context.WithTimeout(context.Background(), st.cfg.AppendTimeout)
	defer cancel()
	x.records = slices.Grow(x.records, len(plan.Records)+len(plan.Oversize))
	if len(plan.Oversize) > 0 {
		kept := x.gather(plan.Oversize, sink.Good)
		if err := s.deps.DeadLetters.Put(ctx, "larger than one record may be", kept...); err != nil {
			return s.notStored(ctx, reasonDeadLetters, err)
		}
		s.metrics.oversize.Add(float64(len(kept)))
	}
	for _, lane := range [...]sink.Lane{sink.Bad, sink.Good} {
		records := x.gather(plan.Records, lane)
		if len(records) == 0 {
			continue
		}
		if err := s.deps.Store.Append(ctx, lane, records); err != nil {
			return s.notStored(ctx, reasonStore, err)
		}
		s.metrics.stored(lane, len(records))
	}
	x.poisoned = false
	if ctx.Err() != nil {
		// Stored, but the tracker has given up on us and will send it again. A 200
		// now could only be taken for the answer to something else.
		return s.notStored(ctx, reasonTimeout, ctx.Err())
	}
	s.faults.clear()
	return nil
}

// gather lists the records of one lane in the form in which they are stored.
func (x *exchange) gather(from []protocol.Record, lane sink.Lane) []Record {
	start := len(x.records)
	for i := range from {
		if from[i].Lane == lane {
			x.records = append(x.records, Record{Key: from[i].Key, At: x.req.At, Data: from[i].Data})
		}
	}
	return x.records[start:]
}

func (s *Server) notStored(ctx context.Context, why reason, err error) *refusal {
	text := "the event could not be stored; send it again"
	if ctx.Err() != nil {
		why, text = reasonTimeout, "storing the event took too long; send it again"
	}
	s.faults.report(why, err)
	return s.unavailable(why, text)
}

// send writes a response.
func (s *Server) send(w http.ResponseWriter, r *http.Request, x *exchange, resp *protocol.Response) {
	h := w.Header()
	if s.draining.Load() || len(r.TransferEncoding) > 0 {
		// A message that carries both a length and a transfer coding reaches us as
		// merely chunked. What follows it on the connection is not to be trusted, or
		// a request could be hidden from a proxy in front.
		h["Connection"] = closeConnection
	}
	x.values = slices.Grow(x.values[:0], len(resp.Headers))
	for _, line := range resp.Headers {
		x.values = append(x.values, line.Value)
		n := len(x.values)
		if old, ok := h[line.Name]; ok {
			h[line.Name] = append(old, line.Value)
		} else {
			h[line.Name] = x.values[n-1 : n : n]
		}
	}
	// WriteHeader copies the headers, so that values may be used again.
	w.WriteHeader(resp.Status)
	if r.Method != http.MethodHead && len(resp.Body) > 0 {
		_, _ = w.Write(resp.Body) // the client is gone if this fails
	}
}
