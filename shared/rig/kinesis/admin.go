package kinesis

import (
	"math/big"
	"regexp"
)

// maxShards is the quota of a stream in the largest regions, doubled.
const maxShards = 1000

var validName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`)

// find returns the stream that a call names. Called with mu held.
func (s *Server) find(in *request) (*stream, error) {
	name := in.name()
	if name == "" {
		return nil, failure(InvalidArgument, "Either StreamName or StreamARN must be specified.")
	}
	st := s.streams[name]
	if st == nil {
		return nil, failure(NotFound, "Stream %s under account %s not found.", name, account)
	}
	return st, nil
}

func (s *Server) createStream(in *request) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shards := in.ShardCount
	if in.StreamModeDetails.StreamMode == "ON_DEMAND" {
		shards = 4 // what such a stream is born with
	}
	maxRecordBytes := in.MaxRecordSizeInKiB << 10
	if maxRecordBytes == 0 {
		maxRecordBytes = s.options.MaxRecordBytes
	}
	switch {
	case !validName.MatchString(in.StreamName):
		return nil, failure(Validation, "1 validation error detected: Value '%s' at 'streamName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+", in.StreamName)
	case shards < 1:
		return nil, failure(Validation, "1 validation error detected: Value '%d' at 'shardCount' failed to satisfy constraint: Member must have value greater than or equal to 1", shards)
	case shards > maxShards:
		return nil, failure(LimitExceeded, "This request would exceed the shard limit for the account %s.", account)
	case s.streams[in.StreamName] != nil:
		return nil, failure("ResourceInUseException", "Stream %s under account %s already exists.", in.StreamName, account)
	}
	s.streams[in.StreamName] = newStream(in.StreamName, shards, maxRecordBytes, s.rate)
	return nil, nil
}

func (s *Server) deleteStream(in *request) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in)
	if err != nil {
		return nil, err
	}
	delete(s.streams, st.name)
	return nil, nil
}

func (s *Server) updateMaxRecordSize(in *request) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in)
	if err != nil {
		return nil, err
	}
	if in.MaxRecordSizeInKiB < 1024 || in.MaxRecordSizeInKiB > 10240 {
		return nil, failure(Validation, "1 validation error detected: Value '%d' at 'maxRecordSizeInKiB' failed to satisfy constraint: Member must have value between 1024 and 10240", in.MaxRecordSizeInKiB)
	}
	st.maxRecordBytes = in.MaxRecordSizeInKiB << 10
	st.limit(s.rate)
	return nil, nil
}

func (s *Server) listStreams(*request) (answer, error) {
	names := append([]string{}, s.Streams()...) // an empty list, never null
	return answer{"StreamNames": names, "HasMoreStreams": false}, nil
}

func (s *Server) describeStreamSummary(in *request) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in)
	if err != nil {
		return nil, err
	}
	out := st.describe()
	out["OpenShardCount"] = len(st.shards)
	out["ConsumerCount"] = 0
	out["MaxRecordSizeInKiB"] = st.maxRecordBytes >> 10
	return answer{"StreamDescriptionSummary": out}, nil
}

func (s *Server) describeStream(in *request) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in)
	if err != nil {
		return nil, err
	}
	page, more := st.page(in.ExclusiveStartShardID, in.Limit, 100)
	out := st.describe()
	out["Shards"], out["HasMoreShards"] = page, more
	return answer{"StreamDescription": out}, nil
}

// listShards pages with the last shard's id as the token; the token carries the
// stream's name, since the call may not name both.
func (s *Server) listShards(in *request) (answer, error) {
	after := in.ExclusiveStartShardID
	if in.NextToken != "" {
		it, err := parseIterator(in.NextToken)
		if err != nil {
			return nil, failure("ExpiredNextTokenException", "NextToken is invalid.")
		}
		in.StreamName, after = it.Stream, it.Shard
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in)
	if err != nil {
		return nil, err
	}
	page, more := st.page(after, in.MaxResults, 1000)
	out := answer{"Shards": page}
	if more {
		out["NextToken"] = iterator{Stream: st.name, Shard: page[len(page)-1]["ShardId"].(string)}.String()
	}
	return out, nil
}

func (st *stream) describe() answer {
	return answer{
		"StreamName": st.name, "StreamARN": st.arn(), "StreamStatus": "ACTIVE",
		"StreamModeDetails":       answer{"StreamMode": "PROVISIONED"},
		"StreamCreationTimestamp": seconds(st.createdAt), "RetentionPeriodHours": 24,
		"EncryptionType": "NONE", "EnhancedMonitoring": []answer{{"ShardLevelMetrics": []string{}}},
	}
}

// page returns at most limit shards (0: usual) with ids behind after, and
// whether there are more.
func (st *stream) page(after string, limit, usual int) (page []answer, more bool) {
	if limit == 0 {
		limit = usual
	}
	page = []answer{}
	for _, sh := range st.shards {
		if sh.id <= after {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		last := new(big.Int).Sub(sh.end, big.NewInt(1))
		page = append(page, answer{
			"ShardId":             sh.id,
			"HashKeyRange":        answer{"StartingHashKey": sh.start.String(), "EndingHashKey": last.String()},
			"SequenceNumberRange": answer{"StartingSequenceNumber": sh.seq(0)},
		})
	}
	return page, false
}
