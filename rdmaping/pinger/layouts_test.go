// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/rdmaping/locate"
	"gpufabric_exporter/rdmaping/locate/locatetest"
)

// TestRulesLayouts has fleets of few leaves, and of so many that most pairs of leaves are asked by one end only.
func TestRulesLayouts(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: promtool takes a minute (make rules)")
	}
	one := locatetest.Clos{Nodes: 8, PerLeaf: 8, Rails: 1, Spines: 1, Noise: true}
	two := locatetest.Clos{Nodes: 8, PerLeaf: 4, Rails: 1, Spines: 2, Noise: true}
	four := locatetest.Clos{Nodes: 32, PerLeaf: 8, Rails: 1, Spines: 4, Noise: true}
	eight := locatetest.Clos{Nodes: 24, PerLeaf: 3, Rails: 1, Spines: 2, Noise: true}
	racks := locatetest.Clos{Nodes: 12, PerLeaf: 2, Rails: 8, Spines: 2, Shared: true, Noise: true}
	many := locatetest.Clos{Nodes: 96, PerLeaf: 4, Rails: 1, Spines: 4, Noise: true}
	inside := func(share float64) []locatetest.Broken {
		return []locatetest.Broken{{Link: locatetest.OfLeaf(one.Rail(5, 0).Leaf), Share: share}}
	}
	off := misleading(t, many)
	power := func(nodes int) locatetest.Fault {
		var f locatetest.Fault
		for n := range nodes {
			node := eight.Rail(n, 0).Node
			f.Off, f.Want = append(f.Off, node), append(f.Want, "node "+node)
		}
		f.Name = fmt.Sprintf("all %d nodes of %d leaves are off, and neither leaf nor spine is bad", nodes, nodes/eight.PerLeaf)
		return f
	}
	tests := []struct {
		locatetest.Clos
		locatetest.Fault
	}{
		{one, locatetest.Fault{Name: "the only leaf is dead", Broken: inside(1), Want: []string{"leaf l0.0"}}},
		{one, locatetest.Fault{Name: "the only leaf loses 5 % each way", Broken: inside(0.05), Want: []string{"leaf l0.0"}}},
		{one, locatetest.Fault{Name: "three of the nodes are off", Off: []string{"n1", "n3", "n5"}, Want: []string{"node n1", "node n3", "node n5"}}},
		{one, locatetest.Fault{Name: "three of the nodes are dead, and their exporters live", Broken: []locatetest.Broken{
			{Link: locatetest.OfNode("n1"), Share: 1}, {Link: locatetest.OfNode("n3"), Share: 1}, {Link: locatetest.OfNode("n5"), Share: 1},
		}, Want: []string{"rail n1 0", "rail n3 0", "rail n5 0"}}},
		{four, locatetest.Fault{Name: "three of the nodes on a leaf are dead, and their exporters live", Broken: []locatetest.Broken{
			{Link: locatetest.OfNode("n1"), Share: 1}, {Link: locatetest.OfNode("n3"), Share: 1}, {Link: locatetest.OfNode("n5"), Share: 1},
		}, Want: []string{"rail n1 0", "rail n3 0", "rail n5 0"}}},
		{two, locatetest.Fault{Name: "nothing passes between the only two leaves", Broken: []locatetest.Broken{
			{Link: locatetest.OfPath("l0.0", "l1.0"), Share: 1},
		}, Want: []string{"path l0.0 l1.0"}}},
		{two, locatetest.Fault{Name: "one of two leaves is dead", Broken: []locatetest.Broken{
			{Link: locatetest.OfLeaf("l1.0"), Share: 1},
		}, Want: []string{"leaf l1.0"}}},
		{eight, power(3)},
		{eight, power(9)},
		{many, locatetest.Fault{Name: "a node is off that most of a leaf's rails ask", Off: []string{off}, Want: []string{"node " + off}}},
		{racks, locatetest.Fault{Name: "one of the two nodes on a leaf is dead, and its exporter lives", Broken: []locatetest.Broken{
			{Link: locatetest.OfNode("n5"), Share: 1},
		}, Want: []string{"node n5"}}},
	}
	for i, test := range tests {
		var s rulesScore
		s.add(t, test.Clos, test.Fault, simulate(t, test.Clos, test.Fault, uint64(i), 120))
		if s.wrong > 0 || s.missed > 0 {
			t.Errorf("%s: %+v", test.Name, s)
		}
	}
}

// TestRulesBack has nodes that are back after some minutes: what others saw in that time is still in their longer windows, and accuses nobody.
func TestRulesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: promtool takes a minute (make rules)")
	}
	small := locatetest.Clos{Nodes: 9, PerLeaf: 3, Rails: 1, Spines: 2, Noise: true}
	racks := locatetest.Clos{Nodes: 16, PerLeaf: 4, Rails: 1, Spines: 2, Noise: true}
	const back, ends = begins + 12*60, begins + 40*60
	for _, test := range []struct {
		locatetest.Clos
		down      []string
		restarted bool
	}{
		{small, []string{"n5"}, true},
		{small, []string{"n5"}, false},
		{racks, []string{"n4", "n5", "n6", "n7"}, true}, // without power
	} {
		f := newFleet(test.Clos, 3)
		synctest.Test(t, func(*testing.T) {
			test.Run(locatetest.Fault{}, begins, ends, 3, func(second int, pairs []locate.Pair) {
				var off []string
				if second >= begins && second < back {
					off = test.down
				}
				if second == back && test.restarted {
					for _, node := range test.down {
						f.judges[node], f.counts[node] = newJudge(), map[string]uint64{}
						f.rails[node] = map[string]*rail{device(0): {planned: f.rails[node][device(0)].planned}}
					}
				}
				live := make([]locate.Pair, 0, len(pairs))
				for _, p := range pairs {
					if slices.Contains(off, p.To.Node) {
						p.Bad = 1
					}
					early := test.restarted && second < back+12 && slices.Contains(test.down, p.From.Node) // it has no peers yet
					if !early && !slices.Contains(off, p.From.Node) {
						live = append(live, p)
					}
				}
				f.add(live, off)
				for node, rails := range f.rails {
					f.judges[node].close(rails, time.Now())
				}
				f.scrape(second, off)
				time.Sleep(time.Second)
			})
		})
		said := firing(t, f.write(t))
		for word, at := range said {
			t.Logf("%+v: %s: from %d to %d s, back at %d s", test, word, at[0], at[len(at)-1], back)
			if at[len(at)-1] > back+150 {
				t.Errorf("%+v: %s", test, word)
			}
		}
		for _, node := range test.down {
			if said["node "+node] == nil || len(said) != len(test.down) {
				t.Errorf("%+v: %v", test, said)
			}
		}
	}
}

// misleading is a node that most of the rails of another leaf ask that ask its leaf at all, and whose leaf does not ask theirs.
func misleading(t *testing.T, c locatetest.Clos) string {
	t.Helper()
	type path struct{ from, to string }
	asked, asks := map[path]int{}, map[path]map[string]int{}
	for _, pings := range c.Pings() {
		seen := map[path]bool{}
		for _, p := range pings[1:] {
			of := path{p.From.Leaf, p.To.Leaf}
			if !seen[of] {
				asked[of]++
				seen[of] = true
			}
			if asks[of] == nil {
				asks[of] = map[string]int{}
			}
			asks[of][p.To.Node]++
		}
	}
	worst := map[string]int{}
	for of, nodes := range asks {
		for node, n := range nodes {
			if of.from != of.to && asked[path{of.to, of.from}] == 0 && 2*n > asked[of] && n >= 2 {
				worst[node]++
			}
		}
	}
	best := ""
	for node, n := range worst {
		if n > worst[best] || n == worst[best] && node < best {
			best = node
		}
	}
	if best == "" {
		t.Fatal("no node is asked so")
	}
	t.Logf("%s: %d such paths", best, worst[best])
	return best
}
