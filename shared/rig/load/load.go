// Package load is a small closed-loop load generator for benchmarks: a number of
// keep-alive connections that each send the same request again as soon as it is
// answered. It costs the machine as little as it can, because it shares the
// processors with the server it measures.
package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Result is what one run measured.
type Result struct {
	Requests   int // answered 200
	Other      int // answered with another status
	Errors     int // connections that broke
	FirstError error
	Elapsed    time.Duration
	P50, P99   time.Duration // of the answers with 200
}

// PerSecond returns the answers with 200 per second.
func (r Result) PerSecond() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Post returns the bytes of a POST request with the body.
func Post(host, path, contentType string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: spillway-load\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		path, host, contentType, len(body))
	b.Write(body)
	return b.Bytes()
}

// Run sends request over conns connections to the TCP address for the duration
// and returns what came back. It ends early when ctx does. A connection that
// breaks is made anew and counted.
func Run(ctx context.Context, address string, conns int, duration time.Duration, request []byte) Result {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	workers := make([]worker, conns)
	begun := time.Now()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { workers[i].run(ctx, address, request) })
	}
	wg.Wait()
	total := Result{Elapsed: time.Since(begun)}
	var latencies []time.Duration
	for _, w := range workers {
		total.Requests += len(w.latencies)
		total.Other += w.other
		total.Errors += w.errors
		if total.FirstError == nil {
			total.FirstError = w.first
		}
		latencies = append(latencies, w.latencies...)
	}
	if len(latencies) > 0 {
		slices.Sort(latencies)
		total.P50 = latencies[len(latencies)/2]
		total.P99 = latencies[len(latencies)*99/100]
	}
	return total
}

type worker struct {
	latencies []time.Duration
	other     int
	errors    int
	first     error
}

func (w *worker) run(ctx context.Context, address string, request []byte) {
	for ctx.Err() == nil {
		if err := w.connection(ctx, address, request); err != nil && ctx.Err() == nil {
			w.errors++
			if w.first == nil {
				w.first = err
			}
			select { // a server that is away is not asked in a busy loop
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

func (w *worker) connection(ctx context.Context, address string, request []byte) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	in := bufio.NewReaderSize(conn, 4096)
	for {
		sent := time.Now()
		if _, err := conn.Write(request); err != nil {
			return err
		}
		status, closing, err := readResponse(in)
		if err != nil {
			return err
		}
		if status == 200 {
			w.latencies = append(w.latencies, time.Since(sent))
		} else {
			w.other++
		}
		if closing {
			return nil
		}
	}
}

var (
	contentLength = []byte("content-length")
	connection    = []byte("connection")
)

// readResponse reads one response with a Content-Length.
func readResponse(in *bufio.Reader) (status int, closing bool, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, false, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, false, fmt.Errorf("no HTTP answer: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, false, fmt.Errorf("no status: %q", line)
	}
	length := -1
	for {
		line, err = in.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		line = textproto.TrimBytes(line)
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, contentLength):
			if length, err = strconv.Atoi(string(textproto.TrimBytes(value))); err != nil {
				return 0, false, fmt.Errorf("content length: %w", err)
			}
		case bytes.EqualFold(name, connection):
			closing = bytes.EqualFold(textproto.TrimBytes(value), []byte("close"))
		}
	}
	if length < 0 {
		return 0, false, errors.New("answer without Content-Length")
	}
	_, err = io.CopyN(io.Discard, in, int64(length))
	return status, closing, err
}
