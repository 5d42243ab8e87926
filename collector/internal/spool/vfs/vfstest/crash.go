package vfstest

import (
	"maps"
	"slices"
)

const sector = 512

// Choose returns a number from 0 up to before n.
type Choose func(n int) int

// Crash returns what the disk might hold if the power went now. The file system
// itself goes on as if nothing had happened.
func (fs *FS) Crash(choose Choose) *FS {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	names := maps.Clone(fs.durable)
	// All that was not synced is there, none, the first part of it, or any part.
	mode := choose(4)
	until := len(fs.changes)
	if mode == 2 {
		until = choose(len(fs.changes) + 1)
	}
	for i, c := range fs.changes {
		if mode == 1 || i >= until || mode == 3 && choose(2) == 0 {
			continue
		}
		switch c.kind {
		case "create":
			names[c.to] = c.file
		case "rename":
			if names[c.from] == c.file {
				delete(names, c.from)
				names[c.to] = c.file
			}
		case "remove":
			if names[c.from] == c.file {
				delete(names, c.from)
			}
		}
	}
	after := New()
	after.Capacity = fs.Capacity
	done := map[*inode]*inode{}
	for _, name := range slices.Sorted(maps.Keys(names)) { // in one order, so that choices can be repeated
		old := names[name]
		if done[old] == nil {
			done[old] = old.crash(choose)
		}
		after.now[name] = done[old]
	}
	after.durable = maps.Clone(after.now)
	return after
}

// crash returns what is left of a file.
func (n *inode) crash(choose Choose) *inode {
	unsynced := n.unsynced()
	if len(unsynced) == 0 && len(n.seen) == len(n.stable) {
		n.stableShared = true
		return settled(n.stable)
	}
	size := int64(len(n.stable))
	if len(n.seen) != len(n.stable) && choose(2) == 0 {
		size = int64(len(n.seen))
	}
	left := make([]byte, size)
	copy(left, n.stable)
	mode := choose(4)
	for _, b := range unsynced {
		at := b * block
		if at >= size || mode == 0 {
			continue
		}
		to := left[at:min(at+block, size)]
		var seen []byte
		if at < int64(len(n.seen)) {
			seen = n.seen[at:min(at+block, int64(len(n.seen)))]
		}
		what := 1 // the new content
		if mode == 2 || mode == 3 {
			what = choose(4)
		}
		switch what {
		case 0:
		case 1, 2:
			if what == 1 || mode == 2 {
				copy(to, seen)
				break
			}
			for s := 0; s < len(to); s += sector {
				if s < len(seen) && choose(2) == 0 {
					copy(to[s:min(s+sector, len(to))], seen[s:])
				}
			}
		case 3:
			x := uint32(choose(1 << 30))
			for i := range to {
				x = x*1664525 + 1013904223
				to[i] = byte(x >> 24)
			}
		}
	}
	return settled(left)
}

// unsynced lists the blocks that may differ from stable storage.
func (n *inode) unsynced() []int64 {
	blocks := slices.Collect(maps.Keys(n.dirty))
	for b := range n.lost {
		if !n.dirty[b] {
			blocks = append(blocks, b)
		}
	}
	slices.Sort(blocks)
	return blocks
}
