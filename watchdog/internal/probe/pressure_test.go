package probe

import "testing"

func TestParsePressure(t *testing.T) {
	for text, want := range map[string]float64{
		"some avg10=61.20 avg60=1.00 avg300=0.00 total=5\nfull avg10=99.00 avg60=0 avg300=0 total=0\n": 61.2,
		"full avg10=99.00\n": 0, "some avg10=x\n": 0, "some avg10=-1\n": 0, "some avg10=NaN\n": 0, "": 0,
	} {
		if got := parsePressure(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
