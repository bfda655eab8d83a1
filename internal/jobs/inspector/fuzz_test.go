// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// checkSamples: samples are finite, of known words, and bounded.
func checkSamples(t *testing.T, samples []fabric.CollectiveSample) {
	t.Helper()
	if len(samples) > len(operations)*4*2 {
		t.Errorf("%d samples", len(samples))
	}
	for _, s := range samples {
		if !slices.Contains(operations, s.Collective) || !(s.BusBandwidth > 0 && s.BusBandwidth <= 1.001e9*maxBandwidth) || s.Duration < 0 || s.Duration > 2*time.Hour {
			t.Errorf("%+v", s)
		}
	}
}

// FuzzParse: whatever a file of the Prometheus mode says, its samples are bounded.
func FuzzParse(f *testing.F) {
	f.Add([]byte(metricsOf30("AllReduce", "4-5GB", "DP Group 0", 2, 100, 2000)))
	f.Add([]byte(metricsOf29("Reduce", "4.25GB", 100, 2000)))
	f.Add([]byte(`nccl_bus_bandwidth_gbs{collective="AllReduce",message_size="9-",n_nodes="2"} 1` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		samples, ok := parseMetrics(data)
		if !ok && samples != nil {
			t.Error("refused, with samples")
		}
		checkSamples(t, samples)
	})
}

// FuzzAppended: however a file of the JSON mode grows and is cut, what is known of it is bounded, and no total falls.
func FuzzAppended(f *testing.F) {
	line := coll30(1, "AllReduce", 7, 64<<20, 150, 800)
	f.Add([]byte(line+line[:50]), []byte(line[50:]+record28("AllGather", 1<<30, `"nan"`, 7)), []byte(p2p30("Send", 512<<20, 40, 12000)))
	f.Add([]byte(line), []byte("x\n"), []byte(line))
	f.Add([]byte(marker("v4.4", 1, 2, 2)+bare("AllReduce", 5, 100, 9)), []byte(bare("AllReduce", 6, 100, 9)+proxyLine), []byte(marker("v4.2", 1, 1, 0)+line))
	f.Add([]byte("\n\n"), bytes.Repeat([]byte(line), 200), []byte(line+"{"))
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		var a appended
		last := map[operation]fabric.CollectiveTotal{}
		for i, data := range [][]byte{first, slices.Concat(first, second), slices.Concat(first, second, third), third} {
			refused, err := a.read(bytes.NewReader(data), int64(len(data)), maxAppended, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if refused == "" && a.offset > int64(len(data)) {
				t.Errorf("at %d of %d", a.offset, len(data))
			}
			samples, totals := a.samples(time.Now())
			checkSamples(t, samples)
			if len(totals) > 2*len(operations) || len(a.last) > maxSequences {
				t.Errorf("%d totals, %d sequences", len(totals), len(a.last))
			}
			for _, now := range totals {
				o := operation{now.Collective, now.Nodes}
				if was := last[o]; i < 3 && (now.Recorded < was.Recorded || now.Seconds < was.Seconds || now.Launched < was.Launched) {
					t.Errorf("falls from %+v to %+v", was, now)
				}
				for _, v := range []float64{now.Recorded, now.Seconds, now.Launched} {
					if math.IsNaN(v) || v < 0 || v > 1e18 {
						t.Errorf("%+v", now)
					}
				}
				last[o] = now
			}
		}
	})
}
