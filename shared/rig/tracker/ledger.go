package tracker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
)

// outcome is what became of one request.
type outcome uint8

const (
	taken       outcome = 1 << iota // answered 200
	refused                         // answered with a status that asks to come again
	dropped                         // answered with a status after which trackers give up
	unreachable                     // nobody listened: it cannot have arrived
	unclear                         // sent and not answered: it may have arrived
)

// Ledger notes what became of every event. It is safe for concurrent use.
type Ledger struct {
	run uint32 // in every id

	mu     sync.Mutex
	events []outcome // guarded by mu; by number: all outcomes its requests had so far
	counts Counts    // guarded by mu
}

// Counts sums a ledger up. Attempts are counted per event, not per request.
type Counts struct {
	Events      int         // events that were sent at least once or are about to be
	Attempts    int         // times an event was sent
	Acked       int         // events answered 200
	Dropped     int         // events given up after a status like 400
	Open        int         // events that are neither
	Refused     int         // attempts answered with a status that asks to come again
	Unreachable int         // attempts while nobody listened
	Unclear     int         // attempts without an answer: each may make a duplicate
	Statuses    map[int]int // attempts by HTTP status
}

// String returns the counts in words.
func (c Counts) String() string {
	return fmt.Sprintf("%d events: %d acked, %d dropped, %d open; %d attempts: %d refused, %d unreachable, %d unclear, statuses %v",
		c.Events, c.Acked, c.Dropped, c.Open, c.Attempts, c.Refused, c.Unreachable, c.Unclear, c.Statuses)
}

func newLedger() *Ledger {
	return &Ledger{run: rand.Uint32(), counts: Counts{Statuses: map[int]int{}}}
}

// issue makes n new events and returns their numbers.
func (l *Ledger) issue(n int) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = len(l.events) + i
	}
	l.events = append(l.events, make([]outcome, n)...)
	l.counts.Events += n
	l.counts.Open += n
	return numbers
}

// issued returns how many events were made.
func (l *Ledger) issued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.events)
}

// note enters the outcome of one request for its events.
func (l *Ledger) note(numbers []int, o outcome, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(numbers)
	l.counts.Attempts += n
	if status != 0 {
		l.counts.Statuses[status] += n
	}
	switch o {
	case refused:
		l.counts.Refused += n
	case unreachable:
		l.counts.Unreachable += n
	case unclear:
		l.counts.Unclear += n
	case taken:
		l.counts.Acked += n
		l.counts.Open -= n
	case dropped:
		l.counts.Dropped += n
		l.counts.Open -= n
	}
	for _, number := range numbers {
		l.events[number] |= o
	}
}

// Counts returns the sums so far.
func (l *Ledger) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.Statuses = maps.Clone(c.Statuses)
	return c
}

// Acked returns the ids of the events answered 200, in the order in which they
// were made. Each of them must arrive.
func (l *Ledger) Acked() []string { return l.ids(func(o outcome) bool { return o&taken != 0 }) }

// Open returns the ids of the events that are neither answered 200 nor dropped.
func (l *Ledger) Open() []string { return l.ids(isOpen) }

// Unclear returns the ids of the events of which a request had no answer: they
// were sent again, or would be, though they may have arrived.
func (l *Ledger) Unclear() []string { return l.ids(func(o outcome) bool { return o&unclear != 0 }) }

func isOpen(o outcome) bool { return o&(taken|dropped) == 0 }

func (l *Ledger) ids(want func(outcome) bool) []string {
	var ids []string
	for _, n := range l.numbers(want) {
		ids = append(ids, l.id(n))
	}
	return ids
}

func (l *Ledger) open() []int { return l.numbers(isOpen) }

func (l *Ledger) numbers(want func(outcome) bool) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var numbers []int
	for n, o := range l.events {
		if want(o) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// id returns the event id of a number.
func (l *Ledger) id(number int) string { return id(l.run, number) }

// knows says whether an id is of this ledger's run, and what became of it.
func (l *Ledger) knows(eid string) (o outcome, known bool) {
	number, err := strconv.Atoi(eid[idLen-12:])
	if err != nil || eid != l.id(number) {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if number >= len(l.events) {
		return 0, false
	}
	return l.events[number], true
}
