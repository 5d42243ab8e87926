package pair

import (
	"fmt"
	"os"
	"path/filepath"

	"spillway/shared/rig"
)

// Prefix stands before the names of the pair's objects.
const Prefix = "pair"

// The configs: everything that takes minutes or hours on a real box takes
// seconds, and the room on this machine's disk is not looked at.
const (
	collectorYAML = `instance: pair
data_dir: %[1]s/data
listen: %[2]s
admin: {listen: "%[3]s"}
sink:
  type: kinesis
  kinesis: {good_stream: %[4]s, bad_stream: %[5]s, region: %[6]s, endpoint: "%[7]s", request_timeout: 2s, linger: 50ms}
spool: {max_bytes: 1GiB, segment_bytes: 4MiB, min_free_disk: 0}
bad_spool: {max_bytes: 64MiB, segment_bytes: 1MiB, min_free_disk: 0}
admission: {min_free_disk: 0, min_dwell: 100ms, retry_after: 2s}
delivery:
  max_backoff: 1s
  write_timeout: 10s
  flush_timeout: 2s
  stop_timeout: 2s
  circuit: {after: 2s}
  probe: {every: 500ms, good: 3, deadline: 3s, level2_every: 300ms, level2_for: 1s, level3_every: 300ms}
stop: {timeout: 10s}
`
	fallbackYAML = `extends: collector.yaml
sink:
  type: s3
  s3: {bucket: %[1]s, prefix: %[2]s, region: %[3]s, endpoint: "%[4]s", path_style: true, request_timeout: 5s, linger: 1s}
`
	// The rules about the process keep their patience: a machine that is busy with
	// tests is slow.
	watchdogYAML = `instance: pair
state_dir: %[1]s/watchdog
mode_file: %[2]s
listen: %[3]s
collector: {address: "%[4]s", public_address: "%[5]s"}
restarter: {use: signal}
poll: {interval: 500ms, timeout: 400ms}
startup_grace: 2s
settle: 2s
flush: {timeout: 5s}
restart: {timeout: 60s, stop_timeout: 15s}
verify: {hold: 1s}
recover: {for: 3s, early_for: 2s, stale: 10s, min_hold: 5s, max_hold: 1m, max_backlog: 30s, probation: 3s}
flap: {window: 30s, decay: 30s}
budget: {tokens: 3, refill: 10s, per_hour: 100}
rules:
  last_write_age: {threshold: 4s, for: 2s}
  oldest_event_age: {threshold: 30s, for: 5s}
`
)

// writeConfigs writes the three configs, each with what a test lays over it.
func (p *Pair) writeConfigs() error {
	o := &p.options
	if err := os.MkdirAll(p.DataDir(), 0o750); err != nil {
		return err
	}
	for _, c := range []struct{ file, text, over string }{
		{p.CollectorConfig(), fmt.Sprintf(collectorYAML, o.Dir, o.Listen, o.Admin, rig.GoodStream, rig.BadStream, rig.Region, p.Rig.Kinesis.URL()), o.Collector},
		{p.FallbackConfig(), fmt.Sprintf(fallbackYAML, rig.Bucket, Prefix, rig.Region, p.Rig.S3.URL()), o.Fallback},
		{p.WatchdogConfig(), fmt.Sprintf(watchdogYAML, o.Dir, p.ModeFile(), o.WatchdogListen, o.Admin, o.Listen), o.Watchdog},
	} {
		if err := writeConfig(c.file, c.text, c.over); err != nil {
			return err
		}
	}
	return nil
}

// writeConfig writes text, or a file that lays over over a file with text.
func writeConfig(file, text, over string) error {
	if over != "" {
		base := "base-" + filepath.Base(file)
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), base), []byte(text), 0o600); err != nil {
			return err
		}
		text = "extends: " + base + "\n" + over
	}
	return os.WriteFile(file, []byte(text), 0o600)
}
