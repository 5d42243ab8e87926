package bucket

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/smithy-go"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/awsclient"
)

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 10 * time.Second
	// patience is how long one call is tried again.
	patience = 10 * time.Minute
	// quiet is how long the log says nothing more of calls that fail, and how long
	// none must have failed before it says that all is well.
	quiet = 15 * time.Second
)

// What an answer can say besides that a call failed.
var (
	errMissing  = errors.New("it does not exist")
	errRefused  = errors.New("the condition does not hold") // a conditional call
	errConflict = errors.New("another write is under way")
)

// meanings holds what the service's codes mean to a reader of objects.
var meanings = awsclient.With(awsclient.Table{
	"NoSuchBucket": {Class: sink.Transient, Cause: sink.CauseConfig,
		Means: "the bucket does not exist there: correct its name or the endpoint"},
	"PermanentRedirect": {Class: sink.Transient, Cause: sink.CauseConfig,
		Means: "the bucket is in another region: correct the region"},
	"AuthorizationHeaderMalformed": {Class: sink.Transient, Cause: sink.CauseConfig,
		Means: "the bucket is in another region: correct the region"},
	"HTTP 301": {Class: sink.Transient, Cause: sink.CauseConfig,
		Means: "the bucket is in another region: correct the region"},
	"KMS.DisabledException": awsclient.NoKey,
	"InvalidObjectState": {Class: sink.Transient, Cause: sink.CauseConfig,
		Means: "the object was moved to an archive class: restore it first"},
	"NotImplemented": {Class: sink.Transient, Cause: sink.CauseConfig, Means: "the service does not know this call"},
})

// call makes a call, and makes it again with growing waits while it fails for a
// reason that may pass. What needs a person (permission, a wrong name) is returned
// at once.
func (s *Store) call(ctx context.Context, doing string, f func(context.Context) error) error {
	began := time.Now()
	for n := 1; ; n++ {
		attempt, cancel := context.WithTimeout(ctx, s.cfg.AWS.RequestTimeout)
		err := f(attempt)
		cancel()
		if err == nil {
			s.tell(nil)
			return nil
		}
		switch code(err) {
		case "NoSuchKey", "NotFound", "HTTP 404":
			return errMissing
		case "PreconditionFailed", "HTTP 412":
			return errRefused
		case "ConditionalRequestConflict", "OperationAborted", "HTTP 409":
			err = errConflict
		}
		class, e := meanings.Explain(awsclient.Call{
			Context: ctx, Timeout: s.cfg.AWS.RequestTimeout, Doing: fmt.Sprintf("%s in bucket %s", doing, s.cfg.Bucket),
		}, err)
		passes := class == sink.Throttled || e.Cause == sink.CauseNetwork || e.Cause == sink.CauseServer
		if ctx.Err() != nil || !passes || time.Since(began) > patience {
			return e
		}
		if !errors.Is(err, errConflict) {
			s.tell(e)
		}
		wait(ctx, n)
	}
}

// code returns the service's word for an error, or its HTTP status.
func code(err error) string {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		if c := e.ErrorCode(); c != "" && c != "UnknownError" {
			return c
		}
	}
	if e, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok {
		return fmt.Sprint("HTTP ", e.HTTPStatusCode())
	}
	return ""
}

// wait waits after the n-th failure in a row.
func wait(ctx context.Context, n int) {
	ceiling := min(maxBackoff, minBackoff<<min(n, 10))
	t := time.NewTimer(minBackoff + rand.N(ceiling-minBackoff))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// tell logs when calls begin to fail, fail otherwise, and succeed again. A store
// that refuses some calls and takes others does not fill the log.
func (s *Store) tell(e *sink.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if e == nil {
		if s.trouble != "" && now.Sub(s.failedAt) > quiet {
			s.o.Log.Infof("the bucket answers again after %d failed calls", s.failures)
			s.trouble, s.failures = "", 0
		}
		return
	}
	s.failedAt = now
	s.failures++
	if kind := string(e.Cause) + e.Code; kind != s.trouble && now.Sub(s.toldAt) > quiet {
		s.trouble, s.toldAt = kind, now
		s.o.Log.Warnf("%v; it is tried again", e)
	}
}
