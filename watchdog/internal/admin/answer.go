package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"spillway/shared/healthapi"
	"spillway/shared/mode"
)

// maxBodyBytes bounds what an answer may weigh. A health report has a few KiB.
const maxBodyBytes = 1 << 20

// StatusError is an answer with another status than the one that was expected.
type StatusError struct {
	Status int
	Body   string // the beginning of the body
}

func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("answered status %d %s: %s", e.Status, http.StatusText(e.Status), e.Body))
}

// BodyError is an answer whose body is not what was asked for.
type BodyError struct{ Err error }

func (e *BodyError) Error() string {
	return "answered a body that is no health report: " + e.Err.Error()
}

// Unwrap returns what is wrong with the body.
func (e *BodyError) Unwrap() error { return e.Err }

// decodeReport is strict where a wrong answer could pass for a report, and
// tolerant to fields of a later version.
func decodeReport(data []byte) (*healthapi.Report, error) {
	var r healthapi.Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	if r.Schema != healthapi.Schema {
		return nil, fmt.Errorf("schema is %d: this version reads %d", r.Schema, healthapi.Schema)
	}
	if r.BootID == "" || r.Instance == "" || r.Seq == 0 || r.PID <= 0 {
		return nil, errors.New("instance, boot_id, seq or pid is missing")
	}
	if _, err := mode.Parse(r.Mode); err != nil {
		return nil, err
	}
	return &r, nil
}
