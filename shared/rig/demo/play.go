package main

import (
	"context"
	"fmt"
	"net"

	"spillway/shared/rig"
	"spillway/shared/rig/pair"
	"spillway/shared/rig/port"
)

// run starts the pair and leaves it to a person until ctx ends.
func run(ctx context.Context, t *timeline, programs pair.Programs, _ float64) error {
	o := pair.Options{Programs: programs}
	for _, a := range []struct {
		field *string
		want  string
	}{
		{&o.Listen, "127.0.0.1:8080"}, {&o.Admin, "127.0.0.1:9091"}, {&o.WatchdogListen, "127.0.0.1:9092"},
		{&o.Rig.Control, "127.0.0.1:4570"},
	} {
		addr, err := prefer(a.want)
		if err != nil {
			return err
		}
		*a.field = addr
	}
	p, err := pair.Start(ctx, o)
	if err != nil {
		return err
	}
	t.block(fmt.Sprintf(`
  collector  %[1]s   watchdog  %[3]s
  configs, data and logs  %[4]s   (removed at the end)

  send an event      curl '%[1]s/i?e=pv&p=web&aid=shop'
  send a batch       curl -H 'Content-Type: application/json' %[1]s/com.snowplowanalytics.snowplow/tp2 \
                       -d '{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[{"e":"pv","p":"web","tv":"curl"}]}'
  how it is          curl -s %[2]s/healthz
  what it sees       %[5]s why --config %[6]s
                     %[5]s status --config %[6]s
  cut Kinesis        curl -X POST   '%[7]s/kinesis/fault?kind=down'
  mend Kinesis       curl -X DELETE '%[7]s/kinesis/fault'
  what has arrived   curl -s %[7]s/
  follow both        tail -f %[4]s/collector.log %[4]s/watchdog.log

  Cut Kinesis, send an event now and then, and within ten seconds the watchdog diverts to S3.
  Ctrl-C stops everything.

`, p.URL(), p.AdminURL(), p.WatchdogURL(), p.Dir(), programs.Watchdog, p.WatchdogConfig(), p.Rig.ControlURL()))
	<-ctx.Done()
	stopped := p.Close()
	t.say(own, "stopped; Kinesis had %d records and S3 %d objects", p.Rig.Kinesis.Count(rig.GoodStream), len(p.Rig.S3.Objects(rig.Bucket, "")))
	return stopped
}

// prefer returns addr when nobody listens there, else a free address.
func prefer(addr string) (string, error) {
	l, err := net.Listen("tcp4", addr)
	if err == nil {
		return addr, l.Close()
	}
	free, err := port.Free()
	return port.Addr(free), err
}
