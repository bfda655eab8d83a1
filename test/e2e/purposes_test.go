// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

// purposes says which scenario a query of a dashboard is for, by the name of the dashboard, those of dashboard and panel,
// or that of the query, where they differ. A query that is not here is for any node. A minus begins the
// reason why no scenario shows it.
func purposes() map[string]string {
	const (
		unchanged = "- nothing is replaced here"
		nameless  = "- the cluster of this test has no name"
		others    = "other healthy nodes"
		stated    = "- all nodes chosen here state it"
		pushed    = "- nothing is pushed by a probe between nodes here"
	)
	return map[string]string{
		"fleet/variable: cluster":            nameless,
		"fleet/Open findings":                "pfc-off",
		"fleet/Open findings/B":              "nvlink-down", // which has numbers
		"fleet/TCP instead of RDMA":          "probe-tcp-fallback",
		"fleet/Bandwidth below the baseline": "probe-slow",
		"fleet/Error budget left":            "- it needs a day of data",
		"fleet/All nodes/F":                  others,        // one of them has checks that are unknown
		"fleet/All nodes/H":                  "pcie-nic-x8", // which is a warning
		"fleet/Firing alerts":                "port-down",
		"fleet/Red in the last 24 hours/A":   "port-down",

		"node/variable: cluster":              nameless,
		"node/annotation: Firmware changes":   unchanged,
		"node/annotation: GPU driver changes": unchanged,
		"node/annotation: NCCL changes":       unchanged,
		"node/Open findings":                  "pfc-off",
		"node/Open findings/B":                "nvlink-down",
		"node/Checks without a verdict":       others,
		"node/Probes/D":                       "probe-slow", // why it is slow
		"node/Clocks held down":               "gpu-power-brake",
		"node/Sources that cannot be read":    "statistics-refused",
		"node/Firing alerts":                  "port-down",
		"node/Link errors/A":                  "post-fec-errors",
		"node/Link errors/B":                  "post-fec-errors",
		"node/NVLink errors/A":                "nvlink-errors",
		"node/PCIe errors/A":                  "pcie-errors",

		"node/Ports up/C": "- the state of ports is unknown only where it cannot be read",
		"node/Ports up/D": stated, // of EFA there is no state

		"port/Probe of this rail/D":           "probe-slow",
		"port/variable: cluster":              nameless,
		"port/annotation: Firmware changes":   unchanged,
		"port/annotation: GPU driver changes": unchanged,
		"port/annotation: NCCL changes":       unchanged,
		"port/Rate/C":                         stated, // without an expected rate

		"jobs/variable: cluster":             nameless,
		"jobs/Suspected jobs, by NCCL RAS":   "job-hang",
		"jobs/Collectives of running jobs":   "job-bandwidth-falls",
		"jobs/Collectives of running jobs/C": "- the job has two nodes here, and needs three to have peers",
		"jobs/Collectives of running jobs/E": others, // for which the slow one waits

		"roce/variable: cluster":               nameless,
		"roce/Paused by the network/A":         others,
		"roce/Pausing the network/A":           "pfc-storm",
		"roce/Lost on arrival/A":               "lossless-drops",
		"roce/Out of sequence/A":               "lossless-drops",
		"roce/Sent again/A":                    "retransmissions",
		"roce/Connections given up, by port/A": "qp-death",

		"probes/variable: cluster":              nameless,
		"probes/annotation: Firmware changes":   unchanged,
		"probes/annotation: GPU driver changes": unchanged,
		"probes/annotation: NCCL changes":       unchanged,
		"probes/Last results/D":                 "probe-slow", // why it is slow
		"probes/Rails against the line rate":    others,       // expected only where two GPUs are near one NIC
		"probes/Failures by reason":             "probe-wrong-result",
		"probes/Verdicts between nodes":         pushed,
		"probes/Bandwidth between nodes":        pushed,

		"ping": "- simulated nodes have no RDMA device to ping over",
	}
}
