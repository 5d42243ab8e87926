package awsclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"spillway/collector/internal/sink"
	"spillway/collector/internal/sink/awsclient"
	"spillway/shared/configfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *awsclient.Client {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	c, err := awsclient.New(awsclient.Config{Region: "eu-west-1", AccessKeyID: "k", SecretAccessKey: configfile.NewSecret("s"), RequestTimeout: 10 * time.Second}, 4, logrus.NewEntry(log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// closedBody behaves as the SDK's bodies do once they are closed.
type closedBody struct{ *bytes.Reader }

func (closedBody) WriteTo(io.Writer) (int64, error) { return 0, io.EOF }
func (closedBody) Close() error                     { return nil }

func TestClient_bodyClosedBeforeItsEndWasSeen_doesNotCutTheConnection(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%100000d", 1)
	}))
	defer server.Close()
	c := open(t)
	for range 50 {
		body := closedBody{bytes.NewReader(make([]byte, 10000))}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = body.Size()
		resp, err := c.AWS.HTTPClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		if err != nil || len(answer) != 100000 {
			t.Fatalf("%d bytes of the answer, %v", len(answer), err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTable_Explain_sameFaultSameWords(t *testing.T) {
	table := awsclient.With(awsclient.Table{"HTTP 413": {Class: sink.Permanent, Cause: sink.CauseRecord, Means: "too large"}})
	call := awsclient.Call{Context: t.Context(), Timeout: 5 * time.Second, Doing: "put records"}
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}, Err: os.NewSyscallError("connect", err)}
	}
	status := func(code int) error {
		return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: code}}, Err: errors.New("odd")}
	}
	for _, c := range []struct {
		err   error
		cause sink.Cause
		word  string
	}{
		{&net.DNSError{Err: "no such host", Name: "kinesis.eu-west-1.amazonaws.com", IsNotFound: true}, sink.CauseNetwork, "kinesis.eu-west-1.amazonaws.com has no address"},
		{&net.DNSError{Err: "server misbehaving", Name: "k", Server: "10.0.0.2:53", IsTemporary: true}, sink.CauseNetwork, "DNS does not answer for k"},
		{&net.DNSError{Err: "i/o timeout", Name: "k", IsTimeout: true}, sink.CauseNetwork, "DNS does not answer for k"},
		{dial(syscall.ECONNREFUSED), sink.CauseNetwork, "connection refused: check the endpoint and that the service runs (192.0.2.1:443)"},
		{dial(syscall.EHOSTUNREACH), sink.CauseNetwork, "no way to the service"},
		{dial(syscall.ENETUNREACH), sink.CauseNetwork, "no way to the service"},
		{dial(syscall.EMFILE), sink.CauseNetwork, "too many open files"},
		{dial(syscall.ETIMEDOUT), sink.CauseNetwork, "within 5s"},
		{dial(syscall.EINVAL), sink.CauseNetwork, "invalid argument"},
		{&smithyhttp.RequestSendError{Err: context.DeadlineExceeded}, sink.CauseNetwork, "within 5s"},
		{&smithyhttp.RequestSendError{Err: io.ErrUnexpectedEOF}, sink.CauseNetwork, "connection broke"},
		{&smithyhttp.RequestSendError{Err: errors.New("malformed HTTP response")}, sink.CauseNetwork, "malformed HTTP response"},
		{status(200), sink.CauseServer, "could not be read"},
		{status(413), sink.CauseRecord, "too large"},
		{status(408), sink.CauseNetwork, "in time"},
		{errors.New("odd"), sink.CauseServer, "odd"},
	} {
		_, e := table.Explain(call, fmt.Errorf("operation error: %w", c.err))
		if e.Cause != c.cause || !strings.HasPrefix(e.Message, "put records: ") || !strings.Contains(e.Message, c.word) || !errors.Is(e, c.err) {
			t.Errorf("%v: %s, %q", c.err, e.Cause, e.Message)
		}
	}
}

func TestTable_Explain_endOfTheCallersContext_isNoFaultOfTheService(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	class, e := awsclient.With(nil).Explain(awsclient.Call{Context: ctx, Doing: "put"}, errors.New("odd"))
	if class != sink.Transient || e.Cause != sink.CauseNetwork || !strings.Contains(e.Message, "stopped before") {
		t.Errorf("%v, %+v", class, e)
	}
}

func TestTable_Explain_longText_isShortened(t *testing.T) {
	_, e := awsclient.With(nil).Explain(awsclient.Call{Context: t.Context(), Doing: "put"}, errors.New(strings.Repeat("ä\n", 1000)))
	if len(e.Message) > 450 || strings.Contains(e.Message, "\n") || !strings.HasSuffix(e.Message, "...)") {
		t.Errorf("%d bytes: %q", len(e.Message), e.Message)
	}
}
