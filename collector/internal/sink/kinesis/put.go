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
}

// put writes the records at these places with one call, and with more for halves
// of them where the call was refused for one record's sake.
func (w *write) put(at []int) {
	if w.stopped == nil && w.calls == 0 {
		w.stopped = &sink.Outcome{Class: sink.Transient, Err: &sink.Error{Cause: sink.CauseConfig,
			Message: w.doing() + ": many records are refused; the others wait for the next attempt"}}
	}
	if w.stopped != nil {
		w.fail(at, *w.stopped)
		return
	}
	w.calls--
	answer, err := w.sink.call(w.ctx, w.records, at)
	if err == nil {
		w.take(at, answer)
		return
	}
	class, e := verdicts.Explain(awsclient.Call{Context: w.ctx, Timeout: w.sink.cfg.AWS.RequestTimeout, Doing: w.doing()}, err)
	switch {
	case class != sink.Permanent:
		w.stopped = &sink.Outcome{Class: class, Err: e}
		w.fail(at, *w.stopped)
	case len(at) > 1:
		half := len(at) / 2
		w.put(at[:half])
		w.put(at[half:])
	default:
		w.suspect(at[0], e)
	}
}

func (w *write) doing() string { return "put records into " + w.sink.where }

func (w *write) fail(at []int, o sink.Outcome) {
	for _, i := range at {
		w.out[i] = o
	}
}

func (w *write) suspect(i int, e *sink.Error) {
	w.out[i] = sink.Outcome{Class: sink.Permanent, Err: e}
	w.suspects = append(w.suspects, i)
}

// take reads an answer, trusting only what it states of each record.
func (w *write) take(at []int, answer *kinesis.PutRecordsOutput) {
	if n := len(answer.Records); n != len(at) {
		w.stopped = &sink.Outcome{Class: sink.Transient, Err: &sink.Error{Cause: sink.CauseServer,
			Message: fmt.Sprintf("%s: the answer has not as many results as there were records; none is trusted, they may be written twice", w.doing())}}
		w.fail(at, *w.stopped)
		return
	}
	now := time.Now()
	shards := map[string]time.Time{}
	faults := map[string]*sink.Error{} // one for all records of a call that share a code
	for n, i := range at {
		r := answer.Records[n]
		code := aws.ToString(r.ErrorCode)
		if code == "" && aws.ToString(r.SequenceNumber) != "" {
			w.out[i] = sink.Outcome{Class: sink.Written}
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
			w.suspect(i, faults[code])
		} else {
			w.out[i] = sink.Outcome{Class: v.Class, Err: faults[code]}
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

// call makes one PutRecords of the records at these places.
func (s *Sink) call(ctx context.Context, records []sink.Record, at []int) (*kinesis.PutRecordsOutput, error) {
	entries := make([]types.PutRecordsRequestEntry, len(at))
	for n, i := range at {
		key := strings.ToValidUTF8(records[i].Key, "\uFFFD") // it only chooses the shard
		entries[n] = types.PutRecordsRequestEntry{Data: records[i].Data, PartitionKey: &key}
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
