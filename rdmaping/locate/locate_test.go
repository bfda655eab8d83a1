// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"fmt"
	"slices"
	"testing"
)

// mesh is a window of ten messages between all nodes of leaves, and each with itself, of which bad says how many.
func mesh(leaves, perLeaf, rails int, bad func(from, to Rail) int) []Pair {
	var all []Rail
	for l := range leaves {
		for i := range perLeaf {
			for r := range rails {
				all = append(all, Rail{Node: fmt.Sprintf("n%d", l*perLeaf+i), Number: r, Leaf: fmt.Sprintf("l%d", l)})
			}
		}
	}
	var window []Pair
	for _, from := range all {
		for _, to := range all {
			if from.Number == to.Number && (from.Node != to.Node || from == to) {
				window = append(window, Pair{From: from, To: to, Sent: 10, Bad: bad(from, to)})
			}
		}
	}
	return window
}

// any10 is all messages where one end is so.
func any10(so func(Rail) bool) func(from, to Rail) int {
	return func(from, to Rail) int {
		if from.Node != to.Node && (so(from) || so(to)) {
			return 10
		}
		return 0
	}
}

func TestJudge(t *testing.T) {
	crosses := func(a, b string) func(from, to Rail) int {
		return func(from, to Rail) int {
			if from.Leaf != to.Leaf && (a == "" || from.Leaf == a || to.Leaf == a) && (b == "" || from.Leaf == b || to.Leaf == b) {
				return 10
			}
			return 0
		}
	}
	for _, c := range []struct {
		name  string
		rails int
		bad   func(from, to Rail) int
		want  string
	}{
		{"nothing", 2, func(_, _ Rail) int { return 0 }, ""},
		{"own rail", 2, any10(func(r Rail) bool { return r == Rail{"n3", 1, "l0"} }), "rail n3 1"},
		{"the only rail", 1, any10(func(r Rail) bool { return r.Node == "n3" }), "rail n3 0"},
		{"node", 2, any10(func(r Rail) bool { return r.Node == "n3" }), "node n3"},
		{"leaf", 1, any10(func(r Rail) bool { return r.Leaf == "l1" }), "leaf l1"},
		{"uplinks", 1, crosses("l1", ""), "leaf l1"},
		{"path", 1, crosses("l1", "l2"), "path l1 l2"},
		{"spines", 1, crosses("", ""), "fabric"},
		{"host", 1, func(from, to Rail) int {
			if from.Node == "n3" {
				return 4
			}
			return 0
		}, "host n3"},
		{"host whose answers are late", 1, func(from, to Rail) int {
			if from.Node == "n3" || to.Node == "n3" {
				return 4
			}
			return 0
		}, "host n3"},
		{"one pair", 1, func(from, to Rail) int {
			if from.Node == "n3" && to.Node == "n9" {
				return 10
			}
			return 0
		}, "unlocated"},
		{"one reporter of a path", 1, func(from, to Rail) int {
			if from.Node == "n3" && to.Leaf == "l2" {
				return 10
			}
			return 0
		}, "unlocated"},
		{"too few bad messages", 1, func(from, to Rail) int {
			if from.Node == "n3" && to.Leaf == "l2" {
				return 1
			}
			return 0
		}, ""},
		{"rail and leaf", 1, func(from, to Rail) int {
			return max(any10(func(r Rail) bool { return r.Node == "n3" })(from, to), crosses("l1", "")(from, to))
		}, "leaf l1, rail n3 0"},
	} {
		got := said(Judge(mesh(4, 4, c.rails, c.bad), 0.1))
		if got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}

// said is verdicts as a line.
func said(verdicts []Verdict) string {
	line := ""
	for _, v := range verdicts {
		s := string(v.Kind)
		switch v.Kind {
		case OwnRail:
			s += fmt.Sprintf(" %s %d", v.Node, v.Rail)
		case Host, Node:
			s += " " + v.Node
		case Leaf:
			s += " " + v.Leaves[0]
		case Path:
			s += " " + v.Leaves[0] + " " + v.Leaves[1]
		}
		if line != "" {
			line += ", "
		}
		line += s
	}
	return line
}

// TestSilentNode accuses a node that reports nothing only when several others miss it.
func TestSilentNode(t *testing.T) {
	gone := func(r Rail) bool { return r.Node == "n3" }
	window := mesh(4, 4, 1, any10(gone))
	window = slices.DeleteFunc(window, func(p Pair) bool { return gone(p.From) })
	if got := said(Judge(window, 0.1)); got != "node n3" {
		t.Errorf("%q", got)
	}
	window = slices.DeleteFunc(window, func(p Pair) bool { return gone(p.To) && p.From.Node != "n1" && p.From.Node != "n2" })
	if got := said(Judge(window, 0.1)); got != "unlocated" {
		t.Errorf("two witnesses: %q", got)
	}
}

// TestWithoutLeaves knows rails and nodes where no target says its leaf.
func TestWithoutLeaves(t *testing.T) {
	window := mesh(4, 4, 1, any10(func(r Rail) bool { return r.Node == "n3" || r.Leaf == "l1" }))
	for i := range window {
		window[i].From.Leaf, window[i].To.Leaf = "", ""
	}
	if got := said(Judge(window, 0.1)); got != "rail n3 0, rail n4 0, rail n5 0, rail n6 0, rail n7 0" {
		// Ties end in the order of names; each of them is bad with everyone.
		t.Errorf("%q", got)
	}
}
