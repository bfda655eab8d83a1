// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"gpufabric_exporter/rdmaping"
)

// pinged is a rail that takes part, with as much as there can be of it.
func pinged(device string, rail int) rdmaping.RailStatus {
	r := rdmaping.RailStatus{
		Device: device, Port: 1, Rail: rail, Leaf: "l0", Address: "n0:10791", Judged: true, Fault: rdmaping.Elsewhere,
		Loop: rdmaping.Count{Sent: 60}, Large: rdmaping.Count{Sent: 8, Lost: 1}, Answered: now,
		RTT: map[rdmaping.Group]*dto.Histogram{}, Clock: rdmaping.OfNIC, Host: 1500 * time.Millisecond,
		Flows: rdmaping.Count{Sent: 64, Lost: 8}, Reordered: 2, Doubtful: 1,
	}
	for _, g := range []rdmaping.Group{rdmaping.Loopback, rdmaping.Near, rdmaping.Far} {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Buckets: buckets(), NativeHistogramBucketFactor: 1.1})
		h.Observe(15e-6)
		var m dto.Metric
		_ = h.Write(&m)
		r.RTT[g] = m.Histogram
	}
	for _, leaf := range []string{"l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7"} {
		r.Leaves = append(r.Leaves, rdmaping.LeafCount{Leaf: leaf, Group: rdmaping.Far, Count: rdmaping.Count{Sent: 60, Lost: 3}})
	}
	for _, peer := range []string{"n1:10791", "n2:10791", "n3:10791"} {
		r.Bad = append(r.Bad, rdmaping.BadPeer{Address: peer, Ratio: 0.05})
	}
	return r
}

func buckets() []float64 { return []float64{3e-6, 10e-6, 30e-6, 100e-6, 1e-3, 10e-3} }

func TestPing(t *testing.T) {
	moved := rdmaping.RailStatus{Device: "mlx5_1", Port: 1, Rail: 1, Uncovered: rdmaping.UncoveredMoved}
	s := rdmaping.Status{Enabled: true, Targets: 16, Untold: 3, Starts: 1, Rails: []rdmaping.RailStatus{pinged("mlx5_0", 0), moved}}
	set, err := NewSet([]string{pingName})
	if err != nil {
		t.Fatal(err)
	}
	gathered := new(Gathered)
	families := set.WithPing(func() rdmaping.Status { return s }).GatherAgain(gathered, nodeOf(), ConfigState{LoadedAt: now, LastOK: true})
	if err := gathered.Err(); err != nil {
		t.Fatal(err)
	}
	emitted := map[string]bool{}
	checkCatalogue(t, families, emitted)
	checkFormats(t, families)
	for _, f := range pingFamilies() {
		if !emitted[f.FullName()] {
			t.Errorf("%s is not emitted", f.FullName())
		}
	}
	problems, err := testutil.GatherAndLint(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return protos(families), nil }))
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	series := 0
	out := text(t, families)
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, Prefix+"ping_") && strings.Contains(line, `device="mlx5_0"`) {
			series++
		}
	}
	if series != 60 { // at most: eight peers on eight leaves
		t.Errorf("%d series of a rail", series)
	}
	for _, want := range []string{
		`gpufabric_ping_targets_without_rails 3`,
		`gpufabric_ping_info{address="n0:10791",device="mlx5_0",leaf="l0",port="1",rail="0"} 1`,
		`gpufabric_ping_rtt_seconds_bucket{clock="nic",device="mlx5_0",peers="loopback",port="1",le="3e-05"} 1`,
		`gpufabric_ping_host_seconds_total{device="mlx5_0",port="1"} 1.5`,
		`gpufabric_ping_flows_total{device="mlx5_0",port="1"} 64`,
		`gpufabric_ping_flows_lost_total{device="mlx5_0",port="1"} 8`,
		`gpufabric_ping_reordered_total{device="mlx5_0",port="1"} 2`,
		`gpufabric_ping_doubtful_times_total{device="mlx5_0",port="1"} 1`,
		`gpufabric_ping_rtt_seconds_count{clock="nic",device="mlx5_0",peers="leaf",port="1"} 1`,
		`gpufabric_ping_lost_total{device="mlx5_0",leaf="l0",peer_leaf="l5",peers="fabric",port="1"} 3`,
		`gpufabric_ping_fault{device="mlx5_0",fault="elsewhere",port="1"} 1`,
		`gpufabric_ping_fault{device="mlx5_0",fault="rail",port="1"} 0`,
		`gpufabric_ping_peer_loss_ratio{device="mlx5_0",leaf="l0",peer="n3:10791",port="1",rail="0"} 0.05`,
		`gpufabric_ping_uncovered{device="mlx5_1",port="1",reason="moved"} 1`,
	} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("lacks %s:\n%s", want, out)
		}
	}
	for _, m := range protos(families) {
		if m.GetName() == "gpufabric_ping_rtt_seconds" && (m.GetType() != dto.MetricType_HISTOGRAM || len(m.Metric[0].Histogram.PositiveSpan) == 0) {
			t.Errorf("no native buckets: %v", m)
		}
	}
}
