package kinesis

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"spillway/shared/rig/fault"
)

// maxBody is where reading stops: a PutRecords of 10 MiB in base64 with room.
const maxBody = 32 << 20

// request holds the members of every call's input that the stand-in reads.
type request struct {
	StreamName, StreamARN  string
	DryRun                 bool
	Records                []entry // PutRecords
	Data                   []byte  // PutRecord
	PartitionKey           string
	ExplicitHashKey        string
	ShardCount             int
	MaxRecordSizeInKiB     int64
	ShardID                string `json:"ShardId"`
	ShardIteratorType      string
	StartingSequenceNumber string
	Timestamp              float64
	ShardIterator          string
	Limit                  int
	MaxResults             int
	NextToken              string
	ExclusiveStartShardID  string `json:"ExclusiveStartShardId"`
	StreamModeDetails      struct{ StreamMode string }
}

type entry struct {
	Data            []byte
	PartitionKey    string
	ExplicitHashKey string
}

// answer is the output of a call, written as a JSON object.
type answer map[string]any

// apiError is an error of the service's own.
type apiError struct {
	code, message string
	status        int // 0: the code's usual one
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func failure(code, format string, args ...any) error {
	return &apiError{code: code, message: fmt.Sprintf(format, args...)}
}

// usualStatus holds the codes whose HTTP status is not 400.
var usualStatus = map[string]int{
	"InternalFailure":             http.StatusInternalServerError,
	"InternalFailureException":    http.StatusInternalServerError,
	"InternalServerError":         http.StatusInternalServerError,
	"ServiceUnavailable":          http.StatusServiceUnavailable,
	"ServiceUnavailableException": http.StatusServiceUnavailable,
	"RequestEntityTooLarge":       http.StatusRequestEntityTooLarge,
}

var calls = map[string]func(*Server, *request) (answer, error){
	"CreateStream":          (*Server).createStream,
	"DeleteStream":          (*Server).deleteStream,
	"ListStreams":           (*Server).listStreams,
	"DescribeStream":        (*Server).describeStream,
	"DescribeStreamSummary": (*Server).describeStreamSummary,
	"UpdateMaxRecordSize":   (*Server).updateMaxRecordSize,
	"ListShards":            (*Server).listShards,
	"PutRecord":             (*Server).putRecord,
	"PutRecords":            (*Server).putRecords,
	"GetShardIterator":      (*Server).getShardIterator,
	"GetRecords":            (*Server).getRecords,
}

// serve answers one HTTP request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	op := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "Kinesis_20131202.")
	call, known := calls[op]
	if !known || r.Method != http.MethodPost {
		writeError(w, &apiError{code: "UnknownOperationException"})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, &apiError{code: "RequestEntityTooLarge", message: "Request size exceeds the limit"})
		return
	}
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		writeError(w, &apiError{code: "SerializationException"})
		return
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") {
		writeError(w, failure("MissingAuthenticationTokenException", "Missing Authentication Token"))
		return
	}
	if op == "PutRecord" {
		in.Records = []entry{{in.Data, in.PartitionKey, in.ExplicitHashKey}}
	}

	s.mu.Lock()
	s.stats.Calls[op]++
	s.mu.Unlock()
	if s.options.OnCall != nil {
		s.options.OnCall(Call{Op: op, Stream: in.name(), Records: len(in.Records)})
	}
	apply := func(w http.ResponseWriter, _ *http.Request) {
		out, err := call(s, &in)
		if err != nil {
			writeError(w, err)
			return
		}
		write(w, http.StatusOK, out)
	}
	fail := func(w http.ResponseWriter, f fault.Fault) {
		err := s.errorOf(f, op, in.name())
		if f.Kind == fault.Skew {
			now := time.Now().Add(f.By).UTC()
			w.Header().Set("Date", now.Format(http.TimeFormat))
			if err = checkClock(r.Header.Get("X-Amz-Date"), now); err == nil {
				apply(w, r)
				return
			}
		}
		writeError(w, err)
	}
	s.Handle(w, r, fault.Call{Op: op, Target: in.name(), Data: in.data()}, fail, apply)
}

// checkClock refuses a signature made more than 5 minutes from now.
func checkClock(signedAt string, now time.Time) error {
	const form, most = "20060102T150405Z", 5 * time.Minute
	at, err := time.Parse(form, signedAt)
	switch {
	case err != nil:
		return failure("IncompleteSignatureException", "Date must be in ISO-8601 'basic format'. Got '%s'.", signedAt)
	case at.Before(now.Add(-most)):
		return failure("InvalidSignatureException", "Signature expired: %s is now earlier than %s (%s - 5 min.)",
			signedAt, now.Add(-most).Format(form), now.Format(form))
	case at.After(now.Add(most)):
		return failure("InvalidSignatureException", "Signature not yet current: %s is still later than %s (%s + 5 min.)",
			signedAt, now.Add(most).Format(form), now.Format(form))
	}
	return nil
}

func writeError(w http.ResponseWriter, err error) {
	e, ok := err.(*apiError)
	if !ok {
		e = &apiError{code: "InternalFailure", message: err.Error()}
	}
	status := e.status
	if status == 0 {
		status = usualStatus[e.code]
	}
	if status == 0 {
		status = http.StatusBadRequest
	}
	out := answer{"__type": e.code}
	if e.message != "" {
		out["message"] = e.message
	}
	write(w, status, out)
}

func write(w http.ResponseWriter, status int, out answer) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("x-amzn-RequestId", requestID())
	w.WriteHeader(status)
	if out != nil { // calls without output answer with no body, as the service does
		json.NewEncoder(w).Encode(out)
	}
}

// name returns the stream's name, also where only the ARN or an iterator says it.
func (in *request) name() string {
	if in.StreamName != "" {
		return in.StreamName
	}
	if _, name, ok := strings.Cut(in.StreamARN, ":stream/"); ok {
		return name
	}
	if it, err := parseIterator(in.ShardIterator); err == nil {
		return it.Stream
	}
	return ""
}

func (in *request) data() [][]byte {
	list := make([][]byte, len(in.Records))
	for i, r := range in.Records {
		list[i] = r.Data
	}
	return list
}
