package spool

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

var (
	crashSeed  = flag.Uint64("spool.seed", 0, "run only the crash test of this seed")
	crashLives = flag.Int("spool.crashes", 60_000, "crashes to look at in each crash test")
)

type nopContext struct{ context.Context }

func (nopContext) Done() <-chan struct{} { return nil }
func (nopContext) Err() error            { return nil }

// TestCrash_nothingOwedIsLost cuts the power before every operation of random
// lives, several times with different luck, and opens what is left.
func TestCrash_nothingOwedIsLost(t *testing.T) { crashes(t, 2, 0) }

// TestCrash_nothingOwedIsLostWhenOperationsFail does so on a disk that fails one
// operation in a few, before or after doing it.
func TestCrash_nothingOwedIsLostWhenOperationsFail(t *testing.T) { crashes(t, 2, 8) }

func crashes(t *testing.T, images, faults int) {
	t.Parallel()
	want := *crashLives
	if testing.Short() || raceDetector {
		want /= 50
	}
	seed := *crashSeed
	for checked := 0; checked < want; seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(rng.IntN, images, faults)
		for range 3 {
			for range 20 {
				if w.failed == "" {
					w.step()
				}
			}
			w.crash()
		}
		w.end()
		checked += w.checked
		if w.failed != "" {
			t.Fatalf("%s\nafter %d crashes; repeat with -run '%s$' -spool.seed=%d", w.failed, checked, t.Name(), seed)
		}
		if *crashSeed != 0 {
			break
		}
	}
}

// TestCrash_model lets rapid look for the shortest life that breaks a promise.
func TestCrash_model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		choose := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
		w := newWorld(choose, 1, 10)
		defer w.end()
		for range rapid.IntRange(1, 3).Draw(t, "lives") {
			for range rapid.IntRange(1, 10).Draw(t, "steps") {
				if w.failed == "" {
					w.step()
				}
			}
			w.crash()
		}
		if w.failed != "" {
			t.Fatal(w.failed)
		}
	})
}
