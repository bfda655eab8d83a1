// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/probes"
)

// Each iteration is timed by itself where that is wanted, and only there.
func TestEachIteration(t *testing.T) {
	t.Parallel()
	g := connected(t, 2, standin(t, []string{"latency 0.02"}))
	sum := measure(probes.AllReduce, probes.Float32, 4096)
	sum.Measure.Iterations = 5
	for _, o := range g.each(sum) {
		if o.err != nil || len(o.Measure.Each) != 0 {
			t.Errorf("%v: %v, expected no times", o.err, o.Measure.Each)
		}
	}
	sum.Measure.Each = true
	for _, o := range g.each(sum) {
		var all time.Duration
		for _, d := range o.Measure.Each {
			if all += d; d < 15*time.Millisecond {
				t.Errorf("an iteration takes %s, expected 20ms", d)
			}
		}
		if n := len(o.Measure.Each); n != 5 || (all-o.Measure.DeviceTime).Abs() > time.Millisecond {
			t.Errorf("%d iterations take %s, expected 5 and %s", n, all, o.Measure.DeviceTime)
		}
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
