// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"

	"gpufabric_exporter/rdmaping/locate"
	"gpufabric_exporter/rdmaping/locate/locatetest"
)

// late counts how long answers took, in the buckets of the histogram of round-trip times.
func (f *fleet) late(pairs []locate.Pair, l locatetest.Late, random *rand.Rand) {
	bounds := []float64{10e-6, 30e-6, 100e-6, 300e-6, 1e-3, 10e-3, 100e-3}
	for _, p := range pairs {
		peers, counts := "fabric", f.counts[p.From.Node]
		switch {
		case p.From == p.To:
			peers = "loopback"
		case p.From.Leaf == p.To.Leaf:
			peers = "leaf"
		}
		took := l.RTT(p, random).Seconds()
		for _, le := range bounds {
			series := name("rtt_seconds_bucket", p.From, fmt.Sprintf(`,peers="%s",le="%g"`, peers, le))
			if counts[series] += 0; took <= le {
				counts[series]++
			}
		}
		counts[name("rtt_seconds_bucket", p.From, fmt.Sprintf(`,peers="%s",le="+Inf"`, peers))]++
	}
}

// TestRulesSlow plants what is slow beside busy jobs.
func TestRulesSlow(t *testing.T) {
	if os.Getenv("FULL") == "" {
		t.Skip("skipped: it takes minutes (FULL=1)")
	}
	c := locatetest.Clos{Nodes: 64, PerLeaf: 8, Rails: 1, Spines: 4}
	var s rulesScore
	for i, l := range c.LateFaults() {
		f := newFleet(c, uint64(i))
		random := rand.New(rand.NewPCG(uint64(i), 9))
		synctest.Test(t, func(*testing.T) {
			c.Run(locatetest.Fault{}, begins, 1300, 1, func(second int, pairs []locate.Pair) {
				works := locatetest.Late{}
				if second >= begins {
					works = l
				}
				f.add(pairs, nil)
				f.late(pairs, works, random)
				f.scrape(second, nil)
			})
		})
		s.add(t, c, locatetest.Fault{Name: l.Name, Want: l.Want}, fired(t, f.write(t), begins))
	}
	s.log(t, c)
	if s.wrong > 0 || s.missed > 0 {
		t.Errorf("%+v", s)
	}
}
