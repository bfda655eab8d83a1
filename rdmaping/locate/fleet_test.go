// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/rdmaping/peers"
)

// link is what a message passes, as far as it can be broken.
type link struct {
	node  string
	rail  int    // of node; -1: the node itself
	leaf  string // without a spine: the switch; with: its uplink
	other string // of a path between two leaves
	spine int    // -1: none
}

func ofRail(node string, rail int) link { return link{node: node, rail: rail, spine: -1} }
func ofNode(node string) link           { return link{node: node, rail: -1, spine: -1} }
func ofLeaf(leaf string) link           { return link{leaf: leaf, rail: -1, spine: -1} }
func ofSpine(spine int) link            { return link{rail: -1, spine: spine} }
func ofUplink(leaf string, spine int) link {
	return link{leaf: leaf, rail: -1, spine: spine}
}
func ofPath(a, b string) link { return link{leaf: a, other: b, rail: -1, spine: -1} }

// carries reports whether a message of a pair passes a link on its way over a spine; -1: it stays at its leaf.
func (l link) carries(p Pair, spine int) bool {
	ends := func(r Rail) bool {
		return l.node == r.Node && (l.rail == r.Number || l.rail < 0) || l.node == "" && l.leaf == r.Leaf
	}
	switch {
	case l.other != "":
		return l.leaf == min(p.From.Leaf, p.To.Leaf) && l.other == max(p.From.Leaf, p.To.Leaf)
	case l.spine >= 0 && l.spine != spine:
		return false
	case l.spine >= 0 && l.leaf == "":
		return true
	}
	return ends(p.From) || ends(p.To)
}

// planted is a fault of a fleet, and what it shall be named as.
type planted struct {
	name   string
	broken map[link]float64 // share of messages that do not pass, there and back alike
	noisy  string           // a host that is too slow
	want   string
	within time.Duration
}

// clos is leaves and spines, and rails that ping each other, each second each of its peers and itself.
type clos struct {
	nodes, perLeaf, rails, spines int
}

func (c clos) rail(node, rail int) Rail {
	return Rail{Node: fmt.Sprintf("n%d", node), Number: rail, Leaf: fmt.Sprintf("l%d.%d", node/c.perLeaf, rail)}
}

// pings are the pairs of the fleet.
func (c clos) pings() [][]Pair {
	var all [][]Pair
	for r := range c.rails {
		targets := make([]peers.Target, c.nodes)
		rails := make(map[string]Rail, c.nodes)
		for n := range targets {
			rail := c.rail(n, r)
			targets[n] = peers.Target{Address: rail.Node, Rail: r, Leaf: rail.Leaf}
			rails[rail.Node] = rail
		}
		for _, t := range targets {
			from := rails[t.Address]
			pairs := []Pair{{From: from, To: from, Sent: 1}}
			for _, p := range peers.Choose(t, targets, peers.DefaultPeers) {
				pairs = append(pairs, Pair{From: from, To: rails[p.Address], Sent: 1})
			}
			all = append(all, pairs)
		}
	}
	return all
}

// background is the loss that a healthy fabric has.
const background = 1e-6

// lost reports whether a message or its answer gets lost, each of them over a spine by chance, as flow labels vary.
func (c clos) lost(p Pair, f planted, random *rand.Rand) bool {
	if f.noisy != "" && (p.From.Node == f.noisy || p.To.Node == f.noisy) && random.Float64() < 0.2 {
		return true
	}
	if p.From == p.To {
		return false
	}
	spines := [2]int{-1, -1} // there and back
	if p.From.Leaf != p.To.Leaf {
		spines = [2]int{random.IntN(c.spines), random.IntN(c.spines)}
	}
	for l, share := range f.broken {
		for _, s := range spines {
			if l.carries(p, s) && random.Float64() < share {
				return true
			}
		}
	}
	return random.Float64() < background
}

// outcome is what was said of a fault.
type outcome struct {
	right, wrong, unlocated int           // verdicts of closed windows
	after                   time.Duration // until the first one that is right; 0: none
	words                   []string      // that are wrong
}

// spans are the windows: the length, and the least ratio that is looked at in it.
var spans = []struct {
	length time.Duration
	least  float64
}{{10 * time.Second, 0.3}, {30 * time.Second, 0.01}, {time.Hour, 0.0003}}

// run has a fleet ping for some time, with a fault that begins a while after the start.
func (c clos) run(t *testing.T, f planted, lasts time.Duration) outcome {
	var o outcome
	pings := c.pings()
	spans := spans
	if lasts < spans[2].length {
		spans = spans[:2]
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		windows := make([]Windows, len(spans))
		for i, s := range spans {
			windows[i] = Windows{Length: s.length, Grace: time.Second}
		}
		begins := time.Now().Add(13500 * time.Millisecond)
		if lasts > 30*time.Minute { // the hours of the clock
			begins = time.Now()
		}
		end := begins.Add(lasts)
		var wg sync.WaitGroup
		for i, pairs := range pings {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 7))
				time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
				for ; time.Now().Before(end); time.Sleep(time.Second) {
					now := time.Now()
					works := planted{}
					if now.After(begins) {
						works = f
					}
					mu.Lock()
					for _, p := range pairs {
						if c.lost(p, works, random) {
							p.Bad = 1
						}
						for k := range windows {
							windows[k].Add(now, now, p)
						}
					}
					mu.Unlock()
				}
			})
		}
		for ; time.Now().Before(end.Add(2 * time.Second)); time.Sleep(time.Second) {
			mu.Lock()
			for k := range windows {
				for _, window := range windows[k].Close(time.Now()) {
					for _, v := range Judge(window, spans[k].least) {
						o.count(v, f, time.Since(begins))
					}
				}
			}
			mu.Unlock()
		}
		wg.Wait()
	})
	return o
}

func (o *outcome) count(v Verdict, f planted, after time.Duration) {
	w := said([]Verdict{v})
	switch {
	case w == string(Unlocated):
		o.unlocated++
	case w != f.want:
		o.wrong++
		o.words = append(o.words, w)
	default:
		o.right++
		o.after = cmp.Or(o.after, after)
	}
}

// faults are those that are planted in a fleet. Node 5 is on the second leaf of 16 nodes, and on the first of more.
func (c clos) faults() []planted {
	leaf, other := c.rail(5, 0).Leaf, c.rail(c.nodes-1, 0).Leaf
	uplinks := map[link]float64{}
	for s := range c.spines / 2 {
		uplinks[ofUplink(leaf, s)] = 1
	}
	rail := "rail n5 0"
	node := "node n5"
	if c.rails == 1 {
		node = rail // it has no other rail by which they differ
	}
	return []planted{
		{name: "none"},
		{name: "rail dead", broken: map[link]float64{ofRail("n5", 0): 1}, want: rail, within: 30 * time.Second},
		{name: "rail loses 5 %", broken: map[link]float64{ofRail("n5", 0): 0.05}, want: rail, within: time.Minute + 10*time.Second},
		{name: "node dead", broken: map[link]float64{ofNode("n5"): 1}, want: node, within: 30 * time.Second},
		{name: "leaf dead", broken: map[link]float64{ofLeaf(leaf): 1}, want: "leaf " + leaf, within: 30 * time.Second},
		{name: "leaf loses 5 %", broken: map[link]float64{ofLeaf(leaf): 0.05}, want: "leaf " + leaf, within: time.Minute + 10*time.Second},
		{name: "half of the uplinks dead", broken: uplinks, want: "leaf " + leaf, within: 30 * time.Second},
		{name: "spine dead", broken: map[link]float64{ofSpine(0): 1}, want: "fabric", within: time.Minute + 10*time.Second},
		{name: "host slow", noisy: "n5", want: "host n5", within: time.Minute + 10*time.Second},
		{name: "path dead", broken: map[link]float64{ofPath(min(leaf, other), max(leaf, other)): 1}, want: "path " + min(leaf, other) + " " + max(leaf, other), within: 30 * time.Second},
	}
}

// TestFleets plants faults in fleets of leaves and spines, and measures precision, recall and seconds.
func TestFleets(t *testing.T) {
	fleets := []clos{{16, 4, 2, 4}, {64, 16, 1, 4}, {256, 16, 2, 8}}
	full := os.Getenv("FULL") != ""
	if full {
		fleets = append(fleets, clos{1024, 32, 1, 16}, clos{4096, 32, 1, 32}) // minutes
	}
	for _, c := range fleets {
		var found, missed, right, wrong int
		var slowest time.Duration
		for _, f := range c.faults() {
			if c.nodes > 64 && !full && !slices.Contains([]string{"rail dead", "leaf dead"}, f.name) {
				continue
			}
			o := c.run(t, f, cmp.Or(f.within, time.Minute)+10*time.Second)
			right, wrong = right+o.right, wrong+o.wrong
			asked := true
			if f.name == "path dead" {
				asked = c.asks(f)
			}
			switch {
			case f.want == "":
			case o.after == 0 && !asked: // nobody's peers are on both sides
			case o.after == 0 || o.after > f.within:
				missed++
				t.Errorf("%d nodes, %s: after %s, other verdicts %v", c.nodes, f.name, o.after, o.words)
			default:
				found++
				slowest = max(slowest, o.after)
			}
			t.Logf("%4d nodes  %-25s right %d, wrong %d %v, unlocated %d, after %s", c.nodes, f.name, o.right, o.wrong, clip(o.words), o.unlocated, o.after)
		}
		t.Logf("%4d nodes: precision %.3f, recall %.3f, at most %s", c.nodes, float64(right)/float64(right+wrong), float64(found)/float64(found+missed), slowest)
		if wrong > 0 {
			t.Errorf("%d nodes: %d wrong verdicts", c.nodes, wrong)
		}
	}
}

// asks reports whether pings cross the path of a fault.
func (c clos) asks(f planted) bool {
	for _, pairs := range c.pings() {
		for _, p := range pairs {
			if f.broken[ofPath(min(p.From.Leaf, p.To.Leaf), max(p.From.Leaf, p.To.Leaf))] > 0 {
				return true
			}
		}
	}
	return false
}

func clip(words []string) []string { return words[:min(len(words), 4)] }

// TestSmallLoss finds a thousandth within an hour.
func TestSmallLoss(t *testing.T) {
	c := clos{64, 16, 1, 4}
	leaf := c.rail(5, 0).Leaf
	o := c.run(t, planted{broken: map[link]float64{ofLeaf(leaf): 0.001}, want: "leaf " + leaf}, time.Hour+time.Minute)
	t.Logf("right %d, wrong %v, after %s", o.right, o.words, o.after)
	if o.right != 1 || o.wrong > 0 {
		t.Errorf("%+v", o)
	}
}

// TestTwoFaults names both.
func TestTwoFaults(t *testing.T) {
	c := clos{256, 16, 2, 8}
	broken := map[link]float64{ofNode("n100"): 1, ofLeaf("l0.0"): 0.5}
	for _, want := range []string{"node n100", "leaf l0.0"} {
		if o := c.run(t, planted{broken: broken, want: want}, 40*time.Second); o.after == 0 || o.after > 30*time.Second {
			t.Errorf("%s: after %s, %v", want, o.after, o.words)
		}
	}
}
