package awsclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"spillway/collector/internal/sink"
)

// Verdict is what one of a service's error codes means.
type Verdict struct {
	Class sink.Class
	Cause sink.Cause
	Means string // what is wrong, and what to do about it
}

// The meanings that several codes share.
var (
	Throttled = Verdict{sink.Throttled, sink.CauseThrottled, "the service is asked for more than it gives"}
	Failing   = Verdict{sink.Transient, sink.CauseServer, "the service has a fault of its own"}
	Denied    = Verdict{sink.Transient, sink.CauseAuth, "the credentials do not allow it: allow it to the role or user"}
	Expired   = Verdict{sink.Transient, sink.CauseAuth, "the credentials have expired: renew them or mend what renews them"}
	Unknown   = Verdict{sink.Transient, sink.CauseAuth, "the credentials are not known to the service: correct the access key"}
	Unsigned  = Verdict{sink.Transient, sink.CauseAuth, "the signature is not accepted: correct the secret key"}
	Skewed    = Verdict{sink.Transient, sink.CauseAuth, "the signature is from another time: check the clock of this host"}
	NoKey     = Verdict{sink.Transient, sink.CauseConfig, "the KMS key cannot be used: enable or replace it"}
	KeyDenied = Verdict{sink.Transient, sink.CauseAuth, "the KMS key may not be used: allow its use to the role or user"}
	NotSpoken = Verdict{sink.Transient, sink.CauseConfig, "what answers does not know this call: correct the endpoint"}
)

// common holds the codes that mean the same at every service.
var common = Table{
	"Throttling":                             Throttled,
	"ThrottlingException":                    Throttled,
	"ThrottledException":                     Throttled,
	"RequestThrottledException":              Throttled,
	"RequestThrottled":                       Throttled,
	"TooManyRequestsException":               Throttled,
	"ProvisionedThroughputExceededException": Throttled,
	"TransactionInProgressException":         Throttled,
	"RequestLimitExceeded":                   Throttled,
	"BandwidthLimitExceeded":                 Throttled,
	"LimitExceededException":                 Throttled,
	"SlowDown":                               Throttled,
	"PriorRequestNotComplete":                Throttled,
	"EC2ThrottledException":                  Throttled,

	"InternalFailure":             Failing,
	"InternalFailureException":    Failing,
	"InternalServerError":         Failing,
	"InternalError":               Failing,
	"ServiceUnavailable":          Failing,
	"ServiceUnavailableException": Failing,

	"AccessDenied":                        Denied,
	"AccessDeniedException":               Denied,
	"NotAuthorized":                       Denied,
	"UnauthorizedOperation":               Denied,
	"OptInRequired":                       Denied,
	"ExpiredToken":                        Expired,
	"ExpiredTokenException":               Expired,
	"TokenRefreshRequired":                Expired,
	"UnrecognizedClientException":         Unknown,
	"InvalidClientTokenId":                Unknown,
	"InvalidAccessKeyId":                  Unknown,
	"InvalidToken":                        Unknown,
	"AuthFailure":                         Unknown,
	"MissingAuthenticationToken":          Unknown,
	"MissingAuthenticationTokenException": Unknown,
	"SignatureDoesNotMatch":               Unsigned,
	"InvalidSignatureException":           Unsigned,
	"IncompleteSignature":                 Unsigned,
	"IncompleteSignatureException":        Unsigned,
	"RequestExpired":                      Skewed,
	"RequestTimeTooSkewed":                Skewed,
	"RequestInTheFuture":                  Skewed,

	"RequestTimeout":            {sink.Transient, sink.CauseNetwork, "the service did not get the whole request in time"},
	"RequestTimeoutException":   {sink.Transient, sink.CauseNetwork, "the service did not get the whole request in time"},
	"UnknownOperationException": NotSpoken,
	"InvalidAction":             NotSpoken,
	"SerializationException":    {sink.Transient, sink.CauseServer, "the service did not understand the request: something between may have changed it"},
}

// Table says what a service's error codes mean, on top of those that mean the
// same everywhere. A key "HTTP 413" stands for answers of that status whose code
// is not in the table.
type Table map[string]Verdict

// With returns the table of a service that knows these codes and the common
// ones.
func With(own Table) Table {
	t := maps.Clone(common)
	maps.Copy(t, own)
	return t
}

// Call is what a failed call was about.
type Call struct {
	Context context.Context // the caller's, without the time-out of the attempt
	Timeout time.Duration   // of the attempt
	Doing   string          // "put records into stream good in eu-west-1"
}

// Explain says what a failed call means. The message has no numbers that differ
// from attempt to attempt, so that the same fault gives the same message.
func (t Table) Explain(c Call, err error) (sink.Class, *sink.Error) {
	v, code, detail := t.judge(c, err)
	message := c.Doing + ": " + v.Means
	if detail != "" {
		message += " (" + detail + ")"
	}
	return v.Class, &sink.Error{Cause: v.Cause, Code: code, Message: message, Err: err}
}

// Verdict returns what a code means, for codes that stand in an answer.
func (t Table) Verdict(code string) Verdict {
	if v, ok := t[code]; ok {
		return v
	}
	return Failing
}

func (t Table) judge(c Call, err error) (v Verdict, code, detail string) {
	if ended := c.Context.Err(); ended != nil {
		return Verdict{Cause: sink.CauseNetwork, Means: "stopped before there was an answer"}, "", ended.Error()
	}
	if e, ok := errors.AsType[*credentialsError](err); ok {
		return Verdict{Cause: sink.CauseAuth, Means: "there are no credentials to sign with: check the role, profile or keys"}, "", shorten(e.err.Error())
	}
	status := 0
	if e, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		status = e.HTTPStatusCode()
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		code, detail = e.ErrorCode(), shorten(e.ErrorMessage())
		// The codes of errors that name no code.
		if code == "" || code == "UnknownError" || code == http.StatusText(status) {
			code, detail = fmt.Sprint("HTTP ", status), ""
		}
		v, ok := t[code]
		if !ok {
			v = t.byStatus(status)
		}
		// One code serves for wrong keys and for a wrong clock.
		if text := strings.ToLower(detail); v == Unsigned && (strings.Contains(text, "signature expired") || strings.Contains(text, "not yet current")) {
			v, detail = Skewed, ""
		}
		return v, code, detail
	}
	if v, detail, ok := network(c, err); ok {
		return v, "", detail
	}
	if status >= 300 {
		return t.byStatus(status), fmt.Sprint("HTTP ", status), ""
	}
	if _, ok := errors.AsType[*smithy.DeserializationError](err); ok || status != 0 {
		return Verdict{Cause: sink.CauseServer, Means: "the answer could not be read: what answers may not be the service"}, "", ""
	}
	return Failing, "", shorten(err.Error())
}

func (t Table) byStatus(status int) Verdict {
	if v, ok := t[fmt.Sprint("HTTP ", status)]; ok {
		return v
	}
	switch {
	case status == http.StatusTooManyRequests:
		return Throttled
	case status == http.StatusRequestTimeout:
		return common["RequestTimeout"]
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Denied
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented, status >= 300 && status < 400:
		return NotSpoken
	}
	return Failing
}

// shorten keeps a service's text to a length that fits a log line.
func shorten(s string) string {
	const most = 300
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
