package s3

import (
	"encoding/xml"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"spillway/shared/rig/fault"
)

// Codes of errors that the service answers, for faults of kind Error.
const (
	SlowDown           = "SlowDown"
	InternalError      = "InternalError"
	ServiceUnavailable = "ServiceUnavailable"
	AccessDenied       = "AccessDenied"
	NoSuchBucket       = "NoSuchBucket"
	NoSuchKey          = "NoSuchKey"
	InvalidAccessKey   = "InvalidAccessKeyId"
	SignatureMismatch  = "SignatureDoesNotMatch"
	ExpiredToken       = "ExpiredToken"
	ClockSkewed        = "RequestTimeTooSkewed"
	PermanentRedirect  = "PermanentRedirect"            // wrong region, other endpoint
	WrongRegion        = "AuthorizationHeaderMalformed" // wrong region, same endpoint
	RequestTimeout     = "RequestTimeout"
	Conflict           = "ConditionalRequestConflict"
	PreconditionFailed = "PreconditionFailed"
	KMSDisabled        = "KMS.DisabledException"
)

// meanings holds the HTTP status and the text of each code.
var meanings = map[string]struct {
	status int
	text   string
}{
	SlowDown:           {503, "Please reduce your request rate."},
	InternalError:      {500, "We encountered an internal error. Please try again."},
	ServiceUnavailable: {503, "Service is unable to handle request."},
	AccessDenied:       {403, "Access Denied"},
	NoSuchBucket:       {404, "The specified bucket does not exist"},
	NoSuchKey:          {404, "The specified key does not exist."},
	InvalidAccessKey:   {403, "The AWS Access Key Id you provided does not exist in our records."},
	SignatureMismatch:  {403, "The request signature we calculated does not match the signature you provided. Check your key and signing method."},
	ExpiredToken:       {400, "The provided token has expired."},
	ClockSkewed:        {403, "The difference between the request time and the current time is too large."},
	PermanentRedirect:  {301, "The bucket you are attempting to access must be addressed using the specified endpoint. Please send all future requests to this endpoint."},
	WrongRegion:        {400, "The authorization header is malformed; the region 'us-east-1' is wrong; expecting '" + otherRegion + "'"},
	RequestTimeout:     {400, "Your socket connection to the server was not read from or written to within the timeout period. Idle connections will be closed."},
	Conflict:           {409, "The conditional request cannot succeed due to a conflicting operation against this resource."},
	PreconditionFailed: {412, "At least one of the pre-conditions you specified did not hold"},
	KMSDisabled:        {400, "The key of the bucket is disabled."},
}

// otherRegion is where the bucket is when the fault is a wrong region.
const otherRegion = "eu-west-1"

// errorBody is an error as the protocol writes it.
type errorBody struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string
	Message   string
	Region    string `xml:",omitempty"`
	Resource  string
	RequestID string `xml:"RequestId"`
}

// serve answers one HTTP request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	op := operation(r, key)
	s.mu.Lock()
	s.calls[op]++
	s.mu.Unlock()
	if s.options.OnCall != nil {
		s.options.OnCall(Call{Op: op, Bucket: bucket, Key: key})
	}
	apply := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" && !r.URL.Query().Has("X-Amz-Signature") {
			writeError(w, r, fault.Fault{Code: AccessDenied})
			return
		}
		s.service.ServeHTTP(w, r)
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.changed)
		s.changed = make(chan struct{})
	}
	fail := func(w http.ResponseWriter, f fault.Fault) {
		if f.Kind == fault.Skew {
			now := time.Now().Add(f.By).UTC()
			w.Header().Set("Date", now.Format(http.TimeFormat))
			if signedNear(r, now) {
				apply(w, r)
				return
			}
			f.Code = ClockSkewed
		}
		writeError(w, r, f)
	}
	s.Handle(w, r, fault.Call{Op: op, Target: bucket}, fail, apply)
}

// signedNear says whether the request was signed within the service's 15
// minutes of now.
func signedNear(r *http.Request, now time.Time) bool {
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	return err == nil && now.Sub(at).Abs() <= 15*time.Minute
}

func writeError(w http.ResponseWriter, r *http.Request, f fault.Fault) {
	meaning := meanings[f.Code]
	status, text := meaning.status, meaning.text
	if f.Status != 0 {
		status = f.Status
	}
	if status == 0 {
		status = http.StatusBadRequest
	}
	if f.Message != "" {
		text = f.Message
	}
	body := errorBody{Code: f.Code, Message: text, Resource: r.URL.Path, RequestID: uuid.NewString()}
	if f.Code == WrongRegion || f.Code == PermanentRedirect {
		body.Region = otherRegion
		w.Header().Set("x-amz-bucket-region", otherRegion)
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("x-amz-request-id", body.RequestID)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write([]byte(xml.Header))
		xml.NewEncoder(w).Encode(body)
	}
}

// operation names a call as the SDK names it.
func operation(r *http.Request, key string) string {
	q := r.URL.Query()
	switch {
	case q.Has("uploads") && r.Method == http.MethodPost:
		return "CreateMultipartUpload"
	case q.Has("uploadId"):
		return map[string]string{"PUT": "UploadPart", "POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload", "GET": "ListParts"}[r.Method]
	case q.Has("delete"):
		return "DeleteObjects"
	case r.Header.Get("X-Amz-Copy-Source") != "":
		return "CopyObject"
	case key != "":
		return map[string]string{"GET": "GetObject", "HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject", "POST": "PostObject"}[r.Method]
	case r.URL.Path == "/":
		return "ListBuckets"
	}
	return map[string]string{"GET": "ListObjects", "HEAD": "HeadBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket"}[r.Method]
}
