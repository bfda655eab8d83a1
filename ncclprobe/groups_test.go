// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/probes"
)

// Ranks leave a communicator and join others with the GPU that they have, and send what belongs to their new places.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	g := connected(t, 3, standin(t, nil))
	leave := probes.Request{Disconnect: &struct{}{}}
	sum := measure(probes.AllReduce, probes.Float32, 4096)
	sum.Measure.Warmups = 2
	succeed(t, g.each(sum))
	succeed(t, g.each(leave))
	for _, pair := range []group{{g[2], g[0]}, {g[1], g[2]}} {
		id := pair[0].must(newID).ID
		succeed(t, pair.all(func(rank int) probes.Request {
			return probes.Request{Connect: &probes.ConnectRequest{ID: id, Rank: rank, Ranks: 2, MaxCTAs: 2, Timeout: patient}}
		}))
		outcomes := pair.each(sum)
		succeed(t, outcomes)
		for rank, o := range outcomes {
			if o.Measure.Wrong != 0 {
				t.Errorf("rank %d: %d elements are wrong", rank, o.Measure.Wrong)
			}
		}
		succeed(t, pair.each(leave))
	}
	if _, err := g[0].ask(leave); err == nil || !strings.Contains(err.Error(), "nothing is connected") {
		t.Errorf("left twice: %v", err)
	}
	succeed(t, g.each(closeRank))
}

// More ranks than a type has exact sums for are refused.
func TestExactRanks(t *testing.T) {
	for dtype, ranks := range map[probes.DType]int{probes.BFloat16: 128, probes.Float16: 1024, probes.Float32: maxRanks, probes.Int32: maxRanks} {
		if n := most(dtype, ranks); n < 2 {
			t.Errorf("%s: %d ranks send up to %d", dtype, ranks, n)
		}
		if ranks == maxRanks {
			continue
		}
		r := &rank{ranks: ranks + 1}
		if _, err := r.measure(measure(probes.AllReduce, dtype, 1<<20).Measure, time.Now().Add(patient)); err == nil ||
			!strings.Contains(err.Error(), "sums would not be exact") {
			t.Errorf("%s: %d ranks: %v", dtype, ranks+1, err)
		}
	}
}
