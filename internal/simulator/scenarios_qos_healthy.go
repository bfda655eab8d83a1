// SPDX-License-Identifier: Apache-2.0

package simulator

import "syscall"

// qosHealthyScenarios look wrong and are not.
func qosHealthyScenarios() []Scenario {
	return []Scenario{
		{
			Name: "healthy-roce-bond", Platform: "roce-bond", policy: losslessPolicy,
			Summary: "healthy node whose compute devices are bonds",
			Truth: "Four RDMA devices over two ports each. The bonds have no DCB, no statistics and no MLNX_OFED files; their member ports " +
				"have them, with identical settings. The traffic of a device is the sum over its members. Nothing is reported.",
		},
		{
			Name: "healthy-roce-vlan", Platform: "roce-vlan",
			Summary: "healthy node whose fabric takes the priority from the VLAN tag",
			Truth: "The GIDs belong to VLAN interfaces, which have no DCB. The ports below trust PCP and have PFC on priority 3, which " +
				"NCCL_IB_SL=3 writes into the tag. No DSCP is needed. Nothing is reported.",
		},
		{
			Name: "vf-qos-unknown", Platform: "sriov-vf", policy: losslessPolicy,
			Summary: "healthy virtual functions whose RoCE settings are unknown",
			Truth: "The port of a virtual function belongs to the physical function: it has no DCB, does not report pause, and its statistics " +
				"of priorities stay zero while RDMA traffic flows. Therefore the settings of mlx5_4, which counts as a compute port, are " +
				"unknown; it is not reported as lossy or as using the wrong priority. Nothing is reported.",
		},
		{
			Name: "lossy-design", Platform: h100, policy: lossyPolicy,
			Summary: "healthy node in a fabric without PFC",
			Truth: "The site has configured that its RoCE is lossy: PFC is off on every port, ECN is on, ports answer congestion with " +
				"notifications, and the few lost packets are retransmitted. Nothing is reported.",
			edit: func(n *Node) {
				for _, f := range onCompute("") {
					n.qos(f.Device).SetPFC(0)
					marked(n, f.Device)
				}
			},
		},
		{
			Name: "lossy-unstated", Platform: h100,
			Summary: "healthy node without PFC, whose site has not configured what it expects",
			Truth: "PFC is off on all eight compute ports, and the site configures no expectation for RoCE, so the fabric may be lossy by " +
				"design. The ports do not differ. Nothing is reported.",
			edit: func(n *Node) {
				for _, f := range onCompute("") {
					n.qos(f.Device).SetPFC(0)
				}
			},
		},
		{
			Name: "statistics-refused", Platform: h100, policy: losslessPolicy,
			Summary: "healthy node on which one driver does not return its statistics",
			Truth: "The firmware of enp79s0np0 answers EIO when its statistics are read. Everything that depends on them is unknown; no fault " +
				"is known. Nothing is reported.",
			edit: func(n *Node) { n.NetDev("enp79s0np0").StatsErr = syscall.EIO },
		},
		{
			Name: "brief-pauses", Platform: h100, policy: losslessPolicy,
			Summary: "healthy node whose ports send and receive a few pause frames",
			Truth: "All rails send and receive some pause frames, as in every incast. No port is paused for more than 0.5 % of the time, and " +
				"nothing is lost: this is how PFC is meant to work. Nothing is reported.",
			edit: func(n *Node) {
				for _, f := range onCompute("") {
					count(n, f.Device, map[string]uint64{
						"rx_prio3_pause": 400, "rx_prio3_pause_duration": 4_200, "rx_prio3_pause_transition": 200,
						"tx_prio3_pause": 110, "tx_prio3_pause_duration": 900,
					})
				}
			},
		},
		{
			Name: "traffic-class-104", Platform: h100, policy: losslessPolicy,
			Summary: "healthy node with traffic class 104 instead of the usual 106",
			Truth: "NCCL_IB_TC=104 and 106 differ in the ECN bits, which the NIC sets itself: both are DSCP 26 and priority 3. Nothing is " +
				"reported.",
			edit: func(n *Node) { n.setNCCL("NCCL_IB_TC=106", "NCCL_IB_TC=104") },
		},
	}
}
