package main_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"spillway/collector/internal/ingest/conformance"
	"spillway/collector/internal/ingest/protocol"
	"spillway/collector/internal/sink"
	"spillway/shared/healthapi"
	"spillway/shared/rig"
	"spillway/shared/rig/kinesis"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/proc"
)

// The whole table of the tracker protocol against the real program: answers as
// they come over the wire, records as they arrive in Kinesis.
func TestProgram_answersEveryConformanceRow(t *testing.T) {
	var builder proc.Builder
	t.Cleanup(func() { _ = builder.Close() })
	program, err := builder.Build("spillway/collector")
	if err != nil {
		t.Fatal(err)
	}
	all, err := conformance.Cases()
	if err != nil {
		t.Fatal(err)
	}
	// One process for each config, in the order of the table.
	var configs []string
	rows := map[string][]*conformance.Case{}
	for i := range all {
		text := configOf(t, &all[i])
		if rows[text] == nil {
			configs = append(configs, text)
		}
		rows[text] = append(rows[text], &all[i])
	}
	for _, text := range configs {
		p := start(t, program, text)
		well := true
		for _, c := range rows[text] {
			well = t.Run(c.ID, func(t *testing.T) { p.check(t, c) }) && well
		}
		if !well {
			t.Logf("config:\n%s%s", text, p.Tail(20))
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// configOf returns what a row wants of the config, as YAML.
func configOf(t *testing.T, c *conformance.Case) string {
	t.Helper()
	text := "sink: {kinesis: {linger: 0s}}\n"
	if c.Default() {
		return text
	}
	var settings any // a value has no anchors and aliases any more
	if err := c.Config.Decode(&settings); err != nil {
		t.Fatal(err)
	}
	own, err := yaml.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	text += "http:\n"
	for line := range strings.Lines(string(own)) {
		text += "  " + line
	}
	return text
}

// process is a collector and what of its records was looked at already.
type process struct {
	*pair.Pair
	name string // of the program, as it stands in its records
	seen map[sink.Lane]int
	kept float64
}

func start(t *testing.T, program, config string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := pair.Start(ctx, pair.Options{Programs: pair.Programs{Collector: program}, Alone: true, Collector: config})
	if err != nil {
		t.Fatalf("%v; its config:\n%s", err, config)
	}
	r, err := p.Health(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &process{Pair: p, name: "spillway-" + r.Version + "-kinesis", seen: map[sink.Lane]int{}}
}

// check sends a row and compares what comes of it.
func (p *process) check(t *testing.T, c *conformance.Case) {
	p.fit(c)
	at := time.Now()
	got, err := c.Send(p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.collect(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range c.Check(got, at) {
		t.Error(wrong)
	}
}

// fit takes back what a real connection to a real program cannot have: another
// peer, another name, and header names as they were sent, which net/http does
// not tell.
func (p *process) fit(c *conformance.Case) {
	if c.Request.Peer != "192.0.2.2:40000" {
		c.Want.Record, c.Want.Listed, c.Want.Unlisted = nil, nil, nil
	}
	if c.Want.Record["ipAddress"] == "192.0.2.2" {
		c.Want.Record["ipAddress"] = "127.0.0.1"
	}
	if c.Want.Record["collector"] != nil {
		c.Want.Record["collector"] = p.name
	}
	if c.Want.Key == "192.0.2.2" {
		c.Want.Key = "127.0.0.1"
	}
	for _, list := range []*[]string{&c.Want.Listed, &c.Want.Unlisted} {
		*list = slices.Clone(*list)
		for i, h := range *list {
			if name, value, ok := strings.Cut(h, ": "); ok {
				(*list)[i] = http.CanonicalHeaderKey(name) + ": " + value
			} else {
				(*list)[i] = http.CanonicalHeaderKey(h)
			}
		}
	}
}

// collect waits until everything has left the collector and fills in what the
// row has led to. What an answered request stores is on disk before its answer,
// so nothing comes later.
func (p *process) collect(ctx context.Context, got *conformance.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := p.WaitHealth(ctx, func(r *healthapi.Report) error {
		if r.Backlog.Events > 0 {
			return fmt.Errorf("%d records still wait", r.Backlog.Events)
		}
		return nil
	}); err != nil {
		return err
	}
	got.Good = p.arrived(sink.Good, rig.GoodStream)
	got.Bad = p.arrived(sink.Bad, rig.BadStream)
	kept, err := p.oversize(ctx)
	got.Kept, p.kept = int(kept-p.kept), kept
	got.Stored = true
	return err
}

// arrived returns the records of a stream that no row before has led to.
func (p *process) arrived(lane sink.Lane, stream string) []protocol.Record {
	all := p.Rig.Kinesis.Records(stream)
	fresh := all[p.seen[lane]:]
	p.seen[lane] = len(all)
	out := make([]protocol.Record, len(fresh))
	for i, r := range fresh {
		out[i] = record(lane, r)
	}
	return out
}

func record(lane sink.Lane, r kinesis.Record) protocol.Record {
	return protocol.Record{Lane: lane, Key: r.Key, Data: r.Data}
}

// oversize returns how many whole payloads were kept in the dead letters so far.
func (p *process) oversize(ctx context.Context) (float64, error) {
	body, err := proc.HTTP(ctx, p.AdminURL()+healthapi.PathMetrics, nil)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, "spillway_collector_ingest_oversize_total "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("there is no metric of oversize payloads")
}
