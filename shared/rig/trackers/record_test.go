package trackers

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// record is a record of the stream as its readers take it: the struct's strings
// by field number.
type record map[uint16]string

// The fields that the tests look at.
const (
	fieldUserAgent = 300
	fieldPath      = 320
	fieldQuery     = 330
	fieldBody      = 340
	fieldUser      = 410
	fieldSchema    = 31337
)

// readRecord reads Thrift's binary protocol by itself, so that the tests do not
// lean on the code that wrote it.
func readRecord(data []byte) (record, error) {
	r := record{}
	short := errors.New("the record ends early")
	for {
		if len(data) < 1 {
			return nil, short
		}
		kind := data[0]
		if kind == 0 {
			if len(data) > 1 {
				return nil, fmt.Errorf("%d bytes follow the record", len(data)-1)
			}
			return r, nil
		}
		if len(data) < 3 {
			return nil, short
		}
		field := binary.BigEndian.Uint16(data[1:])
		data = data[3:]
		take := func() (s string, ok bool) {
			if len(data) < 4 {
				return "", false
			}
			n := int64(binary.BigEndian.Uint32(data))
			if data = data[4:]; int64(len(data)) < n {
				return "", false
			}
			s, data = string(data[:n]), data[n:]
			return s, true
		}
		ok := true
		switch kind {
		case 10: // i64
			if ok = len(data) >= 8; ok {
				data = data[8:]
			}
		case 11: // string
			r[field], ok = take()
		case 15: // list of strings
			if ok = len(data) >= 5 && data[0] == 11; ok {
				n := binary.BigEndian.Uint32(data[1:])
				data = data[5:]
				for i := uint32(0); i < n && ok; i++ {
					_, ok = take()
				}
			}
		default:
			return nil, fmt.Errorf("field %d has type %d, which no record has", field, kind)
		}
		if !ok {
			return nil, short
		}
	}
}

// event is one event in a tracker's own words: parameters and values.
type event map[string]string

// UnmarshalJSON takes numbers as their text: that is how trackers report them, and
// text is what they send.
func (e *event) UnmarshalJSON(data []byte) error {
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber()
	var members map[string]any
	if err := in.Decode(&members); err != nil {
		return err
	}
	*e = event{}
	for name, value := range members {
		(*e)[name] = fmt.Sprint(value)
	}
	return nil
}

// events returns the events of a record: those of the body, or that of the query.
func (r record) events() ([]event, error) {
	if r[fieldPath] == "/i" {
		values, err := url.ParseQuery(r[fieldQuery])
		if err != nil {
			return nil, err
		}
		e := event{}
		for name, all := range values {
			e[name] = all[0]
		}
		return []event{e}, nil
	}
	var body struct {
		Schema string  `json:"schema"`
		Data   []event `json:"data"`
	}
	if err := json.Unmarshal([]byte(r[fieldBody]), &body); err != nil {
		return nil, fmt.Errorf("body %q: %w", r[fieldBody], err)
	}
	if !strings.HasPrefix(body.Schema, "iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-") {
		return nil, fmt.Errorf("the body has schema %q", body.Schema)
	}
	return body.Data, nil
}

const note = `naïve "quotes" \ <tags> & 日本 😀 ` + "\u2028 end"

// checkEvent says how an event differs from the one that a driver was asked to
// track under this number.
func checkEvent(e event, number int) error {
	var want map[string]string
	switch number % 3 {
	case 0:
		want = map[string]string{"e": "pv", "url": fmt.Sprintf("https://shop.example/page/%d?q=a%%20b&x=%%C3%%A9#top", number), "page": fmt.Sprintf("page %d %s", number, note)}
	case 1:
		want = map[string]string{"e": "se", "se_ca": "shop", "se_ac": "add", "se_la": fmt.Sprintf("label %d %s", number, note), "se_pr": fmt.Sprintf("property %d", number), "se_va": fmt.Sprintf("%d.5", number)}
	default:
		want = map[string]string{"e": "ue"}
		if err := checkJSON(e["ue_px"], e["ue_pr"], "unstruct_event", map[string]any{"number": float64(number), "text": note}); err != nil {
			return err
		}
		if err := checkJSON(e["cx"], e["co"], "contexts", map[string]any{"shelf": float64(number)}); err != nil {
			return err
		}
	}
	for name, value := range want {
		if e[name] != value {
			return fmt.Errorf("event %d: %s is %q, want %q", number, name, e[name], value)
		}
	}
	return nil
}

// checkJSON looks for members in the innermost data of a self-describing JSON, or
// of one in its list. It stands in URL-safe base64, or plain.
func checkJSON(encoded, plain, schema string, want map[string]any) error {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return fmt.Errorf("%s %q: %w", schema, encoded, err)
	}
	if len(raw) == 0 {
		raw = []byte(plain)
	}
	type selfDescribing struct {
		Schema string          `json:"schema"`
		Data   json.RawMessage `json:"data"`
	}
	var outer selfDescribing
	if err := json.Unmarshal(raw, &outer); err != nil {
		return fmt.Errorf("%s %q: %w", schema, raw, err)
	}
	if !strings.Contains(outer.Schema, "/"+schema+"/") {
		return fmt.Errorf("schema is %q, want one of %s", outer.Schema, schema)
	}
	inner := make([]selfDescribing, 1)
	if schema == "contexts" {
		err = json.Unmarshal(outer.Data, &inner)
	} else {
		err = json.Unmarshal(outer.Data, &inner[0])
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", schema, raw, err)
	}
	for _, one := range inner {
		var members map[string]any
		if err := json.Unmarshal(one.Data, &members); err != nil {
			return err
		}
		same := true
		for name, value := range want {
			same = same && members[name] == value
		}
		if same {
			return nil
		}
	}
	return fmt.Errorf("%s %s holds no %v", schema, raw, want)
}

func TestReadRecord_refusesWhatIsNone(t *testing.T) {
	good := "\x0b\x01\x40\x00\x00\x00\x02/i\x0b\x01\x4a\x00\x00\x00\x07e=pv&a=\x0a\x00\xc8\x00\x00\x00\x00\x00\x00\x00\x01\x0f\x01\x5e\x0b\x00\x00\x00\x01\x00\x00\x00\x01h\x00"
	r, err := readRecord([]byte(good))
	if err != nil || r[fieldPath] != "/i" {
		t.Fatalf("read %v, %v", r, err)
	}
	if all, err := r.events(); err != nil || len(all) != 1 || all[0]["e"] != "pv" {
		t.Errorf("events are %v, %v", all, err)
	}
	for end := range len(good) {
		if r, err := readRecord([]byte(good[:end])); err == nil {
			t.Errorf("read %v from the first %d bytes", r, end)
		}
	}
	if _, err := readRecord([]byte(good + "x")); err == nil {
		t.Error("read a record with something behind it")
	}
}
