package deadletter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// Entry is one dead letter: a message and why it could not be delivered.
type Entry struct {
	At         time.Time // when it was given up
	ReceivedAt time.Time // when the collector received it; may be zero
	Reason     string    // why, in a sentence
	Code       string    // the destination's own word for it; may be empty
	Lane       string    // good or bad
	Seq        uint64    // its number in the lane's spool; 0 if it never was there
	Key        string    // partition key
	Data       []byte    // the message, byte for byte
}

// line is an Entry as it stands in a file. What is not valid UTF-8 stands as
// base64, so that every byte comes back.
type line struct {
	At         time.Time  `json:"at"`
	ReceivedAt *time.Time `json:"receivedAt,omitempty"`
	Reason     string     `json:"reason"`
	Code       string     `json:"code,omitempty"`
	Lane       string     `json:"lane"`
	Seq        uint64     `json:"seq,omitempty"`
	Key        *string    `json:"partitionKey,omitempty"`
	KeyBase64  []byte     `json:"partitionKeyBase64,omitempty"`
	Data       *string    `json:"data,omitempty"`
	DataBase64 []byte     `json:"dataBase64,omitempty"`
}

// appendLine appends the entry as one line with its newline.
func appendLine(dst []byte, e Entry) ([]byte, error) {
	l := line{At: e.At.UTC(), Reason: e.Reason, Code: e.Code, Lane: e.Lane, Seq: e.Seq}
	if !e.ReceivedAt.IsZero() {
		at := e.ReceivedAt.UTC()
		l.ReceivedAt = &at
	}
	if utf8.ValidString(e.Key) {
		l.Key = &e.Key
	} else {
		l.KeyBase64 = []byte(e.Key)
	}
	if utf8.Valid(e.Data) {
		text := string(e.Data)
		l.Data = &text
	} else {
		l.DataBase64 = e.Data
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return dst, fmt.Errorf("encode dead letter: %w", err)
	}
	return append(dst, buf.Bytes()...), nil
}

// parseLine reads what appendLine wrote. It takes ownership of nothing.
func parseLine(b []byte) (Entry, error) {
	var l line
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&l); err != nil {
		return Entry{}, err
	}
	if dec.More() {
		return Entry{}, fmt.Errorf("more than one JSON value on the line")
	}
	if l.Lane == "" {
		return Entry{}, fmt.Errorf("no lane")
	}
	e := Entry{At: l.At, Reason: l.Reason, Code: l.Code, Lane: l.Lane, Seq: l.Seq, Key: string(l.KeyBase64), Data: l.DataBase64}
	if l.ReceivedAt != nil {
		e.ReceivedAt = *l.ReceivedAt
	}
	if l.Key != nil {
		e.Key = *l.Key
	}
	if l.Data != nil {
		e.Data = []byte(*l.Data)
	}
	return e, nil
}
