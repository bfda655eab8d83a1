// SPDX-License-Identifier: Apache-2.0

// Package locatetest simulates fleets whose rails ping each other over leaves and spines, with faults, for tests of
// those who say where messages get lost.
package locatetest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"gpufabric_exporter/rdmaping/locate"
	"gpufabric_exporter/rdmaping/peers"
)

// Clos is leaves and spines. Each rail pings each of its peers and itself, once a second.
type Clos struct {
	Nodes, PerLeaf, Rails, Spines int
	Shared                        bool // all rails of a node are on one leaf, that of its rack
	// Noise: a quarter of the hosts miss 0.1 to 0.5 % of what they send and answer; node 5 does not.
	Noise bool
}

// Link is what a message passes, as far as it can be broken.
type Link struct {
	Node  string
	Rail  int    // of Node; -1: the node itself
	Leaf  string // without a spine: the switch; with one: its link there
	Other string // of a path between two leaves
	Spine int    // -1: none
	Up    bool   // all links of the leaf to spines, and not the switch
}

// OfNode is a node with all of its rails.
func OfNode(node string) Link { return Link{Node: node, Rail: -1, Spine: -1} }

// OfLeaf is a leaf, also inside.
func OfLeaf(leaf string) Link { return Link{Leaf: leaf, Rail: -1, Spine: -1} }

func ofRail(node string, rail int) Link { return Link{Node: node, Rail: rail, Spine: -1} }
func ofUplinks(leaf string) Link        { return Link{Leaf: leaf, Rail: -1, Spine: -1, Up: true} }
func ofSpine(spine int) Link            { return Link{Rail: -1, Spine: spine} }

// OfPath is what is between two leaves.
func OfPath(a, b string) Link { return Link{Leaf: min(a, b), Other: max(a, b), Rail: -1, Spine: -1} }

func ofUplink(leaf string, spine int) Link {
	return Link{Leaf: leaf, Rail: -1, Spine: spine}
}

// carries reports whether a message of a pair passes a link on its way over a spine; -1: it stays at its leaf.
func (l Link) carries(p locate.Pair, spine int) bool {
	ends := func(r locate.Rail) bool {
		return l.Node == r.Node && (l.Rail == r.Number || l.Rail < 0) || l.Node == "" && l.Leaf == r.Leaf
	}
	switch {
	case l.Other != "":
		return l.Leaf == min(p.From.Leaf, p.To.Leaf) && l.Other == max(p.From.Leaf, p.To.Leaf)
	case l.Up && spine < 0, l.Spine >= 0 && l.Spine != spine:
		return false
	case l.Spine >= 0 && l.Leaf == "":
		return true
	}
	return ends(p.From) || ends(p.To)
}

// Broken is a link that loses a share of the messages.
type Broken struct {
	Link
	Share  float64
	OneWay bool // only in one direction, which a message or its answer passes
}

// Fault is what is planted.
type Fault struct {
	Name   string
	Broken []Broken
	Noisy  string   // a host that misses a fifth of what it sends and answers
	Off    []string // nodes that are off: they send nothing
	Want   []string // what it shall be named as, each of them
}

// Rail is a rail of a node of the fleet.
func (c Clos) Rail(node, rail int) locate.Rail {
	leaf := fmt.Sprintf("l%d.%d", node/c.PerLeaf, rail)
	if c.Shared {
		leaf = fmt.Sprintf("l%d", node/c.PerLeaf)
	}
	return locate.Rail{Node: fmt.Sprintf("n%d", node), Number: rail, Leaf: leaf}
}

// Pings are the pairs of each rail, the first of which is its loopback.
func (c Clos) Pings() [][]locate.Pair {
	var all [][]locate.Pair
	for r := range c.Rails {
		targets := make([]peers.Target, c.Nodes)
		rails := make(map[string]locate.Rail, c.Nodes)
		for n := range targets {
			rail := c.Rail(n, r)
			targets[n] = peers.Target{Address: rail.Node, Rail: r, Leaf: rail.Leaf}
			rails[rail.Node] = rail
		}
		for _, t := range targets {
			from := rails[t.Address]
			pairs := []locate.Pair{{From: from, To: from, Sent: 1}}
			for _, p := range peers.Choose(t, targets, peers.DefaultPeers) {
				pairs = append(pairs, locate.Pair{From: from, To: rails[p.Address], Sent: 1})
			}
			all = append(all, pairs)
		}
	}
	return all
}

// background is the loss that a healthy fabric has.
const background = 1e-6

// Run has a fleet ping for some seconds, and calls each after each of them with what came of it: a pair for each
// message. The fault begins after some of them. The pairs are used again.
func (c Clos) Run(f Fault, begins, seconds int, seed uint64, each func(second int, pairs []locate.Pair)) {
	random := rand.New(rand.NewPCG(seed, 7))
	misses := map[string]float64{}
	for n := range c.Nodes {
		if node := fmt.Sprintf("n%d", n); random.IntN(4) == 0 && c.Noise && n != 5 {
			misses[node] = 0.001 + 0.004*random.Float64()
		}
	}
	var pings []locate.Pair
	for _, of := range c.Pings() {
		pings = append(pings, of...)
	}
	for s := range seconds {
		works := Fault{}
		if s == begins && f.Noisy != "" {
			misses[f.Noisy] = 0.2
		}
		if s >= begins {
			works = f
			pings = slices.DeleteFunc(pings, func(p locate.Pair) bool { return slices.Contains(f.Off, p.From.Node) })
		}
		for i := range pings {
			p := &pings[i]
			p.Bad = 0
			if c.lost(*p, works, misses, random) {
				p.Bad = 1
			}
		}
		each(s, pings)
	}
}

// lost reports whether a message or its answer gets lost, each of them over a spine by chance, as flow labels vary.
func (c Clos) lost(p locate.Pair, f Fault, misses map[string]float64, random *rand.Rand) bool {
	for _, node := range []string{p.From.Node, p.To.Node} {
		if share := misses[node]; share > 0 && random.Float64() < share {
			return true
		}
	}
	if p.From == p.To {
		return false
	}
	spines := [2]int{-1, -1} // there and back
	if p.From.Leaf != p.To.Leaf {
		spines = [2]int{random.IntN(c.Spines), random.IntN(c.Spines)}
	}
	for _, b := range f.Broken {
		ways := spines[:]
		if b.OneWay {
			ways = spines[:1]
		}
		for _, s := range ways {
			if b.carries(p, s) && random.Float64() < b.Share {
				return true
			}
		}
	}
	return slices.Contains(f.Off, p.To.Node) || random.Float64() < background
}
