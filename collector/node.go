// SPDX-License-Identifier: Apache-2.0

package collector

import "gpufabric_exporter/internal/fabric"

func collectNode(n *fabric.Node, emit emit) {
	emit(nodeInfo, 1, n.Host.Kernel.Or(""))
	if t, ok := n.Host.BootTime.Get(); ok {
		emit(nodeBootTime, float64(t.Unix()))
	}
	if m, ok := n.Host.RDMANetNS.Get(); ok {
		state(emit, nodeNetNSMode, m, fabric.NetNSModes())
	}
	number(emit, nodeGPUs, n.GPUs)
	if p := n.Policy.ComputePorts; p != nil {
		emit(computePortsExpected, float64(*p))
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
