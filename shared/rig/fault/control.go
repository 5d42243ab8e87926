package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Control returns the handler with which a person breaks and mends the stand-in:
//
//	GET    /fault                  the faults in force
//	POST   /fault?kind=hang        break; further fields of Fault as further parameters
//	DELETE /fault                  mend everything
//	DELETE /fault?kind=hang        mend this kind
//
// A wrong parameter is answered with 400 and a sentence.
func (b *Board) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /fault", func(w http.ResponseWriter, r *http.Request) { b.answer(w, nil) })
	mux.HandleFunc("POST /fault", func(w http.ResponseWriter, r *http.Request) {
		f, err := parse(r.URL.Query())
		if err == nil {
			err = b.Break(f)
		}
		b.answer(w, err)
	})
	mux.HandleFunc("DELETE /fault", func(w http.ResponseWriter, r *http.Request) {
		var kinds []Kind
		for _, k := range r.URL.Query()["kind"] {
			kinds = append(kinds, Kind(k))
		}
		b.answer(w, b.Mend(kinds...))
	})
	return mux
}

func (b *Board) answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"faults": b.Faults()})
}

func parse(q url.Values) (Fault, error) {
	f := Fault{Kind: Kind(q.Get("kind"))}
	for name := range q {
		value, err := q.Get(name), error(nil)
		switch name {
		case "kind":
		case "code":
			f.Code = value
		case "message":
			f.Message = value
		case "op":
			f.Op = value
		case "target":
			f.Target = value
		case "match":
			f.Match = value
		case "status":
			f.Status, err = strconv.Atoi(value)
		case "times":
			f.Times, err = strconv.Atoi(value)
		case "share":
			f.Share, err = strconv.ParseFloat(value, 64)
		case "by":
			f.By, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("no such parameter")
		}
		if err != nil {
			return Fault{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return f, f.Validate()
}
