// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// fleet is nodes on leaves of that many.
func fleet(nodes, perLeaf int) []Target {
	all := make([]Target, nodes)
	for i := range all {
		all[i] = Target{Address: fmt.Sprintf("node%05d:10791", i), Rail: AllRails, Leaf: fmt.Sprintf("leaf%d", i/perLeaf)}
	}
	return all
}

// asker is rail 0 of a target.
func asker(t Target) Target { t.Rail = 0; return t }

// TestLoad holds the load of a node to the same bound in any fleet: it asks k others, and hardly more ask it.
func TestLoad(t *testing.T) {
	for _, f := range []struct{ nodes, perLeaf, leaves int }{{16, 4, 4}, {64, 16, 4}, {512, 32, 16}, {4096, 32, 4}, {16384, 32, 2}} {
		all := fleet(f.nodes, f.perLeaf)
		askedBy, pairs := map[string]int{}, map[[2]string]int{}
		step := max(f.nodes/f.perLeaf/f.leaves, 1) * f.perLeaf // whole leaves: all of a large fleet take long
		asking := 0
		for i := range all {
			if i%step >= f.perLeaf {
				continue
			}
			asking++
			chosen := Choose(asker(all[i]), all, DefaultPeers)
			own := 0
			for _, c := range chosen {
				askedBy[c.Address]++
				if c.Leaf == all[i].Leaf {
					own++
					continue
				}
				pairs[[2]string{all[i].Leaf, c.Leaf}]++
			}
			if len(chosen) != DefaultPeers || own != nearPeers {
				t.Fatalf("%d nodes: %s asks %d, %d on its own leaf", f.nodes, all[i].Address, len(chosen), own)
			}
		}
		most, least := 0, f.nodes
		for _, n := range askedBy {
			most = max(most, n)
		}
		for _, n := range pairs {
			least = min(least, n)
		}
		t.Logf("%5d nodes: %d ask; a node is asked by at most %d; two leaves have at least %d pairs", f.nodes, asking, most, least)
		if most > 4*DefaultPeers || least < perLeaf {
			t.Errorf("%d nodes: a node is asked by %d; two leaves have %d pairs", f.nodes, most, least)
		}
	}
}

// TestSmallLeaves holds the load of nodes on leaves that are hardly built yet to the bound of all others.
func TestSmallLeaves(t *testing.T) {
	for _, f := range []struct{ nodes, perLeaf, few int }{{255, 255, 1}, {512, 32, 1}, {128, 32, 2}, {128, 64, 16}} {
		all := fleet(f.nodes, f.perLeaf)
		for i := range f.few {
			all = append(all, Target{Address: fmt.Sprintf("new%d:10791", i), Rail: AllRails, Leaf: "new"})
		}
		askedBy := map[string]int{}
		for _, self := range all {
			chosen := Choose(asker(self), all, DefaultPeers)
			if len(chosen) != DefaultPeers {
				t.Fatalf("%s asks %d", self.Address, len(chosen))
			}
			for _, c := range chosen {
				askedBy[c.Address]++
			}
		}
		most, fewest := 0, f.nodes
		for a, n := range askedBy {
			if most = max(most, n); strings.HasPrefix(a, "new") {
				fewest = min(fewest, n)
			}
		}
		t.Logf("%d nodes on leaves of %d, %d on a new one: a node is asked by at most %d, a new one by %d or more", f.nodes, f.perLeaf, f.few, most, fewest)
		if most > 6*DefaultPeers || fewest < perLeaf {
			t.Errorf("%d nodes: a node is asked by %d, a new one by %d", f.nodes, most, fewest)
		}
	}
}

// TestStable has the same choice whatever the order, and hardly another one when a node of another leaf goes.
func TestStable(t *testing.T) {
	all := fleet(256, 16)
	shuffled := slices.Clone(all)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, k int) { shuffled[i], shuffled[k] = shuffled[k], shuffled[i] })
	gone := all[200]
	without := slices.DeleteFunc(slices.Clone(all), func(t Target) bool { return t == gone })
	changed := 0
	for _, self := range all[:192] {
		was := Choose(asker(self), all, DefaultPeers)
		if now := Choose(asker(self), shuffled, DefaultPeers); !slices.Equal(was, now) {
			t.Fatalf("%v, then %v", was, now)
		}
		now := Choose(asker(self), without, DefaultPeers)
		for _, c := range was {
			if c != gone && !slices.Contains(now, c) {
				changed++
			}
		}
	}
	if changed > 0 {
		t.Errorf("%d choices of nodes that are still there have changed", changed)
	}
}

func TestChooseFromFew(t *testing.T) {
	self := Target{Address: "a:1", Rail: 1, Leaf: "l"}
	near := func(n int, leaf string) []Target {
		out := make([]Target, n)
		for i := range out {
			out[i] = Target{Address: fmt.Sprintf("%s%d:1", leaf, i), Rail: AllRails, Leaf: leaf}
		}
		return out
	}
	for _, c := range []struct {
		name    string
		targets []Target
		k, want int
	}{
		{"none", nil, 8, 0},
		{"itself only", []Target{{Address: "a:1", Rail: AllRails}}, 8, 0},
		{"another rail", []Target{{Address: "b:1", Rail: 2}}, 8, 0},
		{"twice the same", []Target{{Address: "b:1", Rail: 1}, {Address: "b:1", Rail: AllRails}}, 8, 1},
		{"own leaf only", near(20, "l"), 8, 8},
		{"other leaves only", append(near(20, "m"), near(20, "n")...), 8, 8},
		{"one other node", append(near(20, "l"), near(1, "m")...), 8, 8},
		{"fewer than asked", append(near(1, "l"), near(2, "m")...), 8, 3},
		{"one peer", append(near(3, "l"), near(3, "m")...), 1, 1},
		{"no peer", near(3, "l"), 0, 0},
	} {
		got := Choose(self, c.targets, c.k)
		slices.SortFunc(got, func(a, b Target) int { return strings.Compare(a.Address, b.Address) })
		if len(got) != c.want || len(slices.Compact(got)) != c.want {
			t.Errorf("%s: %v, expected %d", c.name, got, c.want)
		}
	}
}

func BenchmarkChoose(b *testing.B) {
	all := fleet(16384, 32)
	for b.Loop() {
		Choose(asker(all[77]), all, DefaultPeers)
	}
}
