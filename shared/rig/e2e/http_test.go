package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/pair"
)

const tp2 = "/com.snowplowanalytics.snowplow/tp2"

// post sends a JSON body and returns the answer.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// raw sends bytes over a connection of their own and returns the answer's status,
// 0 when the connection was closed without one.
func raw(t *testing.T, addr string, request []byte) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(request); err != nil {
		t.Logf("the collector closed before it had everything: %v", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestCollector_answersHostileRequestsAndGoesOn(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true, Collector: "http: {max_body_bytes: 64KiB, request_timeout: 2s, header_timeout: 2s}\n"})
	request := func(head, body string) []byte {
		return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n%s", tp2, head, body)
	}
	big := strings.Repeat("x", 100<<10)
	for _, c := range []struct {
		name    string
		request []byte
		want    []int
	}{
		{"not HTTP at all", []byte("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"), []int{400}},
		{"no version", []byte("POST " + tp2 + "\r\n\r\n"), []int{400}},
		{"a version that does not exist", []byte("GET /i HTTP/9.9\r\nHost: x\r\n\r\n"), []int{505}},
		{"no host", []byte("GET /i?e=pv HTTP/1.1\r\n\r\n"), []int{400}},
		{"two lengths", request("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"), []int{400}},
		{"a negative length", request("Content-Length: -1\r\n", ""), []int{400}},
		{"a header line without a colon", request("nonsense\r\nContent-Length: 2\r\n", "{}"), []int{400}},
		{"a header that never ends", request("X-Big: "+strings.Repeat("y", 2<<20)+"\r\n", ""), []int{431}},
		{"a body over the limit", request(fmt.Sprintf("Content-Length: %d\r\n", len(big)), big), []int{413}},
		{"a chunked body over the limit", request("Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(big), big)), []int{413}},
		{"a broken chunk", request("Transfer-Encoding: chunked\r\n", "zz\r\nhello\r\n0\r\n\r\n"), []int{400}},
		{"a body that never comes", request("Content-Length: 100\r\n", "{"), []int{408}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := raw(t, p.Addr(), c.request)
			if slices.Contains(c.want, got) {
				return
			}
			t.Errorf("answered %d, want one of %v", got, c.want)
		})
	}
	tr := sendAll(t, p, 50)
	health(t, p, "an empty backlog", empty)
	audit(t, p, tr.Ledger())
	if n := len(p.Collector.Restarts()); n > 0 {
		t.Errorf("the collector was restarted %d times", n)
	}
}

func TestCollector_storesBytesAsTheyCame(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{Alone: true})
	body := []byte("{\"schema\":\"\xff\xfe\x80 not UTF-8\",\"data\":[\x00]}")
	agent := "Agent \xe9\xff \xc3\x28"
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: x\r\nUser-Agent: %s\r\nX-Odd: \xa0\xa1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", tp2, agent, len(body), body)
	if status := raw(t, p.Addr(), request); status != http.StatusOK {
		t.Fatalf("answered %d", status)
	}
	if err := p.Rig.Kinesis.Wait(limited(t), rig.GoodStream, 1); err != nil {
		t.Fatal(err)
	}
	record := p.Rig.Kinesis.Records(rig.GoodStream)[0].Data
	for what, want := range map[string][]byte{"the body": body, "the user agent": []byte(agent), "the header": []byte("X-Odd: \xa0\xa1")} {
		if !bytes.Contains(record, want) {
			t.Errorf("%s %q is not in the record %q", what, want, record)
		}
	}
}

func TestCollector_withoutRoom_refusesPOSTsThenPixels_andTakesAgain(t *testing.T) {
	t.Parallel()
	p := start(t, pair.Options{
		Alone: true,
		// Refused are POSTs at 4 MiB and pixels at 6 MiB.
		Collector: "spool: {max_bytes: 8MiB, segment_bytes: 256KiB}\nhttp: {max_record_bytes: 200KiB}\nadmission: {max_backlog_percent: 50, pixels_at: 1.5, accept_again_at: 0.5}\n",
		Watchdog:  "rules: {refusing: {for: 2s}}\n",
	})
	for _, cut := range []func() error{p.CutKinesis, p.CutS3} {
		if err := cut(); err != nil {
			t.Fatal(err)
		}
	}
	posts := fill(t, p, func() (int, http.Header) {
		return answer(t, http.MethodPost, p.URL()+tp2, `{"data":"`+strings.Repeat("p", 60<<10)+`"}`)
	})
	if posts.Get("Retry-After") == "" || posts.Get("Access-Control-Allow-Origin") != "https://shop.example" || posts.Get("Access-Control-Allow-Credentials") != "true" {
		t.Errorf("the refused POST has headers %v, want Retry-After and those of CORS", posts)
	}
	if status, _ := answer(t, http.MethodGet, p.AdminURL()+healthapi.PathReady, ""); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d while POSTs are refused", status)
	}
	r := health(t, p, "that it refuses", func(r *healthapi.Report) bool { return r.State == healthapi.StateRefusing })
	if r.Intake.Accepting || !r.Intake.AcceptingPixels || r.Intake.Reason == "" {
		t.Errorf("the intake is %+v, want pixels only, and a reason", r.Intake)
	}
	if status, _ := answer(t, http.MethodGet, p.URL()+"/i?e=pv", ""); status != http.StatusOK {
		t.Errorf("a pixel is answered %d while there is room for pixels", status)
	}
	pixels := fill(t, p, func() (int, http.Header) {
		return answer(t, http.MethodGet, p.URL()+"/i?e=pv&page="+strings.Repeat("p", 14<<10), "")
	})
	if pixels.Get("Retry-After") == "" {
		t.Errorf("the refused pixel has headers %v, want Retry-After", pixels)
	}
	taken := p.Rig.Kinesis.Count(rig.GoodStream)
	if taken > 0 {
		t.Errorf("%d records reached a Kinesis that was cut", taken)
	}

	// The watchdog diverts though it could not prove the fallback: better than
	// refusing. Once S3 is back, there is room again.
	full := health(t, p, "a full spool", backlogOf(60)).Backlog.Events
	if err := p.StartWatchdog(limited(t)); err != nil {
		t.Fatal(err)
	}
	health(t, p, "the fallback in use", runs("fallback"))
	if err := p.MendS3(); err != nil {
		t.Fatal(err)
	}
	health(t, p, "that POSTs are taken again", func(r *healthapi.Report) bool { return r.Intake.Accepting })
	tr := sendAll(t, p, 100)
	health(t, p, "an empty backlog", empty)
	audit(t, p, tr.Ledger())
	lines := 0
	contents, err := p.Rig.S3.Contents(rig.Bucket, pair.Prefix+"/good/")
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range contents {
		lines += bytes.Count(content, []byte("\n"))
	}
	if lines < int(full) {
		t.Errorf("there are %d records in S3, but %d were taken before", lines, full)
	}
}

// fill sends until it is refused, and returns the headers of the refusal.
func fill(t *testing.T, p *pair.Pair, send func() (int, http.Header)) http.Header {
	t.Helper()
	for range 5000 {
		switch status, header := send(); status {
		case http.StatusOK:
		case http.StatusServiceUnavailable:
			return header
		default:
			t.Fatalf("answered %d", status)
		}
	}
	r, err := p.Health(t.Context())
	t.Fatalf("never refused: %+v, %v", r, err)
	return nil
}

// answer sends a request as a browser on another site does.
func answer(t *testing.T, method, url, body string) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://shop.example")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header
}
