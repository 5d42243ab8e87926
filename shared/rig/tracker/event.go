package tracker

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// marker begins every event id; an id is a UUID of version 4 in shape:
// marker, 8 digits of the run in two groups, and the event's number in decimal.
const marker = "5b111a00-"

// idLen is the length of an event id.
const idLen = 36

// id returns the event id of a number in a run.
func id(run uint32, number int) string {
	return fmt.Sprintf("%s%04x-4%03x-8%03x-%012d", marker, run>>16, run>>4&0xfff, run&0xf, number)
}

// IDs returns the event ids that stand in data, in order, with repetitions. It
// looks for their pattern only and so reads Thrift bytes, query strings and JSON
// inside JSON alike; what is packed or in base64 must be unpacked before.
func IDs(data []byte) []string {
	var ids []string
	for {
		at := bytes.Index(data, []byte(marker))
		if at < 0 || len(data)-at < idLen {
			return ids
		}
		if candidate := data[at : at+idLen]; isID(candidate) {
			ids = append(ids, string(candidate))
			data = data[at+idLen:]
		} else {
			data = data[at+len(marker):]
		}
	}
}

func isID(s []byte) bool {
	for i, c := range s {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
				return false
			}
		}
	}
	return true
}

// Keep returns the event ids in data, one a line: all that an audit needs of a
// record, for stand-ins that shall not hold whole records.
func Keep(data []byte) []byte { return []byte(strings.Join(IDs(data), "\n")) }

const (
	postPath  = "/com.snowplowanalytics.snowplow/tp2"
	pixelPath = "/i"
	userAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36"
)

// request makes the request for a batch as the JavaScript tracker does.
func (t *Tracker) request(ctx context.Context, b batch) (*http.Request, error) {
	var (
		req *http.Request
		err error
	)
	if b.pixel {
		q := url.Values{"e": {"pv"}, "eid": {t.ledger.id(b.numbers[0])}, "p": {"web"}, "tv": {"js-4.6.2"}, "aid": {"rig"},
			"url": {"https://shop.example/product/42?ref=mail"}, "page": {"Product 42"}, "dtm": {millis()}}
		req, err = http.NewRequestWithContext(ctx, http.MethodGet, t.config.URL+pixelPath+"?"+q.Encode(), nil)
	} else {
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, t.config.URL+postPath, bytes.NewReader(t.body(b)))
	}
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept-Language", "en-GB,en;q=0.9")
	req.Header.Set("Origin", "https://shop.example")
	req.Header.Set("Referer", "https://shop.example/product/42")
	if !b.pixel {
		req.Header.Set("Content-Type", "application/json; charset=UTF-8")
	}
	return req, nil
}

// body returns the self-describing JSON of a POST.
func (t *Tracker) body(b batch) []byte {
	var out bytes.Buffer
	out.WriteString(`{"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[`)
	for i, n := range b.numbers {
		if i > 0 {
			out.WriteByte(',')
		}
		event(&out, t.ledger.id(n), n, t.config.EventBytes)
	}
	out.WriteString("]}")
	return out.Bytes()
}

// event writes one event of about size bytes: a self-describing event with
// contexts, both in base64 as trackers send them.
func event(out *bytes.Buffer, eid string, number, size int) {
	start, now := out.Len(), millis()
	action := fmt.Sprintf(`{"schema":"iglu:com.snowplowanalytics.snowplow/unstruct_event/jsonschema/1-0-0","data":`+
		`{"schema":"iglu:example.shop/add_to_cart/jsonschema/1-0-0","data":{"sku":"sku-%d","quantity":%d}}}`, number%997, number%7+1)
	fmt.Fprintf(out, `{"e":"ue","eid":"%s","tv":"js-4.6.2","tna":"rig","aid":"shop","p":"web","cookie":"1","cs":"UTF-8","lang":"en-GB",`+
		`"tz":"Europe/London","res":"1920x1080","cd":"24","vp":"1280x720","ds":"1280x4210","vid":"3","sid":"0c4ff0c7-5f0e-4c8d-9d1b-d2a3c0b6a111",`+
		`"duid":"9d6f1f44-6f2a-4b6e-8a53-1d3c7f3b2222","url":"https://shop.example/product/%d","refr":"https://search.example/",`+
		`"dtm":"%s","stm":"%s","ue_px":"%s","cx":"`, eid, number%997, now, now, base64.RawURLEncoding.EncodeToString([]byte(action)))
	const head, tail = `{"schema":"iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-1","data":[{"schema":"iglu:example.shop/page/jsonschema/1-0-0","data":{"note":"`, `"}}]}`
	// What is missing to the size becomes a note in the context; base64 makes 4 of 3.
	missing := (size-(out.Len()-start)-len(`"}`))*3/4 - len(head) - len(tail)
	note := strings.Repeat("The quick brown fox jumps over the lazy dog. ", max(missing, 0)/45+1)[:max(missing, 0)]
	out.WriteString(base64.RawURLEncoding.EncodeToString([]byte(head + note + tail)))
	out.WriteString(`"}`)
}

func millis() string { return fmt.Sprint(time.Now().UnixMilli()) }
