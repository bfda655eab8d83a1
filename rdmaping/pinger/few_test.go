// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/rdmaping/locate/locatetest"
)

// TestRulesFew accuses no node whose few peers are dead or off.
func TestRulesFew(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: promtool takes a minute (make rules)")
	}
	for i, c := range []locatetest.Clos{
		{Nodes: 2, PerLeaf: 1, Rails: 1, Spines: 1},
		{Nodes: 3, PerLeaf: 3, Rails: 1, Spines: 1},
		{Nodes: 3, PerLeaf: 1, Rails: 1, Spines: 1},
		{Nodes: 5, PerLeaf: 2, Rails: 2, Spines: 2},
	} {
		others := locatetest.Fault{Name: "all others off"}
		for n := 1; n < c.Nodes; n++ {
			others.Off = append(others.Off, c.Rail(n, 0).Node)
		}
		for _, f := range []locatetest.Fault{
			others,
			{Name: "a node off", Off: []string{"n1"}},
			{Name: "a node dead", Broken: []locatetest.Broken{{Link: locatetest.OfNode("n1"), Share: 1}}},
		} {
			said := simulate(t, c, f, uint64(i), 60)
			t.Logf("%d nodes, %d on a leaf: %s: %s", c.Nodes, c.PerLeaf, f.Name, fmt.Sprint(said))
			for word := range said {
				if of := strings.Fields(word); len(of) < 2 || of[1] != "n1" && !slices.Contains(f.Off, of[1]) {
					t.Errorf("%s", word)
				}
			}
		}
	}
}
