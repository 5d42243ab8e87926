package tracker

import (
	"fmt"
	"iter"
	"strings"
)

// Report is the result of an audit.
type Report struct {
	Counts             // the ledger's
	InKinesis int      // different events of the ledger found in Kinesis
	InS3      int      // different events of the ledger found in S3
	InBoth    int      // different events found in both
	Copies    int      // events found, with repetitions
	Lost      []string // answered 200 and found nowhere
	Unasked   int      // found, though refused or not answered each time: allowed, at least once
	Foreign   int      // ids found that are not of this ledger, with repetitions
}

// Duplicates returns how many copies there are beyond one of each event.
func (r Report) Duplicates() int { return r.Copies - (r.InKinesis + r.InS3 - r.InBoth) }

// String returns the report in a few lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\nin kinesis %d, in s3 %d, in both %d; duplicates %d, not acked but there %d, foreign %d\nlost %d",
		r.Counts, r.InKinesis, r.InS3, r.InBoth, r.Duplicates(), r.Unasked, r.Foreign, len(r.Lost))
	for i, id := range r.Lost {
		if i == 10 {
			fmt.Fprintf(&b, "\n  and %d more", len(r.Lost)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s", id)
	}
	return b.String()
}

// Audit looks for the ledger's events in the data of Kinesis records and in the
// unpacked contents of S3 objects. Either may be nil.
func Audit(l *Ledger, kinesis, s3 iter.Seq[[]byte]) Report {
	r := Report{Counts: l.Counts()}
	inKinesis, inS3 := r.scan(l, kinesis), r.scan(l, s3)
	r.InKinesis, r.InS3 = len(inKinesis), len(inS3)
	for eid := range inS3 {
		if inKinesis[eid] {
			r.InBoth++
		}
	}
	for _, eid := range l.Acked() {
		if !inKinesis[eid] && !inS3[eid] {
			r.Lost = append(r.Lost, eid)
		}
	}
	for eid := range inKinesis {
		r.unasked(l, eid)
	}
	for eid := range inS3 {
		if !inKinesis[eid] {
			r.unasked(l, eid)
		}
	}
	return r
}

func (r *Report) unasked(l *Ledger, eid string) {
	if o, _ := l.knows(eid); o&taken == 0 {
		r.Unasked++
	}
}

// scan returns the set of the ledger's events in the data, and counts copies and
// foreign ids.
func (r *Report) scan(l *Ledger, data iter.Seq[[]byte]) map[string]bool {
	found := map[string]bool{}
	if data == nil {
		return found
	}
	for d := range data {
		for _, eid := range IDs(d) {
			if _, known := l.knows(eid); !known {
				r.Foreign++
				continue
			}
			r.Copies++
			found[eid] = true
		}
	}
	return found
}
