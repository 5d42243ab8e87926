package replay

import (
	"context"
	"slices"
	"strings"
	"time"

	"spillway/collector/internal/archive"
	"spillway/collector/internal/sink"
)

// Selection says which objects are meant. Zero fields select all.
type Selection struct {
	Lane      sink.Lane
	Instances []string  // collectors
	Since     time.Time // objects of hours that end after it
	Until     time.Time // objects of hours that begin before it
}

// Selects says whether an object of this name is meant. Objects are taken or left
// as a whole, by the hour in which their first record was received.
func (s Selection) Selects(n archive.Name) bool {
	return (s.Lane == "" || s.Lane == n.Lane) &&
		(len(s.Instances) == 0 || slices.Contains(s.Instances, n.Instance)) &&
		(s.Since.IsZero() || n.Hour.Add(time.Hour).After(s.Since)) &&
		(s.Until.IsZero() || n.Hour.Before(s.Until))
}

// Plan is what a look at a store finds.
type Plan struct {
	Waiting []Object // not done, claimed ones too, oldest hour first
	Claimed []Object // of Waiting: a replayer works on these, or did when it died
	Done    []Object // replayed whole
	Damaged []Object // replayed as far as they could be read
	Foreign []string // keys that are not names of archived objects
	Bytes   int64    // of Waiting
}

// Look lists a store and says what waits there and what is done.
func Look(ctx context.Context, s Store, sel Selection) (*Plan, error) {
	p := &Plan{}
	var selected []Object
	marks := map[string]string{} // the object's key to the end of its mark's; done sorts after claimed
	prefixes := map[string]bool{}
	note := func(e Entry) {
		if object, end, ok := objectOf(e.Key); ok && end > marks[object] {
			marks[object] = end
		}
	}
	err := s.List(ctx, s.Place(), func(e Entry) error {
		rest := strings.TrimPrefix(e.Key, s.Place())
		if within(rest, MarkDir) {
			note(e)
			return nil
		}
		if within(rest, probeDir) || strings.HasSuffix(e.Key, "/") && e.Size == 0 { // the latter stands for a folder
			return nil
		}
		prefix, name, err := archive.ParseKey(e.Key)
		if err != nil {
			p.Foreign = append(p.Foreign, e.Key)
			return nil
		}
		if sel.Selects(name) {
			prefixes[prefix] = true
			selected = append(selected, Object{e, name, prefix})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for prefix := range prefixes {
		dir := MarkDir + "/"
		if prefix != "" {
			dir = prefix + "/" + dir
		}
		if strings.HasPrefix(dir, s.Place()) {
			continue // listed already
		}
		if err := s.List(ctx, dir, func(e Entry) error { note(e); return nil }); err != nil {
			return nil, err
		}
	}
	for _, o := range selected {
		switch marks[o.Key] {
		case doneEnd:
			p.Done = append(p.Done, o)
		case damagedEnd:
			p.Damaged = append(p.Damaged, o)
		case claimEnd:
			p.Claimed = append(p.Claimed, o)
			fallthrough
		default:
			p.Waiting = append(p.Waiting, o)
			p.Bytes += o.Size
		}
	}
	slices.SortStableFunc(p.Waiting, func(a, b Object) int { return a.Name.Hour.Compare(b.Name.Hour) })
	return p, nil
}

// Of returns the waiting objects of a lane.
func (p *Plan) Of(lane sink.Lane) []Object {
	return slices.DeleteFunc(slices.Clone(p.Waiting), func(o Object) bool { return o.Name.Lane != lane })
}

// within says whether one of the folders of a key has this name.
func within(key, dir string) bool {
	return strings.HasPrefix(key, dir+"/") || strings.Contains(key, "/"+dir+"/")
}
