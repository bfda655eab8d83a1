// SPDX-License-Identifier: Apache-2.0

package main

// Metrics of probe cluster name nodes as schedulers do: the choice of a node, which is an exporter, does not apply.
const (
	betweenMeasured = `node:gpufabric_cluster_probe:measured_timestamp_seconds{@cluster}`
	betweenLatched  = `node:gpufabric_cluster_probe_fault:latched{@cluster}`
	betweenNone     = "no run of probe cluster is known"
)

func betweenNodes() []line { return []line{betweenNow(), betweenTables()} }

func betweenNow() line {
	return line{
		number(about{
			"Last run between nodes", "How long ago the newest run of probe cluster began.", betweenNone, 6, 3,
		}, "s", `time() - max(gpufabric_cluster_probe_last_run_timestamp_seconds{@cluster})`, []step{{0, good}, {7 * 86400, warning}}, nil),
		number(about{
			"Nodes covered", "Share of the expected nodes of the newest run of which it knows how fast they are.", betweenNone, 6, 3,
		}, "percentunit", `min(gpufabric_cluster_probe_coverage_ratio{@cluster}
and on (cluster, job, instance) gpufabric_cluster_probe_last_run_timestamp_seconds{@cluster}
== on (cluster) group_left () max by (cluster) (gpufabric_cluster_probe_last_run_timestamp_seconds{@cluster}))`,
			[]step{{0, bad}, {0.5, warning}, {0.9, good}}, nil),
		number(about{
			"Slow between nodes", "Nodes that are slow or fail in the last run that measured them.", betweenNone, 6, 3,
		}, "none", orZero(`count(count by (cluster, probed_node) (node:gpufabric_cluster_probe_fault:latched{subject!="path",@cluster}))`,
			betweenMeasured), zero(bad), nil),
		number(about{
			"Slow paths", "Pairs of nodes that are slow with each other only.", betweenNone, 6, 3,
		}, "none", orZero(`count(count by (cluster, probed_node, partner) (node:gpufabric_cluster_probe_fault:latched{subject="path",@cluster}))`,
			betweenMeasured), zero(warning), nil),
	}
}

func betweenTables() line {
	ratio := []step{{0, bad}, {0.95, warning}, {0.98, good}}
	best := func(rail string) string {
		return orElse(`min by (cluster, probed_node) (gpufabric_cluster_probe_bandwidth_ratio{rail`+rail+`"all",@cluster})`,
			`max by (cluster, probed_node) (`+betweenMeasured+`)`, sortedLast)
	}
	return line{
		grid(about{
			"Verdicts between nodes",
			"What the last run that measured a node found of it, confirmed by two nodes that are healthy with others, and paths that are slow although both nodes are good with others. It stays until a run measures the node again.",
			"nothing is slow, or no run of probe cluster is known", 12, 8,
		}, []string{`label_replace(` + betweenLatched + `, "nic", "$1", "device", "(.*)")`}, "-Lost",
			column{field: "probed_node", title: "Node", width: 130}, column{field: "partner", title: "Partner", width: 110},
			column{field: "nic", title: "NIC", width: 110}, column{field: "rail", title: "Rail", width: 60},
			column{field: "level", title: "Level", width: 75, words: words{"bad": {"bad", warning}, "failed": {"failed", bad}}},
			column{field: "A", title: "Lost", unit: "percentunit", width: 80}),
		grid(about{
			"Bandwidth between nodes",
			"What each node reached at best over the median of the nodes of its run: over its worst rail, and with all GPUs together.",
			betweenNone, 12, 8,
		}, []string{
			`time() - max by (cluster, probed_node) (` + betweenMeasured + `)`, best(`!=`), best(`=`),
		}, "Worst rail",
			column{field: "probed_node", title: "Node", width: 130},
			column{field: "A", title: "Measured ago", unit: "s", width: 120},
			column{field: "B", title: "Worst rail", unit: "percentunit", steps: ratio, none: "none", width: 110},
			column{field: "C", title: "All GPUs", unit: "percentunit", steps: ratio, none: "none", width: 110}),
	}
}
