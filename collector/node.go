// SPDX-License-Identifier: Apache-2.0

package collector

import "gpufabric_exporter/internal/fabric"

// The rows of what is always on: the node.
var (
	nodeInfo = &Family{
		Name: "node_info", Type: Info, Labels: []string{"kernel_release"},
		Help:   "The node; constant 1.",
		Source: "/proc/sys/kernel/osrelease, uname", Cadence: Slow, Stability: Stable,
	}
	nodeBootTime = &Family{
		Name: "node_boot_time_seconds", Type: Gauge, Unit: "seconds",
		Help:   "Boot time of the node, in seconds since the epoch. Rules use it to stay silent while a node starts.",
		Source: "/proc/stat btime", Cadence: Slow, Stability: Stable,
	}
	nodeNetNSMode = &Family{
		Name: "node_rdma_netns_mode", Type: StateSet, Labels: []string{"state"},
		Help: "Whether each network namespace sees all RDMA devices (shared) or only its own (exclusive); 1 for the current mode. " +
			"In exclusive mode the exporter must run in the host's network namespace to see the host's devices over netlink.",
		Source: "RDMA_NLDEV_SYS_ATTR_NETNS_MODE", Cadence: Slow, Stability: Stable,
	}
	nodeGPUs = &Family{
		Name: "node_gpus", Type: Gauge,
		Help:   "Number of NVIDIA GPUs on the PCI bus (display and 3D controllers), with or without a driver.",
		Source: "/sys/bus/pci/devices/*/{vendor,class}", Cadence: Slow, Stability: Stable,
	}
	computePortsExpected = &Family{
		Name: "node_compute_ports_expected", Type: Gauge,
		Help:   "Number of active ports of role compute that the site expects on this node. Absent if it is not configured, or the node never had that many: the number may be meant for another kind of node.",
		Source: "config expected.compute_ports", Cadence: Config, Stability: Stable,
	}
)

// nodeFamilies are the rows of the node, in the order of documentation.
func nodeFamilies() []*Family {
	return []*Family{
		nodeInfo, nodeBootTime, nodeNetNSMode, nodeGPUs, computePortsExpected,
	}
}

func collectNode(n *fabric.Node, emit emit) {
	emit(nodeInfo, 1, n.Host.Kernel.Or(""))
	if t, ok := n.Host.BootTime.Get(); ok {
		emit(nodeBootTime, float64(t.Unix()))
	}
	if m, ok := n.Host.RDMANetNS.Get(); ok {
		state(emit, nodeNetNSMode, m, fabric.NetNSModes())
	}
	number(emit, nodeGPUs, n.GPUs)
	if p := n.Binding().Policy.ComputePorts; p != nil {
		emit(computePortsExpected, float64(*p))
	}
}
