// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

// purposes says which scenario a query of a dashboard is for, by the names of dashboard and panel, and that of the query
// where those of a panel differ. What is not here is for any node. A minus says why nothing here shows it.
func purposes() map[string]string {
	const (
		unchanged = "- nothing is replaced here"
		nameless  = "- the cluster of this test has no name"
	)
	return map[string]string{
		"fleet/Nodes with critical findings": "pfc-off",
		"fleet/Training ports down":          "port-down",
		"fleet/Nodes on TCP":                 "probe-tcp-fallback",
		"fleet/Nodes slower than they were":  "probe-slow",
		"fleet/Open findings":                "pfc-off",
		"fleet/Worst nodes":                  "pfc-off",
		"fleet/Nodes that talk TCP":          "probe-tcp-fallback",
		"fleet/Bandwidth below the baseline": "probe-slow",
		"fleet/Firing alerts":                "port-down",

		"node/Open findings":          "pfc-off",
		"node/annotation: Firmware":   unchanged,
		"node/annotation: GPU driver": unchanged,
		"node/annotation: NCCL":       unchanged,

		"probes/Last results/C":              "probe-wrong-result",
		"probes/Probes on TCP":               "probe-tcp-fallback",
		"probes/Probes without GPUDirect":    "probe-gdr-lost",
		"probes/Probes that fail":            "probe-wrong-result",
		"probes/Rails against the line rate": "healthy-ib", // one GPU beside each NIC is not enough for an expectation
		"probes/Failures by reason":          "probe-wrong-result",
		"probes/annotation: Firmware":        unchanged,
		"probes/annotation: GPU driver":      unchanged,
		"probes/annotation: NCCL":            unchanged,
		"fleet/variable: cluster":            nameless,
		"node/variable: cluster":             nameless,
		"probes/variable: cluster":           nameless,
		"roce/variable: cluster":             nameless,
	}
}
