// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strconv"

	"gpufabric_exporter/internal/exposition"
	"gpufabric_exporter/probes/cluster"
)

const onlyCluster = " Only in what probe cluster writes (--textfile) or pushes (--push)."

// Metrics of probes between nodes. No scrape of the exporter has them: one process writes those of all nodes.
var (
	clusterLastRun = &Family{
		Name: "cluster_probe_last_run_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Help:   "Time at which the last probe between nodes began, in seconds since the epoch." + onlyCluster,
		Source: "probe cluster", Cadence: Probed, Stability: Experimental,
	}
	clusterCoverage = &Family{
		Name: "cluster_probe_coverage_ratio", Type: Gauge, Unit: "ratio",
		Help:   "Share of the expected nodes of which the last probe between nodes knows how fast they are." + onlyCluster,
		Source: "probe cluster", Cadence: Probed, Stability: Experimental,
	}
	clusterMeasured = &Family{
		Name: "cluster_probe_measured_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"probed_node"},
		Help:   "Time at which the probe between nodes began that knows how fast the node is, in seconds since the epoch." + onlyCluster,
		Source: "probe cluster", Cadence: Probed, Stability: Experimental,
	}
	clusterBandwidth = &Family{
		Name: "cluster_probe_bandwidth_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"probed_node", "rail"},
		Help:   "Best bus bandwidth of the node over the median of all nodes of the run. rail: its number, or all: all GPUs of two nodes together." + onlyCluster,
		Source: "probe cluster", Cadence: Probed, Stability: Experimental,
	}
	clusterFault = &Family{
		Name: "cluster_probe_fault_ratio", Type: Gauge, Unit: "ratio",
		Labels: []string{"probed_node", "partner", "rail", "device", "subject", "level"},
		Help: "Share of the bandwidth that a node, rail, path or the whole run lacks, 1 if it fails. Absent without such a verdict. subject: node, rail, path " +
			"(between probed_node and partner), run. level: slow, bad, failed, unknown." + onlyCluster,
		Source: "probe cluster", Cadence: Probed, Stability: Experimental,
	}
)

// clusterFamilies are always in the catalogue: they belong to no collector of a node.
func clusterFamilies() []*Family {
	return []*Family{clusterLastRun, clusterCoverage, clusterMeasured, clusterBandwidth, clusterFault}
}

// ClusterFamilies returns what a probe between nodes found, as families sorted by name.
func ClusterFamilies(r *cluster.Report) []exposition.Family {
	return families(func(emit emit) {
		emit(clusterLastRun, unixSeconds(r.Started))
		emit(clusterCoverage, r.Coverage())
		for i := range r.Nodes {
			n := &r.Nodes[i]
			if r.Known(n) {
				emit(clusterMeasured, unixSeconds(r.Started), n.Name)
			}
			for _, rail := range r.Rails() {
				if s := n.Shares[rail]; s.Ratio > 0 {
					emit(clusterBandwidth, s.Ratio, n.Name, railLabel(rail))
				}
			}
		}
		seen := map[[6]string]bool{}
		for _, v := range r.Verdicts {
			labels := [6]string{v.Node, v.Partner, railLabel(v.Rail), v.Device, string(v.Subject), string(v.Level)}
			if !seen[labels] {
				emit(clusterFault, v.Loss, slices.Clone(labels[:])...)
			}
			seen[labels] = true
		}
	})
}

func railLabel(rail int) string {
	if rail < 0 {
		return "all"
	}
	return strconv.Itoa(rail)
}
