package healthapi_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/shared/healthapi"
)

var update = flag.Bool("update", false, "rewrite the golden files; what they lose is a broken promise")

// filled returns a report with every field set, found by reflection so that a new
// field cannot be forgotten. All fields of a type get the same value, so that a
// new field only adds lines to the golden file.
func filled() healthapi.Report {
	var r healthapi.Report
	fill(reflect.ValueOf(&r).Elem())
	return r
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 12, 1, 1, 2, 3, 123e6, time.UTC)))
			return
		}
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Map:
		item := reflect.New(v.Type().Elem()).Elem()
		fill(item)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("good"), item)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Uint64:
		v.SetUint(1)
	default:
		v.SetInt(1)
	}
}

func TestReport_isWhatWasPromised(t *testing.T) {
	for name, report := range map[string]healthapi.Report{
		"full.json": filled(),
		// What is not known yet is absent: no zero times, no zero ages.
		"fresh.json": {Schema: healthapi.Schema, StartedAt: time.Unix(0, 0).UTC(), StateSince: time.Unix(0, 0).UTC(), State: healthapi.StateStarting},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(report, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("the report changed (fields are added, never renamed or removed; -update after adding):\n%s", diff)
			}
			var back healthapi.Report
			if err := json.Unmarshal(want, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(report, back); diff != "" {
				t.Errorf("read back:\n%s", diff)
			}
		})
	}
}

func TestReport_unknownTimesAreAbsent(t *testing.T) {
	data, err := json.Marshal(healthapi.Report{})
	if err != nil {
		t.Fatal(err)
	}
	var report map[string]any
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}
	// These two exist from the first report on, and there is always some part.
	delete(report, "started_at")
	delete(report, "state_since")
	delete(report, "parts")
	left, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, never := range []string{"0001-01-01", "null", "_at", "age_seconds"} {
		if strings.Contains(string(left), never) {
			t.Errorf("%s in %s", never, left)
		}
	}
}

func TestReport_readerIgnoresWhatItDoesNotKnow(t *testing.T) {
	var r healthapi.Report
	err := json.Unmarshal([]byte(`{"schema":1,"seq":7,"invented_later":{"a":1},"backlog":{"events":3,"also_later":"x"}}`), &r)
	if err != nil || r.Seq != 7 || r.Backlog.Events != 3 {
		t.Errorf("got %+v, %v", r, err)
	}
}
