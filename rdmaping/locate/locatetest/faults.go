// SPDX-License-Identifier: Apache-2.0

package locatetest

import (
	"fmt"
	"slices"

	"gpufabric_exporter/rdmaping/locate"
)

// Words are verdicts as a fault names them.
func Words(v locate.Verdict) string {
	switch v.Kind {
	case locate.OwnRail:
		return fmt.Sprintf("rail %s %d", v.Node, v.Rail)
	case locate.Host, locate.Node:
		return string(v.Kind) + " " + v.Node
	case locate.Leaf:
		return "leaf " + v.Leaves[0]
	case locate.Path:
		return "path " + v.Leaves[0] + " " + v.Leaves[1]
	}
	return string(v.Kind)
}

// Faults are those that lose much, and shall be named within a minute or two. Node 5 is on the second leaf of 16
// nodes, and on the first of more.
func (c Clos) Faults() []Fault {
	of := c.Rail(5, 0)
	far := c.Rail(c.Nodes-1, 0).Leaf
	rail, node, leaf, spine := "rail n5 0", "node n5", "leaf "+of.Leaf, string(locate.Fabric)
	if c.Rails == 1 {
		node = rail // it has no other rail by which they differ
	}
	var uplinks, linecard, halves []Broken
	for s := range c.Spines / 2 {
		uplinks = append(uplinks, Broken{ofUplink(of.Leaf, s), 1, false})
	}
	leaves := c.Nodes / c.PerLeaf
	for l := range (leaves + 1) / 2 {
		a := c.Rail(l*c.PerLeaf, 0).Leaf
		linecard = append(linecard, Broken{ofUplink(a, 0), 0.5, false})
		for m := range l {
			halves = append(halves, Broken{OfPath(a, c.Rail(m*c.PerLeaf, 0).Leaf), 0.2, true})
		}
	}
	path := "path " + min(of.Leaf, far) + " " + max(of.Leaf, far)
	one := func(name, want string, l Link, share float64, oneWay bool) Fault {
		return Fault{Name: name, Broken: []Broken{{l, share, oneWay}}, Want: []string{want}}
	}
	all := []Fault{
		{Name: "nothing"},
		one("rail dead", rail, ofRail("n5", 0), 1, false),
		one("rail loses 10 %, one way", rail, ofRail("n5", 0), 0.1, true),
		one("rail loses 5 %, one way", rail, ofRail("n5", 0), 0.05, true),
		one("node dead, its exporter lives", node, OfNode("n5"), 1, false),
		one("leaf dead", leaf, OfLeaf(of.Leaf), 1, false),
		one("uplinks of a leaf lose 5 %, one way", leaf, ofUplinks(of.Leaf), 0.05, true),
		one("uplinks of a leaf lose 3 %, each way", leaf, ofUplinks(of.Leaf), 0.03, false),
		{Name: "half of the uplinks of a leaf dead", Broken: uplinks, Want: []string{leaf}},
		one("path dead", path, OfPath(of.Leaf, far), 1, false),
		one("path loses 10 %, one way", path, OfPath(of.Leaf, far), 0.1, true),
		one("spine dead", spine, ofSpine(0), 1, false),
		one("host slow", "host n5", ofRail("", 0), 0, false),
	}
	all[len(all)-1].Noisy = "n5"
	half := Fault{Name: "half of the nodes off, on all leaves"}
	for n := 1; n < c.Nodes; n += 2 {
		half.Off = append(half.Off, fmt.Sprintf("n%d", n))
	}
	half.Want = c.asked(half.Off)
	all = append(all, Fault{Name: "node off", Off: []string{"n5"}, Want: []string{"node n5"}}, half)
	if len(halves) >= 3 {
		all = append(all, Fault{Name: "half of the leaves lose 20 % between them, one way", Broken: halves, Want: []string{spine}},
			Fault{Name: "half of the leaves: half of what goes to a spine", Broken: linecard, Want: []string{spine}})
	}
	return all
}

// asked are the nodes that are off and that three others ask on each rail.
func (c Clos) asked(off []string) []string {
	askers := map[locate.Rail]int{}
	for _, pairs := range c.Pings() {
		for _, p := range pairs[1:] {
			if !slices.Contains(off, p.From.Node) {
				askers[p.To]++
			}
		}
	}
	var nodes []string
	for n := range c.Nodes {
		least := 3
		for r := range c.Rails {
			least = min(least, askers[c.Rail(n, r)])
		}
		if node := c.Rail(n, 0).Node; least == 3 && slices.Contains(off, node) {
			nodes = append(nodes, "node "+node)
		}
	}
	return nodes
}

// SmallFaults are those that lose little, and shall be named within an hour or two.
func (c Clos) SmallFaults() []Fault {
	of := c.Rail(5, 0)
	rail, leaf := "rail n5 0", "leaf "+of.Leaf
	one := func(name, want string, l Link, share float64) Fault {
		return Fault{Name: name, Broken: []Broken{{l, share, true}}, Want: []string{want}}
	}
	return []Fault{
		{Name: "nothing, for hours"},
		one("uplinks of a leaf lose 0.1 %, one way", leaf, ofUplinks(of.Leaf), 0.001),
		one("uplinks of a leaf lose 0.5 %, one way", leaf, ofUplinks(of.Leaf), 0.005),
		one("rail loses 2 %, one way", rail, ofRail("n5", 0), 0.02),
		one("rail loses 0.5 %, one way", rail, ofRail("n5", 0), 0.005),
	}
}

// Asks reports whether pings cross what a fault breaks.
func (c Clos) Asks(f Fault) bool {
	for _, pairs := range c.Pings() {
		for _, p := range pairs[1:] {
			for _, b := range f.Broken {
				if b.Other == "" || b.carries(p, 0) {
					return true
				}
			}
		}
	}
	return len(f.Broken) == 0
}
