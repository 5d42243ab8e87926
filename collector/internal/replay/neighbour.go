package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"spillway/shared/healthapi"
)

const (
	askEvery   = 2 * time.Second
	askTimeout = 2 * time.Second
	// lateEvents is how old a collector's oldest event may be: older ones say that
	// it has not caught up with what came in.
	lateEvents = 10 * time.Second
)

// MakeWay holds the pace while one of the collectors has trouble getting its own
// events out, until ctx ends. urls are those of their admin listeners. A collector
// that does not answer holds nothing up.
func MakeWay(ctx context.Context, pace *Pace, urls []string, log *logrus.Entry) {
	client := &http.Client{Timeout: askTimeout}
	defer client.CloseIdleConnections()
	silent := map[string]bool{}
	for ctx.Err() == nil {
		var why []string
		for _, url := range urls {
			r, err := ask(ctx, client, url)
			if failed := err != nil; failed != silent[url] && ctx.Err() == nil {
				silent[url] = failed
				if failed {
					log.WithError(err).Warnf("the collector at %s cannot be asked whether it has trouble; replay does not wait for it", url)
				} else {
					log.Infof("the collector at %s answers again", url)
				}
			}
			if err == nil {
				if reason := trouble(r); reason != "" {
					why = append(why, reason)
				}
			}
		}
		pace.Hold(strings.Join(why, "; "))
		pause(ctx, askEvery)
	}
}

func ask(ctx context.Context, client *http.Client, url string) (*healthapi.Report, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+healthapi.PathHealth, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", req.URL, resp.Status)
	}
	var r healthapi.Report
	if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<20)).Decode(&r); err != nil {
		return nil, fmt.Errorf("read the health report of %s: %w", req.URL, err)
	}
	return &r, nil
}

// trouble says why live traffic needs the stream for itself; empty if it does not.
func trouble(r *healthapi.Report) string {
	k := r.Kinesis
	switch {
	case r.Mode == "fallback":
		return fmt.Sprintf("collector %s still writes to its fallback", r.Instance)
	case k.ErrorClass == "throttled":
		return fmt.Sprintf("the stream throttles collector %s", r.Instance)
	case k.OutageSince != nil:
		return fmt.Sprintf("the stream takes nothing from collector %s: %s", r.Instance, k.LastError)
	case r.Backlog.OldestAgeSeconds != nil && *r.Backlog.OldestAgeSeconds > lateEvents.Seconds():
		return fmt.Sprintf("collector %s has not caught up: events of %.0f s ago wait on its disk", r.Instance, *r.Backlog.OldestAgeSeconds)
	}
	return ""
}
