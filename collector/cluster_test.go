// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/probes/cluster"
	"gpufabric_exporter/probes/cluster/search"
)

// What a probe between nodes found has a series for each node and rail, and for each verdict once. What is not known of a
// node is not claimed.
func TestClusterFamilies(t *testing.T) {
	r := &cluster.Report{
		Started: time.Unix(1795914123, 0), Size: 4,
		Nodes: []cluster.Node{
			{Name: "n0", Shares: map[int]cluster.Share{0: {BusBW: 48e9, Ratio: 1}, search.All: {BusBW: 380e9, Ratio: 1}}},
			{Name: "n1", Shares: map[int]cluster.Share{0: {BusBW: 44e9, Ratio: 0.9}}},
			{Name: "n\xff2"},
		},
		Results: []cluster.Result{{Rail: search.All}, {Rail: 0}},
		Verdicts: []cluster.Verdict{
			{Subject: search.OfPath, Level: search.Bad, Node: "n0", Partner: "n1", Rail: 0, Device: "mlx5_0", Loss: 0.25},
			{Subject: search.OfNode, Level: search.Unknown, Node: "n\xff2", Rail: search.All},
			{Subject: search.OfNode, Level: search.Unknown, Node: "n\xff2", Rail: search.All},
		},
	}
	families := ClusterFamilies(r)
	checkCatalogue(t, families, map[string]bool{})
	got := text(t, families)
	for _, want := range []string{
		"gpufabric_cluster_probe_last_run_timestamp_seconds 1.795914123e+09",
		"gpufabric_cluster_probe_coverage_ratio 0.5",
		`gpufabric_cluster_probe_measured_timestamp_seconds{probed_node="n1"} 1.795914123e+09`,
		`gpufabric_cluster_probe_bandwidth_ratio{probed_node="n1",rail="0"} 0.9`,
		`gpufabric_cluster_probe_bandwidth_ratio{probed_node="n0",rail="all"} 1`,
		`gpufabric_cluster_probe_fault_ratio{device="mlx5_0",level="bad",partner="n1",probed_node="n0",rail="0",subject="path"} 0.25`,
		"gpufabric_cluster_probe_fault_ratio{device=\"\",level=\"unknown\",partner=\"\",probed_node=\"n\uFFFD2\",rail=\"all\",subject=\"node\"} 0",
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "measured_timestamp_seconds{probed_node=\"n\uFFFD2\"}") {
		t.Error("a node that is unknown was measured")
	}
}
