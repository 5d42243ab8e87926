package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"spillway/collector/internal/sink"
)

// split deals with a payload that no single record can hold. Where it is a
// POST with a list of events, the list is cut into as few lists as fit, in
// order. What cannot be cut further becomes a bad row, and stands whole in
// Oversize: a bad row shows only the beginning.
func (c *Core) split(size int, key string, at time.Time, plan *Plan) {
	limit := int(c.cfg.MaxRecordBytes)
	whole := func(maximum int, reason string) {
		plan.Records = append(plan.Records, Record{sink.Bad, key, c.sizeViolation(&plan.payload, at, maximum, size, reason)})
		plan.data = plan.payload.AppendThrift(plan.data)
		plan.Oversize = append(plan.Oversize, Record{sink.Good, key, plan.data})
	}
	if most := int(c.cfg.MaxPayloadBytes); most > 0 && size > most {
		whole(most, fmt.Sprintf("Payload exceeds max size of %d. Actual length: %d", most, size))
		return
	}
	batch, err := readBatch(plan.payload.Body)
	if err != nil {
		whole(limit, err.Error())
		return
	}
	p := plan.payload // everything but the body is repeated in each record
	encode := func(items []json.RawMessage) []byte {
		p.Body = batch.with(items)
		return p.AppendThrift(make([]byte, 0, p.ThriftSize()))
	}
	p.Body = batch.with(nil)
	empty := p.ThriftSize()
	if empty >= limit {
		whole(limit, `cannot split this POST request because event without "data" field is still too big`)
		return
	}

	start, used := 0, empty
	flush := func(end int) {
		if end > start {
			plan.Records = append(plan.Records, Record{sink.Good, key, encode(batch.data[start:end])})
		}
		start, used = end, empty
	}
	for i, item := range batch.data {
		if empty+len(item) >= limit {
			flush(i)
			start = i + 1
			plan.Records = append(plan.Records, Record{sink.Bad, key,
				c.sizeViolation(&plan.payload, at, limit, len(item), "this POST request split is still too large")})
			plan.Oversize = append(plan.Oversize, Record{sink.Good, key, encode(batch.data[i : i+1])})
			continue
		}
		comma := min(i-start, 1)
		if used+comma+len(item) >= limit {
			flush(i)
			comma = 0
		}
		used += comma + len(item)
	}
	flush(len(batch.data))
}

// batch is the body of a POST with a list of events.
type batch struct {
	schema json.RawMessage
	data   []json.RawMessage
}

var igluURI = regexp.MustCompile(`^"iglu:[a-zA-Z0-9-_.]+/[a-zA-Z0-9-_]+/[a-zA-Z0-9-_]+/[1-9][0-9]*-[0-9]+-[0-9]+"$`)

// readBatch reads a body, or says in the words of a bad row why it cannot be
// cut up. Only white space is changed: numbers and strings stay as they came.
func readBatch(body []byte) (batch, error) {
	if len(body) == 0 {
		return batch{}, fmt.Errorf("GET requests cannot be split")
	}
	var compact bytes.Buffer
	compact.Grow(len(body))
	if err := json.Compact(&compact, body); err != nil {
		return batch{}, fmt.Errorf("cannot split POST requests which are not json %w", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(compact.Bytes(), &members); err != nil {
		return batch{}, fmt.Errorf("cannot split POST requests which are not self-describing (not an object)")
	}
	b := batch{schema: members["schema"]}
	if !igluURI.Match(b.schema) {
		return batch{}, fmt.Errorf("cannot split POST requests which are not self-describing (the schema is missing or no iglu URI)")
	}
	data, ok := members["data"]
	if !ok {
		return batch{}, fmt.Errorf("cannot split POST requests which are not self-describing (data is missing)")
	}
	if err := json.Unmarshal(data, &b.data); err != nil || len(b.data) == 0 {
		return batch{}, fmt.Errorf("cannot split POST requests which do not contain a data array")
	}
	return b, nil
}

// with returns the body with other events in it.
func (b batch) with(items []json.RawMessage) []byte {
	size := len(`{"schema":,"data":[]}`) + len(b.schema) + len(items)
	for _, item := range items {
		size += len(item)
	}
	out := make([]byte, 0, size)
	out = append(out, `{"schema":`...)
	out = append(out, b.schema...)
	out = append(out, `,"data":[`...)
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, "]}"...)
}
