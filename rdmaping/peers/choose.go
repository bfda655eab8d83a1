// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// DefaultPeers is how many peers a rail has.
const DefaultPeers = 8

const (
	// nearPeers of the peers are on the rail's own leaf: as many as it takes to tell its uplinks from the rail.
	nearPeers = 3
	// perLeaf is how many pairs there are at least between two leaves of which one asks the other, so that one
	// reporter alone never accuses a leaf.
	perLeaf = 3
	// leastLeaves is how many other leaves a rail asks at least, where there are so many and it may.
	leastLeaves = 3
	// fair is how many leaves, and by their shares how many rails of other leaves, ask a rail at most. Those of a leaf
	// with few rails are asked as seldom as others.
	fair = 10
)

// Choose returns the k rails that self asks: three on its own leaf, the others on other leaves, and more on its own
// where these have been asked enough. The leaves that a leaf asks are few enough that each is asked by three pairs or
// more, and its rails share them evenly.
//
// The choice depends on nothing but the arguments, whatever their order. A node that joins or leaves another leaf
// changes only the choices of those that had it or now prefer it; one of the own leaf changes how the leaf is
// shared. Self is left out, and so are targets of other rails.
func Choose(self Target, targets []Target, k int) []Target {
	near, leaves := byLeaf(self, targets)
	far := across(self, near, leaves, k-min(nearPeers, k, len(near)))
	ranked := rank(self.Address, near)
	return append(slices.Clip(ranked[:min(len(ranked), k-len(far))]), far...)
}

// leaf is a switch, and the rails at it that may be asked.
type leaf struct {
	name    string
	score   uint64 // how much the leaf of the asker prefers it
	targets []Target
}

// byLeaf returns the targets on the leaf of self, and those on each other one.
func byLeaf(self Target, targets []Target) (near []Target, others []leaf) {
	seen := make(map[string]bool, len(targets))
	at := make(map[string]int)
	for _, t := range targets {
		if t.Address == self.Address || t.Rail != AllRails && t.Rail != self.Rail || seen[t.Address] {
			continue
		}
		seen[t.Address] = true
		if t.Leaf == self.Leaf {
			near = append(near, t)
			continue
		}
		i, ok := at[t.Leaf]
		if !ok {
			i = len(others)
			at[t.Leaf] = i
			others = append(others, leaf{name: t.Leaf})
		}
		others[i].targets = append(others[i].targets, t)
	}
	return near, others
}

// across chooses places rails on other leaves.
func across(self Target, near []Target, leaves []leaf, places int) []Target {
	rails := len(near) + 1
	for i := range leaves {
		leaves[i].score = score(self.Leaf, leaves[i].name)
		rails += len(leaves[i].targets)
	}
	all := slices.Clone(leaves)
	leaves = slices.DeleteFunc(leaves, func(l leaf) bool { return !l.admits(all) })
	if places <= 0 || len(leaves) == 0 {
		return nil
	}
	slices.SortFunc(leaves, func(a, b leaf) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.name, b.name))
	})
	asked := max((len(near)+1)*places/perLeaf, leastLeaves)
	asked = min(asked, len(leaves))
	first := position(self, near) * places
	rest := make(map[int][]Target) // of the leaves that had a place: what has none, best first
	var chosen []Target
	for place := first; len(chosen) < places && place < first+places; place++ {
		for try := range leaves { // the next leaf where this one has no more
			i := (place%asked + try) % len(leaves)
			size := len(leaves[i].targets)
			if place/asked > max(perLeaf, fair*size*(len(near)+1)/(rails-size)) {
				continue // the leaf of self has asked it enough
			}
			if _, had := rest[i]; !had {
				rest[i] = rank(self.Address, leaves[i].targets)
			}
			if len(rest[i]) > 0 {
				chosen, rest[i] = append(chosen, rest[i][0]), rest[i][1:]
				break
			}
		}
	}
	return chosen
}

// admits reports whether the leaf of self, one beside all, is among those that ask the leaf.
func (l *leaf) admits(all []leaf) bool {
	most, before := fair*len(l.targets), 0
	if len(all) <= most {
		return true
	}
	for i := range all {
		if all[i].name != l.name && score(all[i].name, l.name) > l.score {
			if before++; before == most { // of 100,000 leaves most are looked at no further
				return false
			}
		}
	}
	return true
}

// position is the place of self among those of its leaf, in an order that all of them know.
func position(self Target, near []Target) int {
	mine, before := score("", self.Address), 0
	for _, t := range near {
		if s := score("", t.Address); s < mine || s == mine && t.Address < self.Address {
			before++
		}
	}
	return before
}

// rank sorts targets by how much the asker prefers them.
func rank(asker string, targets []Target) []Target {
	type ranked struct {
		score uint64
		Target
	}
	all := make([]ranked, len(targets))
	for i, t := range targets {
		all[i] = ranked{score(asker, t.Address), t}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.Address, b.Address))
	})
	out := make([]Target, len(all))
	for i, r := range all {
		out[i] = r.Target
	}
	return out
}

// score is how much a prefers b: the same on each node and in each release.
func score(a, b string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(a))
	_, _ = h.Write([]byte{0}) // an address has none
	_, _ = h.Write([]byte(b))
	s := h.Sum64() // the high bits of FNV hardly depend on the last byte: mix them (fmix64 of MurmurHash3)
	s = (s ^ s>>33) * 0xff51afd7ed558ccd
	s = (s ^ s>>33) * 0xc4ceb9fe1a85ec53
	return s ^ s>>33
}
