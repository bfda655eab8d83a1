// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"slices"
	"testing"
)

// TestTogether tells three paths or leaves as one fault, and two of them each.
func TestTogether(t *testing.T) {
	few := func(r Rail, leaves ...string) bool {
		return slices.Contains(leaves, r.Leaf)
	}
	among := func(leaves ...string) func(from, to Rail) int {
		return func(from, to Rail) int {
			if from.Leaf != to.Leaf && few(from, leaves...) && few(to, leaves...) {
				return 3
			}
			return 0
		}
	}
	of := func(leaves ...string) func(from, to Rail) int {
		return func(from, to Rail) int {
			if from.Leaf != to.Leaf && (few(from, leaves...) || few(to, leaves...)) {
				return 3
			}
			return 0
		}
	}
	for _, c := range []struct {
		name    string
		bad     func(from, to Rail) int
		want    string
		between int
	}{
		{"a path", among("l0", "l1"), "path l0 l1", 0},
		{"half of the leaves, towards each other", among("l0", "l1", "l2"), "fabric", 3},
		{"two leaves", of("l0", "l1"), "leaf l0, leaf l1", 0},
		{"three leaves", of("l0", "l1", "l2"), "fabric", 3},
	} {
		got := Judge(mesh(8, 3, 1, c.bad), 0.01)
		if said(got) != c.want || len(got) == 0 || len(got[0].Between) != c.between {
			t.Errorf("%s: %s %+v, expected %s", c.name, said(got), got, c.want)
		}
	}
}

// TestSecondLeaf: of three leaves one loses messages, and on another one a host loses some by itself.
func TestSecondLeaf(t *testing.T) {
	window := mesh(3, 3, 1, func(from, to Rail) int {
		switch {
		case from.Leaf != to.Leaf && (from.Leaf == "l0" || to.Leaf == "l0"):
			return 40
		case from != to && from.Node == "n3":
			return 10
		}
		return 0
	})
	for i := range window {
		window[i].Sent = 600
	}
	if got := said(Judge(window, 0.002)); got != "leaf l0, unlocated" {
		t.Error(got)
	}
}

// TestLoopbackOfARail: it says nothing of the other rails of the node.
func TestLoopbackOfARail(t *testing.T) {
	window := mesh(4, 4, 2, func(from, to Rail) int {
		if from.Node == "n3" && from == to && from.Number == 0 ||
			from != to && (from.Node == "n3" || to.Node == "n3") && from.Number == 1 {
			return 10
		}
		return 0
	})
	if got := said(Judge(window, 0.3)); got != "host n3, rail n3 1" {
		t.Error(got)
	}
}

// TestSmallLossOfAHost: a rail that loses little is accused only if its loopback had the chance to lose as much.
func TestSmallLossOfAHost(t *testing.T) {
	for _, c := range []struct {
		sent, loop int
		want       string
	}{
		{600, 0, ""}, // four would be expected, which may be chance
		{3600, 0, "rail n3 0"},
		{3600, 3, ""}, // the host is busy
	} {
		window := mesh(4, 4, 1, func(from, to Rail) int {
			if from == to && from.Node == "n3" {
				return c.loop
			}
			return any10(func(r Rail) bool { return r.Node == "n3" })(from, to) / 10 * c.sent / 150
		})
		for i := range window {
			window[i].Sent = c.sent
		}
		if got := said(Judge(window, 0.002)); got != c.want && (c.want != "" || got != "unlocated") {
			t.Errorf("%d messages, %d of loopback lost: %q, expected %q", c.sent, c.loop, got, c.want)
		}
	}
}
