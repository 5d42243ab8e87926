package protocol

import (
	"fmt"
	"time"

	"spillway/collector/internal/payload"
	"spillway/collector/internal/sink"
	"spillway/shared/configfile"
)

// Resplit cuts an encoded payload that was too large for one record when it came
// into payloads of less than limit bytes, as it would be cut if it came now. When
// that cannot be done, need is the least limit with which its largest part would
// fit, and the error says why.
func Resplit(data []byte, limit int) (pieces [][]byte, need int, err error) {
	p, err := payload.Decode(data)
	if err != nil {
		return nil, 0, fmt.Errorf("it is no payload: %w", err)
	}
	if len(data) < limit {
		return [][]byte{data}, 0, nil
	}
	var cfg Config
	cfg.MaxRecordBytes = configfile.Size(limit)
	plan := Plan{payload: *p}
	(&Core{cfg: cfg}).split(len(data), "", time.Time{}, &plan)
	for _, whole := range plan.Oversize {
		need = max(need, len(whole.Data)+1)
	}
	if need > 0 {
		return nil, need, fmt.Errorf("a part of it that cannot be cut has %d bytes, and a record takes less than %d", need-1, limit)
	}
	for _, r := range plan.Records {
		if r.Lane == sink.Good {
			pieces = append(pieces, r.Data)
		}
	}
	return pieces, 0, nil
}
