package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// pollEvery is how often conditions are looked at.
const pollEvery = 20 * time.Millisecond

// final marks an error after which waiting is pointless.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Final marks an error of a condition: Until returns it at once.
func Final(err error) error { return final{err} }

// Until returns nil as soon as the condition returns nil. It returns the
// condition's error when that is Final, and its last error before ctx ended,
// joined with ctx's, when ctx ends.
func Until(ctx context.Context, condition func() error) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var last error
	for {
		err := condition()
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // else it may only say that ctx has ended
		}
		if f, ok := errors.AsType[final](err); ok {
			return f.error
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), last)
		}
	}
}

// HTTP returns the body once the URL answers a GET and ok, which is given the
// status and the body, is content. A nil ok wants 200.
func HTTP(ctx context.Context, url string, ok func(status int, body []byte) bool) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	var body []byte
	err := Until(ctx, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return Final(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if body, err = io.ReadAll(resp.Body); err != nil {
			return err
		}
		if ok == nil && resp.StatusCode == http.StatusOK || ok != nil && ok(resp.StatusCode, body) {
			return nil
		}
		return fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
	})
	if err != nil {
		return nil, err
	}
	return body, nil
}
