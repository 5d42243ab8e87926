package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"spillway/shared/healthapi"
	"spillway/watchdog/internal/decide"
	"spillway/watchdog/internal/process"
)

// publicPort is the second witness: the port that trackers use.
type publicPort struct {
	url    string
	client *http.Client
}

func newPublicPort(address string) *publicPort {
	if address == "" {
		return nil
	}
	transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	url := "http://" + address + "/health"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		url = "http://collector/health"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	return &publicPort{url: url, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ask tells whether the port serves. Any whole answer below 500 is a sign of
// life, and so is a 503: refusing events is what a living collector does when
// it has no room.
func (p *publicPort) ask(ctx context.Context, timeout time.Duration) decide.Public {
	if p == nil {
		return decide.PublicNotTried
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return decide.PublicNotTried
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return decide.PublicFailed
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if err != nil || resp.StatusCode >= 500 && resp.StatusCode != http.StatusServiceUnavailable {
		return decide.PublicFailed
	}
	return decide.PublicOK
}

// processWitness is the third witness: the kernel's word on the process that
// wrote the last good report.
type processWitness struct {
	id       process.Identity
	ticks    uint64
	hasTicks bool
}

func (w *processWitness) remember(r *healthapi.Report) {
	id := process.Identity{PID: r.PID, StartTicks: r.PIDStartTicks, Namespace: r.PIDNamespace}
	if id != w.id {
		*w = processWitness{id: id}
	}
	// Where CPU time stood while all was well is what later looks compare with.
	if stat, err := w.id.Check(); err == nil {
		w.ticks, w.hasTicks = stat.CPUTicks, true
	}
}

// sees tells whether the pid of r means something in our own pid namespace.
func (w *processWitness) sees(r *healthapi.Report) bool {
	ns, err := process.Namespace()
	return err == nil && ns == r.PIDNamespace
}

func (w *processWitness) look() decide.Process {
	stat, err := w.id.Check()
	switch {
	case err == nil:
	case errors.Is(err, process.ErrGone):
		return decide.Process{Known: true, SameStart: stat.State == 'Z', State: letter(stat)}
	case errors.Is(err, process.ErrReused):
		return decide.Process{Known: true, Alive: true, State: letter(stat)}
	default:
		return decide.Process{}
	}
	seen := decide.Process{
		Known: true, Alive: true, SameStart: true, State: letter(stat), Dying: stat.Dying,
		CPUKnown: w.hasTicks, CPUMoved: w.hasTicks && stat.CPUTicks > w.ticks,
	}
	w.ticks, w.hasTicks = stat.CPUTicks, true
	return seen
}

func letter(s process.Stat) string {
	if s.State == 0 {
		return "" // there is no such process any more
	}
	return string(rune(s.State))
}

// cpuPressure reads "some avg10" of the box's CPU pressure in percent; 0 where
// the kernel does not tell.
func cpuPressure() float64 {
	data, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	return parsePressure(string(data))
}

func parsePressure(text string) float64 {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "some ")
		if !ok {
			continue
		}
		for field := range strings.FieldsSeq(rest) {
			if value, ok := strings.CutPrefix(field, "avg10="); ok {
				f, err := strconv.ParseFloat(value, 64)
				if err == nil && f >= 0 && f <= 100 {
					return f
				}
			}
		}
	}
	return 0
}
