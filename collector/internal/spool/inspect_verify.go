package spool

import (
	"context"
	"fmt"
	"time"
)

// Damage is a place where records should be and are not. Numbers that are not
// known are zero.
type Damage struct {
	File     string `json:"file"`
	Offset   int64  `json:"offset"`
	Bytes    int64  `json:"bytes"`
	FirstSeq uint64 `json:"first_seq,omitempty"`
	LastSeq  uint64 `json:"last_seq,omitempty"`
	Records  uint64 `json:"records"` // of them not delivered before: these are lost
	What     string `json:"what"`
}

// String says it in a line.
func (d Damage) String() string {
	return fmt.Sprintf("%s at offset %d, %d bytes: %s (seq %d to %d, %d not delivered)",
		d.File, d.Offset, d.Bytes, d.What, d.FirstSeq, d.LastSeq, d.Records)
}

// Verified is what Verify found.
type Verified struct {
	Segments  int       `json:"segments"`
	Records   uint64    `json:"records"` // whole, delivered ones too
	Bytes     int64     `json:"bytes"`   // of these, as on disk
	Delivered uint64    `json:"delivered_gaps"`
	Damage    []Damage  `json:"damage"` // at most maxDamage; Lost counts all
	Lost      uint64    `json:"lost"`   // records known to be lost
	LastAt    time.Time `json:"last_at,omitzero"`
}

// maxDamage bounds what is listed.
const maxDamage = 10000

// Verify reads every record of every segment and checks its checksums. Places
// where records are missing that were delivered before, or that a crash tore
// before anybody was answered for them, are no damage; Delivered counts them. The
// error is that of ctx, or that a collector opened the spool meanwhile, so that
// what was found says nothing.
func (i *Inspection) Verify(ctx context.Context) (Verified, error) {
	v := Verified{Damage: []Damage{}}
	for _, d := range i.Missing {
		v.add(d)
	}
	for n, s := range i.parts {
		if s == nil {
			v.add(Damage{File: i.Segments[n].File, Bytes: i.Segments[n].Bytes, What: i.Segments[n].Problem})
			continue
		}
		v.Segments++
		if err := i.verify(ctx, s, &v); err != nil {
			return v, err
		}
	}
	if pid, busy := Running(i.Dir); busy && i.RunningPID == 0 {
		return v, fmt.Errorf("a collector (process %d) has opened the spool meanwhile: what was found says nothing, stop it and look again", pid)
	}
	return v, nil
}

func (i *Inspection) verify(ctx context.Context, s *segment, v *Verified) error {
	file, err := i.fs.Open(s.name(), false)
	if err != nil {
		v.add(Damage{File: s.name(), Bytes: s.size, FirstSeq: s.base, LastSeq: s.limit() - 1, Records: s.count - s.acked, What: err.Error()})
		return nil
	}
	defer func() { _ = file.Close() }()
	scan := scanner{file: file, salted: saltChecksum(s.salt)}
	off, seq, from := int64(dataOffset), s.base, int64(dataOffset)
	end, limit := min(s.end, s.size), s.limit()
	trouble, skip := "", int64(blockSize)
	for seq < limit {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("verify spool: %w", err)
		}
		f, ok, err := scan.next(off, end, seq, limit)
		if err != nil && off < end {
			trouble = "the disk does not give it back: " + err.Error()
			off = min(roundUp(max(off, scan.failed)+1)+skip-blockSize, end)
			skip *= 2
			continue
		}
		if !ok {
			f.seq, f.offset = limit, max(from, end)
		}
		if f.seq > seq {
			v.gap(&scan, s, from, f.offset, seq, f.seq, trouble)
		}
		if !ok {
			return nil
		}
		trouble, skip = "", blockSize
		v.Records++
		v.Bytes += f.size()
		if at := fromMillis(f.at); at.After(v.LastAt) {
			v.LastAt = at
		}
		off, seq = f.offset+f.size(), f.seq+1
		from = off
	}
	return nil
}

// gap accounts for records that should stand between two offsets.
func (v *Verified) gap(scan *scanner, s *segment, off, end int64, from, to uint64, trouble string) {
	lost := s.unacked(from, to)
	if lost == 0 {
		v.Delivered += to - from
		return
	}
	if trouble == "" {
		off, trouble = scan.afterPadding(off, end), "damaged"
	}
	if s.end > s.size && to == s.limit() {
		trouble = fmt.Sprintf("the file ends at %d, its records at %d", s.size, s.end)
	}
	v.add(Damage{File: s.name(), Offset: off, Bytes: max(end-off, 0), FirstSeq: from, LastSeq: to - 1, Records: lost, What: trouble})
}

func (v *Verified) add(d Damage) {
	v.Lost += d.Records
	if len(v.Damage) < maxDamage {
		v.Damage = append(v.Damage, d)
	}
}
