package convert

import (
	"slices"
	"strconv"

	"spillway/collector/internal/hocon"
	"spillway/shared/configfile"
)

// foreign are keys that only configs for other destinations have.
var foreign = map[string]string{
	"brokers": "Kafka", "producerConf": "Kafka", "googleProjectId": "Pub/Sub", "host": "NSQ", "queueUrl": "SQS", "rabbitmq": "RabbitMQ", "username": "RabbitMQ",
}

// streams converts both layouts: a section for each stream, and, before, names
// for the streams with one sink and one buffer for both.
func (c *conversion) streams(key string, v *hocon.Value) {
	if v.Kind != hocon.Object {
		c.fail(key, v.Line, "it is no object")
		return
	}
	c.out.set("sink.type", "kinesis", "")
	for _, lane := range []string{"good", "bad"} {
		stream := v.At(lane)
		name := stream
		if stream != nil && stream.Kind == hocon.Object {
			name = stream.At("name")
		}
		if name == nil {
			c.fail(key+"."+lane, v.Line, "the stream has no name")
			continue
		}
		to("sink.kinesis."+lane+"_stream", asText)(c, key+"."+lane+".name", name)
	}
	good, sink := v.At("good"), v.At("sink")
	for name, member := range v.Members() {
		at := key + "." + name
		switch {
		case name == "useIpAddressAsPartitionKey":
			to("http.use_ip_as_partition_key", asBool)(c, at, member)
		case name == "good" && member.Kind == hocon.Object, name == "sink" && member.Kind == hocon.Object:
			c.stream(at, member)
		case name == "bad" && member.Kind == hocon.Object:
			c.differences(at, member, good, sink)
		case name == "buffer" && member.Kind == hocon.Object:
			c.buffer(at, member)
		case name == "good", name == "bad":
		default:
			c.note(at, member.Line, "is no setting that this converter knows")
		}
	}
	if good.At("region") == nil && sink.At("region") == nil {
		c.note(key+".good.region", v.Line, "no region is given: AWS_REGION or the profile says which, or sink.kinesis.region")
	}
}

// stream converts what stands beside the name of the good stream, or in the sink
// of both.
func (c *conversion) stream(key string, v *hocon.Value) {
	for name, member := range v.Members() {
		at := key + "." + name
		if kind, ok := foreign[name]; ok {
			c.fail(at, member.Line, "this is a config for %s: the collector writes to Kinesis, S3 and files", kind)
			return
		}
		switch name {
		case "name":
		case "enabled":
			if member.Text != "kinesis" {
				c.fail(at, member.Line, "this is a config for %q: the collector writes to Kinesis, S3 and files", member.Text)
			}
		case "region":
			to("sink.kinesis.region", asText)(c, at, member)
		case "customEndpoint":
			to("sink.kinesis.endpoint", asText)(c, at, member)
		case "threadPoolSize":
			c.bounded("sink.kinesis.in_flight", at, member, 1, 256)
		case "maxBytes":
			c.maxBytes(at, member)
		case "buffer":
			c.buffer(at, member)
		case "backoffPolicy":
			c.backoff(at, member)
		case "sqsGoodBuffer", "sqsBadBuffer", "sqsMaxBytes":
			c.note(at, member.Line, "events wait on this collector's own disk (spool), and go to S3 in a long outage (--fallback-config), not to SQS")
		case "aws":
			c.note(at, member.Line, "credentials come from the usual chain: environment, profile, web identity, container, instance role. Fixed ones are not copied here; they would go into sink.kinesis.access_key_id and secret_access_key")
		case "startupCheckInterval":
			c.note(at, member.Line, "the collector starts and stores events whether or not the stream exists, and goes on looking by itself")
		default:
			c.note(at, member.Line, "is no setting that this converter knows")
		}
	}
}

func (c *conversion) buffer(key string, v *hocon.Value) {
	for name, member := range v.Members() {
		at := key + "." + name
		switch name {
		case "byteLimit":
			c.bounded("sink.kinesis.max_bytes", at, member, int64(configfile.MiB), 10*int64(configfile.MiB))
		case "recordLimit":
			c.bounded("sink.kinesis.max_records", at, member, 1, 500)
		case "timeLimit":
			to("sink.kinesis.linger", asDuration)(c, at, member)
		default:
			c.note(at, member.Line, "is no setting that this converter knows")
		}
	}
}

func (c *conversion) backoff(key string, v *hocon.Value) {
	for name, member := range v.Members() {
		at := key + "." + name
		switch name {
		case "minBackoff":
			to("delivery.min_backoff", asDuration)(c, at, member)
		case "maxBackoff":
			to("delivery.max_backoff", asDuration)(c, at, member)
		case "maxRetries":
			c.note(at, member.Line, "what fails is tried again until it is written")
		default:
			c.note(at, member.Line, "is no setting that this converter knows")
		}
	}
}

// maxBytes is the largest record. The sink must take as much.
func (c *conversion) maxBytes(key string, v *hocon.Value) {
	text, ok := asNumber(c, key, v)
	if !ok {
		return
	}
	c.out.set("http.max_record_bytes", text, "")
	if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil && n > int64(configfile.MiB) {
		c.bounded("sink.kinesis.max_record_bytes", key, v, 0, 10*int64(configfile.MiB))
	}
}

// bounded writes a number, or the nearest that is allowed and a note.
func (c *conversion) bounded(path, key string, v *hocon.Value, least, most int64) {
	text, ok := asNumber(c, key, v)
	if !ok {
		return
	}
	if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil && (n < least || n > most) {
		v = &hocon.Value{Line: v.Line, Text: strconv.FormatInt(min(max(n, least), most), 10), Env: v.Env}
		c.note(key, v.Line, "%d is not between %d and %d, so %s is %s", n, least, most, path, v.Text)
		text, _ = asNumber(c, key, v)
	}
	c.out.set(path, text, "")
}

// differences looks for what is said of the bad stream but not of the good one.
func (c *conversion) differences(key string, v *hocon.Value, others ...*hocon.Value) {
	for name, member := range v.Members() {
		at := key + "." + name
		same := slices.ContainsFunc(others, func(other *hocon.Value) bool { return equal(member, other.At(name)) })
		if kind, ok := foreign[name]; ok {
			c.fail(at, member.Line, "this is a config for %s: the collector writes to Kinesis, S3 and files", kind)
			return
		}
		switch {
		case same, name == "name", name == "sqsBadBuffer":
		case name == "region", name == "customEndpoint":
			c.fail(at, member.Line, "it is not that of the good stream: one sink writes both, to one place")
		default:
			c.note(at, member.Line, "both streams are written with the settings of the good one")
		}
	}
}

func equal(a, b *hocon.Value) bool {
	if a == nil || b == nil || a.Kind != b.Kind || a.Text != b.Text || a.Env != b.Env || len(a.Items) != len(b.Items) {
		return false
	}
	for i := range a.Items {
		if !equal(a.Items[i], b.Items[i]) {
			return false
		}
	}
	for name, member := range a.Members() {
		if !equal(member, b.At(name)) {
			return false
		}
	}
	return true
}
