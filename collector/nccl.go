// SPDX-License-Identifier: Apache-2.0

package collector

import "gpufabric_exporter/internal/fabric"

// The rows of the collector nccl.
var (
	ncclConfigVariables = &Family{
		Name: "nccl_config_variables", Type: Gauge,
		Help:   "Number of NCCL variables that the host's configuration files set for every job.",
		Source: "/etc/nccl.conf, config nccl", Cadence: Slow, Stability: Stable,
	}
	ncclConfigFindings = &Family{
		Name: "nccl_config_findings", Type: Gauge, Labels: []string{"rule"},
		Help:   "Number of lines of the host's NCCL configuration files that NCCL ignores, refuses or misreads, or that have no effect or are deprecated, by rule; absent if there are none.",
		Source: "/etc/nccl.conf, config nccl", Cadence: Slow, Stability: Experimental,
	}
)

// ncclFamilies are the rows of the collector nccl, in the order of documentation.
func ncclFamilies() []*Family {
	return []*Family{
		ncclConfigVariables, ncclConfigFindings,
	}
}

func collectNCCL(n *fabric.Node, emit emit) {
	emit(ncclConfigVariables, float64(len(n.NCCL.Variables)))
	count := map[string]int{}
	var rules []string
	for _, f := range n.NCCL.Findings {
		if count[f.Rule] == 0 {
			rules = append(rules, f.Rule)
		}
		count[f.Rule]++
	}
	for _, r := range rules {
		emit(ncclConfigFindings, float64(count[r]), r)
	}
}

func hasNCCLFile(n *fabric.Node) (bool, string) {
	for _, f := range n.NCCL.Files {
		if f.Exists.State != fabric.Absent {
			return true, ""
		}
	}
	return false, "the host has no NCCL configuration file"
}
