package kinesis

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// The limits of one GetRecords.
const (
	maxGetRecords = 10000
	maxGetBytes   = 10 << 20
)

// iterator is a place in a shard; its base64 JSON form is the opaque string of
// the protocol.
type iterator struct {
	Stream string
	Shard  string
	Next   int // place of the next record
}

func (it iterator) String() string {
	text, _ := json.Marshal(it) // strings and a number cannot fail
	return base64.StdEncoding.EncodeToString(text)
}

func parseIterator(s string) (it iterator, err error) {
	text, err := base64.StdEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(text, &it)
	}
	return it, err
}

func (s *Server) getShardIterator(in *request) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in)
	if err != nil {
		return nil, err
	}
	sh := st.shard(in.ShardID)
	if sh == nil {
		return nil, failure(NotFound, "Shard %s in stream %s under account %s does not exist", in.ShardID, st.name, account)
	}
	it := iterator{Stream: st.name, Shard: sh.id}
	switch in.ShardIteratorType {
	case "TRIM_HORIZON":
	case "LATEST":
		it.Next = len(sh.records)
	case "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER":
		place, ok := sh.place(in.StartingSequenceNumber)
		if !ok {
			return nil, failure(InvalidArgument, "StartingSequenceNumber %s used in GetShardIterator on shard %s in stream %s under account %s is invalid.",
				in.StartingSequenceNumber, sh.id, st.name, account)
		}
		it.Next = place
		if in.ShardIteratorType == "AFTER_SEQUENCE_NUMBER" {
			it.Next++
		}
	case "AT_TIMESTAMP":
		from := time.UnixMilli(int64(in.Timestamp * 1000))
		for it.Next < len(sh.records) && st.records[sh.records[it.Next]].at.Before(from) {
			it.Next++
		}
	default:
		return nil, failure(Validation, "1 validation error detected: Value '%s' at 'shardIteratorType' failed to satisfy constraint: "+
			"Member must satisfy enum value set: [AFTER_SEQUENCE_NUMBER, LATEST, AT_TIMESTAMP, AT_SEQUENCE_NUMBER, TRIM_HORIZON]", in.ShardIteratorType)
	}
	if in.DryRun {
		return nil, dryRun()
	}
	return answer{"ShardIterator": it.String()}, nil
}

func (s *Server) getRecords(in *request) (answer, error) {
	it, err := parseIterator(in.ShardIterator)
	if err != nil {
		return nil, failure(InvalidArgument, "Invalid ShardIterator.")
	}
	if in.Limit < 0 || in.Limit > maxGetRecords {
		return nil, failure(Validation, "1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value less than or equal to %d", in.Limit, maxGetRecords)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[it.Stream]
	if st == nil {
		return nil, failure(NotFound, "Stream %s under account %s not found.", it.Stream, account)
	}
	sh := st.shard(it.Shard)
	if sh == nil || it.Next < 0 || it.Next > len(sh.records) {
		return nil, failure(InvalidArgument, "Invalid ShardIterator.")
	}
	if in.DryRun {
		return nil, dryRun()
	}
	limit := in.Limit
	if limit == 0 {
		limit = maxGetRecords
	}
	list, bytes := []answer{}, 0
	for it.Next < len(sh.records) && len(list) < limit {
		r := &st.records[sh.records[it.Next]]
		if bytes += len(r.data); bytes > maxGetBytes && len(list) > 0 {
			break
		}
		list = append(list, answer{
			"Data": r.data, "PartitionKey": r.key, "SequenceNumber": sh.seq(r.place),
			"ApproximateArrivalTimestamp": seconds(r.at), "EncryptionType": "NONE",
		})
		it.Next++
	}
	behind := int64(0)
	if it.Next < len(sh.records) {
		behind = time.Since(st.records[sh.records[it.Next]].at).Milliseconds()
	}
	return answer{"Records": list, "NextShardIterator": it.String(), "MillisBehindLatest": behind}, nil
}

// seconds is a time as the protocol writes it: seconds since 1970 with three
// decimals.
func seconds(t time.Time) json.Number {
	return json.Number(fmt.Sprintf("%d.%03d", t.Unix(), t.Nanosecond()/1e6))
}
