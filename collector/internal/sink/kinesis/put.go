package kinesis

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/awsclient"
)

const (
	// maxCalls bounds the calls of one Write. To find one refused record among 500
	// takes 19 at most; what is not tried within the bound waits for the next Write,
	// and each Write finds at least one.
	maxCalls = 64
	// maxRefused bounds the records whose refusal is remembered.
	maxRefused = 1000
	// maxShards is when shards that took nothing for a day are forgotten.
	maxShards = 4096
)

// write is one Write under way.
type write struct {
	sink     *Sink
	ctx      context.Context
	records  []sink.Record
	out      []sink.Outcome
	calls    int           // that may still be made
	stopped  *sink.Outcome // a fault of the destination, which ends the Write
	written  bool          // at least one record was
	suspects []int         // places of records refused by themselves
	apart    []int         // places of records refused as an aggregate, to be sent singly
}

// putAll writes the parcels with as few calls as they fit into.
func (w *write) putAll(parcels []parcel) {
	for len(parcels) > 0 {
		n := w.sink.cut(parcels)
		w.put(parcels[:n])
		parcels = parcels[n:]
	}
}

// put writes the parcels with one call, and with more for halves of them where the
// call was refused for one record's sake.
func (w *write) put(parcels []parcel) {
	if w.stopped == nil && w.calls == 0 {
		w.stopped = &sink.Outcome{Class: sink.Transient, Err: &sink.Error{Cause: sink.CauseConfig,
			Message: w.doing() + ": many records are refused; the others wait for the next attempt"}}
	}
	if w.stopped != nil {
		w.fail(parcels, *w.stopped)
		return
	}
	w.calls--
	answer, err := w.sink.call(w.ctx, parcels)
	if err == nil {
		w.take(parcels, answer)
		return
	}
	class, e := verdicts.Explain(awsclient.Call{Context: w.ctx, Timeout: w.sink.cfg.AWS.RequestTimeout, Doing: w.doing()}, err)
	switch {
	case class != sink.Permanent:
		w.stopped = &sink.Outcome{Class: class, Err: e}
		w.fail(parcels, *w.stopped)
	case len(parcels) > 1:
		half := len(parcels) / 2
		w.put(parcels[:half])
		w.put(parcels[half:])
	default:
		w.suspect(parcels[0].at, e)
	}
}

func (w *write) doing() string { return "put records into " + w.sink.where }

func (w *write) fail(parcels []parcel, o sink.Outcome) {
	for _, p := range parcels {
		w.set(p.at, o)
	}
}

// set gives the records at these places the same outcome.
func (w *write) set(at []int, o sink.Outcome) {
	for _, i := range at {
		w.out[i] = o
	}
}

// suspect notes that a parcel is refused by itself. What is refused in an
// aggregate may be one of its records, or the aggregate.
func (w *write) suspect(at []int, e *sink.Error) {
	w.set(at, sink.Outcome{Class: sink.Permanent, Err: e})
	if len(at) > 1 {
		w.apart = append(w.apart, at...)
		return
	}
	w.suspects = append(w.suspects, at...)
}

// take reads an answer, trusting only what it states of each record.
func (w *write) take(parcels []parcel, answer *kinesis.PutRecordsOutput) {
	if n := len(answer.Records); n != len(parcels) {
		w.stopped = &sink.Outcome{Class: sink.Transient, Err: &sink.Error{Cause: sink.CauseServer,
			Message: fmt.Sprintf("%s: the answer has not as many results as there were records; none is trusted, they may be written twice", w.doing())}}
		w.fail(parcels, *w.stopped)
		return
	}
	now := time.Now()
	shards := map[string]time.Time{}
	faults := map[string]*sink.Error{} // one for all records of a call that share a code
	for n, p := range parcels {
		r := answer.Records[n]
		code := aws.ToString(r.ErrorCode)
		if code == "" && aws.ToString(r.SequenceNumber) != "" {
			w.set(p.at, sink.Outcome{Class: sink.Written})
			w.written = true
			shards[aws.ToString(r.ShardId)] = now
			continue
		}
		v := verdicts.Verdict(code)
		if code == "" {
			v = unstated
		}
		if faults[code] == nil {
			faults[code] = &sink.Error{Cause: v.Cause, Code: code, Message: w.doing() + ": " + v.Means}
		}
		if v.Class == sink.Permanent {
			w.suspect(p.at, faults[code])
		} else {
			w.set(p.at, sink.Outcome{Class: v.Class, Err: faults[code]})
		}
	}
	if w.written {
		w.sink.tookAt(now, shards)
	}
}

// resolve decides about the suspects: given up is only what was refused by a
// stream that takes others.
func (w *write) resolve() {
	if len(w.suspects) == 0 {
		return
	}
	s := w.sink
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range w.suspects {
		seq := w.records[i].Seq
		since, known := s.refused[seq]
		if w.written || known && s.takenAt.After(since) {
			delete(s.refused, seq)
			continue
		}
		if !known {
			if len(s.refused) >= maxRefused {
				clear(s.refused) // they are tried once more than they need to be
			}
			s.refused[seq] = time.Now()
		}
		e := *w.out[i].Err
		e.Cause = sink.CauseConfig
		e.Message += "; it is kept until the stream takes another one, as the fault may lie with the stream"
		w.out[i] = sink.Outcome{Class: sink.Transient, Err: &e}
	}
}

// call makes one PutRecords of the parcels.
func (s *Sink) call(ctx context.Context, parcels []parcel) (*kinesis.PutRecordsOutput, error) {
	entries := make([]types.PutRecordsRequestEntry, len(parcels))
	for n := range parcels {
		p := &parcels[n]
		entries[n] = types.PutRecordsRequestEntry{Data: p.data, PartitionKey: &p.key}
		if p.hash != "" {
			entries[n].ExplicitHashKey = &p.hash
		}
		if entries[n].Data == nil {
			entries[n].Data = []byte{} // the SDK refuses what is absent
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.AWS.RequestTimeout)
	defer cancel()
	s.meter.Call()
	in := &kinesis.PutRecordsInput{Records: entries}
	in.StreamName, in.StreamARN = s.address()
	return s.client.PutRecords(ctx, in)
}

func (s *Sink) address() (name, arn *string) {
	if strings.HasPrefix(s.stream, "arn:") {
		return nil, &s.stream
	}
	return &s.stream, nil
}

// tookAt notes that the stream takes records, and which shards do.
func (s *Sink) tookAt(now time.Time, shards map[string]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.After(s.takenAt) {
		s.takenAt = now
	}
	for id := range shards {
		s.shards[id] = now
	}
	if len(s.shards) > maxShards {
		for id, at := range s.shards {
			if now.Sub(at) > 24*time.Hour {
				delete(s.shards, id)
			}
		}
	}
}
