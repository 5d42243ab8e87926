package decide_test

import (
	"testing"

	"spillway/watchdog/internal/decide"
)

func BenchmarkNext_quietDay(b *testing.B) {
	s := settled(b)
	o := s.observe()
	b.ReportAllocs()
	for b.Loop() {
		o.Clock.SinceBoot += s.poll
		o.Clock.Wall = o.Clock.Wall.Add(s.poll)
		s.s, _, _ = decide.Next(s.p, s.s, o)
	}
}
