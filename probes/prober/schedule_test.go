// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"fmt"
	"math"
	"testing"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
)

func TestMomentsAreSpread(t *testing.T) {
	const every = time.Hour
	s := schedule{"node17"}
	at := s.next(probes.Key{Kind: probes.Node}, 0, 1, every, probestest.Origin)
	shortest, longest := every, every
	for range 2000 {
		after := s.next(probes.Key{Kind: probes.Node}, 0, 1, every, at)
		if gap := after.Sub(at); gap < every*8/10 || gap > every*12/10 {
			t.Fatalf("%s after %s: expected 80 to 120 %% of %s", gap, at, every)
		}
		if again := s.next(probes.Key{Kind: probes.Node}, 0, 1, every, after.Add(-time.Nanosecond)); !again.Equal(after) {
			t.Fatalf("the moment %s became %s when asked for later", after, again)
		}
		shortest, longest = min(shortest, after.Sub(at)), max(longest, after.Sub(at))
		at = after
	}
	if shortest > every*85/100 || longest < every*115/100 {
		t.Errorf("moments are %s to %s apart: they keep in step with the hour", shortest, longest)
	}
	if n := at.Sub(probestest.Origin).Hours(); math.Abs(n-2001) > 2 {
		t.Errorf("2001 cycles took %.1f hours", n)
	}
}

func TestNodesProbeAtDifferentTimes(t *testing.T) {
	var quarter [4]int
	for i := range 2000 {
		at := schedule{fmt.Sprint("node", i)}.next(probes.Key{Kind: probes.Node}, 0, 1, time.Hour, probestest.Origin)
		if at.Before(probestest.Origin) || at.Sub(probestest.Origin) > 72*time.Minute {
			t.Fatalf("node %d: first moment %s after the start", i, at.Sub(probestest.Origin))
		}
		quarter[min(int(at.Sub(probestest.Origin)/(15*time.Minute)), 3)]++
	}
	for i, n := range quarter {
		if n < 400 || n > 600 {
			t.Errorf("%d of 2000 nodes are due in quarter %d of the first hour, expected 500 or so", n, i)
		}
	}
}

func TestRailsTakeTurns(t *testing.T) {
	const every, rails = 8 * time.Hour, 8
	s := schedule{"node17"}
	var hours [every / time.Hour]int
	for i := range rails {
		at := s.next(probes.Key{Kind: probes.Rail, Device: fmt.Sprint("mlx5_", i), Port: 1}, i, rails, every, probestest.Origin)
		hours[int(at.Sub(probestest.Origin)/time.Hour)%len(hours)]++
	}
	for i, n := range hours {
		if n > 3 {
			t.Errorf("%d of 8 rails are due in hour %d of 8", n, i)
		}
	}
}
