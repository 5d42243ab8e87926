package protocol

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"spillway/collector/internal/payload"
)

// oversize is the encoded payload of a POST with events of these sizes.
func oversize(sizes ...int) []byte {
	events := make([]string, len(sizes))
	for i, n := range sizes {
		events[i] = fmt.Sprintf(`{"e":"pv","n":"%d","x":"%s"}`, i, strings.Repeat("x", n))
	}
	p := payload.Payload{Body: []byte(`{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[` + strings.Join(events, ",") + `]}`)}
	return p.AppendThrift(nil)
}

func TestResplit_cutsWhatFitsByNow(t *testing.T) {
	data := oversize(600, 600, 600, 3000)
	if _, need, err := Resplit(data, 2000); err == nil || need < 3000 || need > 3500 {
		t.Errorf("an event of 3000 bytes in records of 2000: needs %d, %v", need, err)
	}
	_, need, _ := Resplit(data, 2000)
	pieces, _, err := Resplit(data, need)
	if err != nil || len(pieces) < 2 {
		t.Fatalf("with a limit of %d, as was asked for: %d pieces, %v", need, len(pieces), err)
	}
	found := map[int]int{}
	for _, piece := range pieces {
		p, err := payload.Decode(piece)
		if err != nil || len(piece) >= need {
			t.Errorf("a piece of %d bytes: %v", len(piece), err)
			continue
		}
		for i := range 4 {
			found[i] += bytes.Count(p.Body, fmt.Appendf(nil, `"n":"%d"`, i))
		}
	}
	for i := range 4 {
		if found[i] != 1 {
			t.Errorf("event %d is in the pieces %d times", i, found[i])
		}
	}
	if pieces, _, err := Resplit(data, len(data)+1); err != nil || len(pieces) != 1 || !bytes.Equal(pieces[0], data) {
		t.Errorf("what fits whole is not left whole: %d pieces, %v", len(pieces), err)
	}
	if _, need, err := Resplit([]byte("{}"), 100); err == nil || need != 0 {
		t.Errorf("what is no payload: needs %d, %v", need, err)
	}
}
