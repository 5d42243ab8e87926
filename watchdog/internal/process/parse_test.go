package process

import "testing"

const line = "4211 (a (b) c) S 1 4211 4211 0 -1 4194560 900 0 0 0 30 12 0 0 20 0 9 0 991233 0 0"

func TestParseStat_countsBehindTheLastBracket(t *testing.T) {
	got, err := parseStat(line)
	if want := (Stat{State: 'S', CPUTicks: 42, StartTicks: 991233}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "4211 (x) S", "4211 (x) SS 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 9 0 1 0", "4211 (x) S 1 1 1 0 -1 0 0 0 0 0 u 1 0 0 20 0 9 0 1 0"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: got %+v and no error", bad, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add(line)
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseStat(text); err == nil && got.State == 0 {
			t.Errorf("%q: no state and no error", text)
		}
	})
}
