package kinesis

import (
	"fmt"
	"math/big"
	"time"
	"unicode/utf8"

	"spillway/shared/rig/fault"
)

// maxRecords is how many records one PutRecords may carry.
const maxRecords = 500

// putRecords stores what it can, record by record, like the service: one failed
// record does not stop the others.
func (s *Server) putRecords(in *request) (answer, error) {
	if n := len(in.Records); n < 1 || n > maxRecords {
		bound := fmt.Sprintf("less than or equal to %d", maxRecords)
		if n < 1 {
			bound = "greater than or equal to 1"
		}
		return nil, failure(Validation, "1 validation error detected: Value at 'records' failed to satisfy constraint: Member must have length %s", bound)
	}
	results, err := s.put("PutRecords", in)
	if err != nil {
		return nil, err
	}
	failed := 0
	for _, r := range results {
		if r["ErrorCode"] != nil {
			failed++
		}
	}
	return answer{"FailedRecordCount": failed, "Records": results, "EncryptionType": "NONE"}, nil
}

// putRecord is a PutRecords of one whose record's error is the call's error.
func (s *Server) putRecord(in *request) (answer, error) {
	results, err := s.put("PutRecord", in)
	if err != nil {
		return nil, err
	}
	r := results[0]
	if code, failed := r["ErrorCode"].(string); failed {
		return nil, failure(code, "%s", r["ErrorMessage"])
	}
	r["EncryptionType"] = "NONE"
	return r, nil
}

func (s *Server) put(op string, in *request) ([]answer, error) {
	kept := in.data()
	if s.options.Compact != nil {
		for i := range kept {
			kept[i] = s.options.Compact(kept[i])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in)
	if err != nil {
		return nil, err
	}
	if err := s.checkRecords(st, in.Records); err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	results, now, written := make([]answer, len(in.Records)), time.Now(), 0
	call := fault.Call{Op: op, Target: st.name}
	for i, r := range in.Records {
		sh := st.route(r.PartitionKey, r.ExplicitHashKey)
		if f, struck := s.PickRecord(call, r.Data); struck {
			results[i] = s.refuse(f, op, st, sh)
		} else if !sh.take(now, len(r.Data)+len(r.PartitionKey)) {
			results[i] = s.refuse(fault.Fault{Code: Throttled}, op, st, sh)
		} else {
			results[i] = answer{"SequenceNumber": st.store(sh, r.PartitionKey, kept[i], now), "ShardId": sh.id}
			written++
		}
	}
	if written > 0 {
		s.stats.Written += written
		close(s.grown)
		s.grown = make(chan struct{})
	}
	return results, nil
}

// refuse makes the result of one failed record and counts it.
func (s *Server) refuse(f fault.Fault, op string, st *stream, sh *shard) answer {
	if f.Code == Throttled {
		s.stats.Throttled++
		if f.Message == "" {
			f.Message = fmt.Sprintf("Rate exceeded for shard %s in stream %s under account %s.", sh.id, st.name, account)
		}
	} else {
		s.stats.Failed++
	}
	e := s.errorOf(f, op, st.name).(*apiError)
	return answer{"ErrorCode": e.code, "ErrorMessage": e.message}
}

// checkRecords refuses the whole call for what one of its records is.
func (s *Server) checkRecords(st *stream, records []entry) error {
	var total int64
	for i, r := range records {
		wrong := func(member, value, must string) error {
			return failure(Validation, "1 validation error detected: Value%s at 'records.%d.member.%s' failed to satisfy constraint: Member must %s",
				value, i+1, member, must)
		}
		size := int64(len(r.Data) + len(r.PartitionKey))
		total += size
		switch n := utf8.RuneCountInString(r.PartitionKey); {
		case n < 1:
			return wrong("partitionKey", " ''", "have length greater than or equal to 1")
		case n > 256:
			return wrong("partitionKey", " '"+r.PartitionKey+"'", "have length less than or equal to 256")
		case int64(len(r.Data)) > st.maxRecordBytes:
			return wrong("data", "", fmt.Sprintf("have length less than or equal to %d", st.maxRecordBytes))
		case size > st.maxRecordBytes:
			return failure(InvalidArgument, "Record %d with its partition key is %d bytes, the limit of stream %s is %d.", i+1, size, st.name, st.maxRecordBytes)
		case !hashKey(r.ExplicitHashKey):
			return failure(InvalidArgument, "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. Specified value was %s", r.ExplicitHashKey)
		}
	}
	if total > s.options.MaxCallBytes {
		return failure(InvalidArgument, "Records size exceeds %d bytes limit", s.options.MaxCallBytes)
	}
	return nil
}

// hashKey says whether an explicit hash key, if there is one, is in the key space.
func hashKey(s string) bool {
	if s == "" {
		return true
	}
	n, ok := new(big.Int).SetString(s, 10)
	return ok && n.Sign() >= 0 && n.Cmp(keySpace) < 0
}

func dryRun() error {
	return failure("DryRunOperationException", "Request would have succeeded, but DryRun flag is set.")
}
